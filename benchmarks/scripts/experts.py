"""Trains a layer of experts: each token goes to the one that a router picks.

Each group of eight devices has all experts, one a device, and its own part of
the batch, which is split over the same eight. What experts compute on has a
batch and experts, and can follow one of them only: tokens are exchanged, or
weights are gathered.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

VOCABULARY, EXPERTS = 4096, 8
# Priorities of the experts and of the batch.
PRIORITIES = {'none': (None, None), 'experts': (0, 1), 'tokens': (1, 0)}
Mark = Callable[[torch.Tensor], torch.Tensor]


class Layer(torch.nn.Module):
  """A layer from [groups, batch, length, width] to the same shape.

  Args:
    capacity: tokens that an expert takes of a sequence; the others pass by.
    mark: says that what it is given is [groups, experts, batch, ...].
  """

  def __init__(self, width: int, hidden: int, capacity: int, mark: Mark):
    super().__init__()
    self.capacity, self.mark = capacity, mark
    self.norm = torch.nn.LayerNorm(width)
    self.router = torch.nn.Linear(width, EXPERTS, bias=False)
    self.up = torch.nn.Parameter(
        torch.randn(EXPERTS, width, hidden) / width**0.5)
    self.down = torch.nn.Parameter(
        torch.randn(EXPERTS, hidden, width) / hidden**0.5)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    normed = self.norm(x)
    odds = self.router(normed).softmax(-1)
    picked = F.one_hot(odds.argmax(-1), odds.shape[-1])
    # The seats of an expert are counted from 1; 0 is none.
    seat = (picked.float().cumsum(2) * picked).long()
    seat = F.one_hot(seat.clamp(max=self.capacity + 1), self.capacity + 2)
    seat = seat[..., 1:-1].to(x.dtype)
    sent = self.mark(torch.einsum('gbsec,gbsd->gebcd', seat, normed))
    hidden = F.gelu(torch.einsum('gebcd,edf->gebcf', sent, self.up))
    done = self.mark(torch.einsum('gebcf,efd->gebcd', hidden, self.down))
    back = seat * (odds * picked).sum(-1)[..., None, None].to(x.dtype)
    return x + torch.einsum('gbsec,gebcd->gbsd', back, done)


def options(arguments: Optional[list[str]] = None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--first', choices=list(PRIORITIES), default='none')
  parser.add_argument('--width', type=int, default=1024)
  parser.add_argument('--hidden', type=int, default=4096)
  parser.add_argument('--length', type=int, default=1024)
  parser.add_argument('--sequences', type=int, default=4, help='per device')
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
  of_experts, of_tokens = PRIORITIES[settings.first]

  def mark(sent: torch.Tensor) -> torch.Tensor:
    return xs.mark_sharding_with_gradients(
        sent,
        mesh, ('data', None, 'expert', None, None),
        priority=(of_tokens, None, of_tokens, None, None)) if mesh else sent

  # Frozen, so that what moves is the layer's.
  table = torch.randn(VOCABULARY, settings.width)
  layer = Layer(settings.width, settings.hidden,
                settings.length * 5 // 4 // EXPERTS, mark)
  dtype = getattr(torch, settings.dtype)
  table, layer = table.to(dtype).to(device), layer.to(dtype).to(device)
  if mesh:
    for weight in layer.up, layer.down:
      xs.mark_sharding(
          weight,
          mesh, ('expert', None, None),
          priority=(of_experts, None, None))
    for weight in table, layer.router.weight, *layer.norm.parameters():
      xs.mark_sharding(weight, mesh, (None,) * weight.dim())
  optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
  losses = []
  for _ in range(settings.steps):
    tokens = torch.randint(0, VOCABULARY,
                           (count // EXPERTS, EXPERTS * settings.sequences,
                            settings.length)).to(device)
    if mesh:
      xs.mark_sharding(
          tokens,
          mesh, ('data', 'expert', None),
          priority=(of_tokens, of_tokens, None))
    optimizer.zero_grad()
    x = F.embedding(tokens, table)
    following = F.embedding(tokens.roll(-1, 1), table)
    loss = F.mse_loss(layer(x), following)
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
      np.arange(count), (count // EXPERTS, EXPERTS), ('data', 'expert'))
  print(train(settings, count, mesh))


if __name__ == '__main__':
  main()
