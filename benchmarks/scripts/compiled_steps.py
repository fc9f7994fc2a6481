"""Trains a model of a kind for a few steps; prints what compiling took.

The last line is JSON: CPU seconds of all threads in the compiler, in the backend
within it, and the losses.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import json
import time
from typing import Any

from examples import train_sharded
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.compile.compiler import Compiler
from torch_xla.shardy.door.shim import Compilation

CLASSES, HEADS = 10, 4


class Vit(nn.Module):
  """Images of 3 x 16 x 16 in patches of 4 x 4, and two encoder layers."""

  def __init__(self, width: int):
    super().__init__()
    self.patches = nn.Conv2d(3, width, 4, stride=4)
    self.position = nn.Parameter(torch.randn(16, width) * 0.02)
    self.layers = nn.ModuleList(
        nn.TransformerEncoderLayer(
            width, HEADS, 4 * width, dropout=0.0, batch_first=True)
        for _ in range(2))
    self.norm = nn.LayerNorm(width)
    self.head = nn.Linear(width, CLASSES)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    x = self.patches(x).flatten(2).transpose(1, 2) + self.position
    for layer in self.layers:
      x = layer(x)
    return self.head(self.norm(x).mean(1))


def convolutions(width: int) -> nn.Module:
  """Two convolutions with batch normalisation, and a linear layer."""
  return nn.Sequential(
      nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
      nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
      nn.BatchNorm2d(2 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
      nn.Flatten(), nn.Linear(2 * width, CLASSES))


def odd(width: int) -> nn.Module:
  """The transformer, none of whose sizes the mesh divides."""
  train_sharded.VOCABULARY, train_sharded.HEADS = 61, 3
  train_sharded.WIDTH, train_sharded.LENGTH = width, 31
  return train_sharded.Model()


# How each kind is made, its width, and whether it reads tokens.
KINDS: dict[str, tuple[Callable[[int], nn.Module], int, bool]] = {
    'vit': (Vit, 64, False),
    'vit-256': (Vit, 256, False),
    'transformer': (lambda width: train_sharded.Model(), 64, True),
    'odd': (odd, 63, True),
    'convolutions': (convolutions, 16, False),
}


def timed(owner: type, name: str) -> list[float]:
  """The CPU seconds of each call from now on of a method."""
  seconds: list[float] = []
  method = getattr(owner, name)

  def call(*args: Any, **kwargs: Any) -> Any:
    start = time.process_time()
    try:
      return method(*args, **kwargs)
    finally:
      seconds.append(time.process_time() - start)

  setattr(owner, name, call)
  return seconds


def annotate(model: nn.Module, mesh: xs.Mesh) -> None:
  """Splits weights of two dimensions and more over 'model', the larger first."""
  for parameter in model.parameters():
    if parameter.dim() > 1:
      dim = int(parameter.shape[1] > parameter.shape[0])
      spec = ['model' if n == dim else None for n in range(parameter.dim())]
      xs.mark_sharding(parameter, mesh, tuple(spec))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('kind', choices=list(KINDS))
  parser.add_argument('--steps', type=int, default=2)
  settings = parser.parse_args()
  make, width, has_tokens = KINDS[settings.kind]
  compiler = timed(Compiler, '__call__')
  backend = timed(Compilation, 'compile')
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  model = make(width).to('xla')
  annotate(model, mesh)
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
  batch = 15 if settings.kind == 'odd' else 16
  losses = []
  for _ in range(settings.steps):
    if has_tokens:
      x = torch.randint(train_sharded.VOCABULARY, (batch, train_sharded.LENGTH))
      y = x.roll(-1, 1)
    else:
      x = torch.randn(batch, 3, 16, 16)
      y = torch.randint(CLASSES, (batch,))
    x, y = x.to('xla'), y.to('xla')
    for data in x, y:
      xs.mark_sharding(data, mesh, ('data',) + (None,) * (data.dim() - 1))
    optimizer.zero_grad()
    scores = model(x)
    loss = F.cross_entropy(scores.flatten(0, -2), y.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
  print(
      json.dumps({
          'compiler': sum(compiler),
          'backend': sum(backend),
          'losses': losses
      }))


if __name__ == '__main__':
  main()
