"""A model that is trained over all devices of a pod, and on one device."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Any, Optional

_STEPS = 3


@dataclasses.dataclass(frozen=True)
class Trained:
  """What came of it.

  Attributes:
    losses: of each step.
    weights: of each parameter, by name.
  """
  losses: list[float]
  weights: dict[str, Any]


def on_one_device() -> Trained:
  """Trained by torch alone."""
  return _train(lambda model: model, lambda tensor: tensor, lambda step: None)


def over_all(before_sync: Optional[Callable[[int], None]] = None) -> Trained:
  """Trained over all devices, of a mesh with one axis across both hosts.

  Args:
    before_sync: called with the number of each step, before it runs.
  """
  import numpy as np
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  devices = np.arange(xr.global_runtime_device_count())
  mesh = xs.Mesh(devices.reshape(2, -1).T.flatten(), (4, 2), ('x', 'y'))

  def place(model: Any) -> Any:
    model = model.to('xla')
    xs.mark_sharding(model[0].weight, mesh, ('x', None))
    xs.mark_sharding(model[2].weight, mesh, (None, 'x'))
    return model

  def split(tensor: Any) -> Any:
    tensor = tensor.to('xla')
    xs.mark_sharding(tensor, mesh, ('y', None))
    return tensor

  def sync(step: int) -> None:
    if before_sync:
      before_sync(step)
    torch_xla.sync()

  return _train(place, split, sync)


def _train(place: Callable[[Any], Any], split: Callable[[Any], Any],
           sync: Callable[[int], None]) -> Trained:
  import torch
  torch.manual_seed(0)
  model = torch.nn.Sequential(
      torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
  inputs, labels = torch.randn(8, 6), torch.randn(8, 5)
  model = place(model)
  optimizer = torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)
  losses = []
  for step in range(_STEPS):
    x, y = split(inputs), split(labels)
    optimizer.zero_grad()
    loss = ((model(x) - y)**2).mean()
    loss.backward()
    optimizer.step()
    sync(step)
    losses.append(loss.item())
  return Trained(losses, {
      name: p.detach().cpu().numpy() for name, p in model.named_parameters()
  })
