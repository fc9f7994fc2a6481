"""Trains a small language model whose batch and weights are split over 'data'.

What a layer computes has a batch and features, and can follow one of them only:
`--first` says which. A script as any other: docs/aot.md runs it for TPUs that
are not there.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

VOCABULARY, LENGTH, WIDTH = 256, 128, 128
# Priorities of the batch and of the weights.
PRIORITIES = {'none': (None, None), 'batch': (0, 1), 'weights': (1, 0)}


class Model(torch.nn.Module):
  """Token ids [batch, length] to logits [batch, length, VOCABULARY]."""

  def __init__(self):
    super().__init__()
    self.token = torch.nn.Embedding(VOCABULARY, WIDTH)
    self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
    self.down = torch.nn.Linear(4 * WIDTH, WIDTH)
    self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

  def forward(self, tokens: torch.Tensor) -> torch.Tensor:
    x = self.token(tokens)
    return self.head(x + self.down(F.gelu(self.up(x))))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--first', choices=list(PRIORITIES), default='none')
  parser.add_argument('--sequences', type=int, default=1, help='per device')
  options = parser.parse_args()
  of_batch, of_weights = PRIORITIES[options.first]
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  mesh = xs.Mesh(np.arange(count), (count,), ('data',))
  model = Model().to(torch.bfloat16).to('xla')
  for weight in (p for p in model.parameters() if p.dim() == 2):
    xs.mark_sharding(weight, mesh, ('data', None), priority=(of_weights, None))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  for step in range(3):
    tokens = torch.randint(0, VOCABULARY,
                           (options.sequences * count, LENGTH)).to('xla')
    xs.mark_sharding(tokens, mesh, ('data', None), priority=(of_batch, None))
    optimizer.zero_grad()
    loss = F.cross_entropy(
        model(tokens).flatten(0, 1),
        tokens.roll(-1, 1).flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print('step', step, 'loss', loss.item())


if __name__ == '__main__':
  main()
