"""Trains both ends of a language model with one table.

It looks tokens up and, turned over, scores the next ones.

Each group of eight devices has the whole table, split over the vocabulary, and
its own part of the batch, which is split over the same eight. The scores can
follow one of them only: rows are exchanged, or the table is gathered.
"""

from __future__ import annotations

import argparse
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

GROUP = 8
# Priorities of the table and of the tokens.
PRIORITIES = {'none': (None, None), 'table': (0, 1), 'tokens': (1, 0)}


class Model(torch.nn.Module):
  """Scores the next token: [..., length] -> [..., length, vocabulary]."""

  def __init__(self, vocabulary: int, width: int):
    super().__init__()
    self.table = torch.nn.Embedding(vocabulary, width)
    torch.nn.init.normal_(self.table.weight, std=width**-0.5)
    self.norm = torch.nn.LayerNorm(width)

  def forward(self, tokens: torch.Tensor) -> torch.Tensor:
    return self.norm(self.table(tokens)) @ self.table.weight.T


def options(arguments: Optional[list[str]] = None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--first', choices=list(PRIORITIES), default='none')
  parser.add_argument('--vocabulary', type=int, default=131072)
  parser.add_argument('--width', type=int, default=2048)
  parser.add_argument('--length', type=int, default=1024)
  parser.add_argument('--sequences', type=int, default=1, help='per device')
  parser.add_argument('--dtype', default='bfloat16')
  parser.add_argument('--steps', type=int, default=2)
  return parser.parse_args(arguments)


def train(settings: argparse.Namespace, count: int,
          mesh: Optional[xs.Mesh]) -> list[float]:
  """The loss of each step.

  Args:
    count: of devices.
    mesh: of them; None: on one CPU, the batch of `count` devices.
  """
  torch.manual_seed(0)
  device = 'xla' if mesh else 'cpu'
  model = Model(settings.vocabulary, settings.width)
  model = model.to(getattr(torch, settings.dtype)).to(device)
  of_table, of_tokens = PRIORITIES[settings.first]
  if mesh:
    xs.mark_sharding(
        model.table.weight,
        mesh, ('vocabulary', None),
        priority=(of_table, None))
    for weight in model.norm.parameters():
      xs.mark_sharding(weight, mesh, (None,))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  losses = []
  for _ in range(settings.steps):
    tokens = torch.randint(0, settings.vocabulary,
                           (count // GROUP, GROUP * settings.sequences,
                            settings.length)).to(device)
    if mesh:
      xs.mark_sharding(
          tokens,
          mesh, ('data', 'vocabulary', None),
          priority=(of_tokens, of_tokens, None))
    optimizer.zero_grad()
    scores = model(tokens).flatten(0, 2)
    loss = F.cross_entropy(scores, tokens.roll(-1, 1).flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
  return losses


def main() -> None:
  settings = options()
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  mesh = xs.Mesh(
      np.arange(count), (count // GROUP, GROUP), ('data', 'vocabulary'))
  print(train(settings, count, mesh))


if __name__ == '__main__':
  main()
