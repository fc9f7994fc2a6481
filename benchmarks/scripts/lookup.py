"""Trains the model of examples/priority.py.

The table is split over its features, the batch over its sequences, and both
over all devices: the rows that are looked up can follow one of them only.
"""

from __future__ import annotations

import argparse
from typing import Optional

from examples import priority as example
import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

# Priorities of the table and of the tokens.
PRIORITIES = {'none': (None, None), 'table': (0, 1), 'tokens': (1, 0)}


def options(arguments: Optional[list[str]] = None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--first', choices=list(PRIORITIES), default='none')
  parser.add_argument('--steps', type=int, default=3)
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
  model = example.Model(count).to(device)
  of_table, of_tokens = PRIORITIES[settings.first]
  if mesh:
    xs.mark_sharding(
        model.table.weight, mesh, (None, 'data'), priority=(None, of_table))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
  losses = []
  for _ in range(settings.steps):
    batch = torch.randint(example.VOCABULARY,
                          (example.SEQUENCES * count, example.LENGTH))
    labels = (batch[:, 0] % example.CLASSES).to(device)
    tokens = batch.to(device)
    if mesh:
      xs.mark_sharding(tokens, mesh, ('data', None), priority=(of_tokens, None))
      torch_xla.shardy.name_tensors({'tokens': tokens})
    optimizer.zero_grad()
    scores, _ = model(tokens)
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
  return losses


def main() -> None:
  settings = options()
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  print(train(settings, count, xs.Mesh(np.arange(count), (count,), ('data',))))


if __name__ == '__main__':
  main()
