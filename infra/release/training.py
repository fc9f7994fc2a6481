"""Imports what a wheel has of ours and trains a sharded model for a few steps.

`release.py` runs this file by itself, in an environment that has the wheel. It
needs Python 3.10 alone.

Exit status: 0 if the loss fell and Shardy partitioned every program.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
import platform
import sys

# The runtime reads these when torch_xla is imported.
os.environ.update(
    PJRT_DEVICE='CPU',
    CPU_NUM_DEVICES='8',
    XLA_USE_SHARDY='1',
    TF_CPP_MIN_LOG_LEVEL='2')

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

_STEPS = 8


def import_all() -> int:
  """Imports every module of ours, and returns how many there are.

  What one Python lacks may be used by a module that training does not need.
  """
  site = Path(torch_xla.__file__).parents[1]
  names = [
      '.'.join(file.relative_to(site).with_suffix('').parts)
      for package in ('torch_xla/shardy', 'torch_xla/distributed/spmd',
                      'torch_xla_shardy')
      for file in sorted((site / package).rglob('*.py'))
      if file.name not in ('__init__.py', '__main__.py')
  ]
  for name in names:
    importlib.import_module(name)
  return len(names)


def train() -> list[float]:
  """Returns the loss of each step."""
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  model = torch.nn.Sequential(
      torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
  inputs, targets = torch.randn(32, 16), torch.randn(32, 8)
  model, inputs, targets = (
      value.to('xla') for value in (model, inputs, targets))
  xs.mark_sharding(model[0].weight, mesh, ('model', None), priority=(0, None))
  xs.mark_sharding(model[2].weight, mesh, (None, 'model'))
  xs.mark_sharding(inputs, mesh, ('data', None))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  losses = []
  for _ in range(_STEPS):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
  return losses


def main() -> int:
  """Prints what was seen, and returns the exit status."""
  modules, losses = import_all(), train()
  partitioners = {p.partitioner.value for p in torch_xla.shardy.programs()}
  print(f'Python {platform.python_version()}, torch {torch.__version__}: '
        f'{modules} modules imported, loss {losses[0]:.4f} -> {losses[-1]:.4f} '
        f'in {len(losses)} steps, partitioned by {", ".join(partitioners)}')
  return 0 if losses[-1] < losses[0] and partitioners == {'shardy'} else 1


if __name__ == '__main__':
  sys.exit(main())
