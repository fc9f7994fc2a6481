"""Annotations of tensors, bound to programs.

`binder` is this process's; patches to torch_xla call it.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import switch
from ..mode import Mode
from .binding import Binder

__all__ = ['Binder', 'binder', 'register']

binder = Binder()


def register() -> None:
  """Registers the route of mode Shardy: annotated tensors are bound."""
  switch.add_route(Mode.SHARDY, _route)


def _route() -> switch.Route:
  from . import printed
  from ..compile.plan import Surroundings
  from ..door import device_plugins
  from ..rewrite.planner import ShardyPlanner
  if _check not in device_plugins.start_checks:
    device_plugins.start_checks.append(_check)
  printed.replace_printer()
  binder.follow_copies()
  surroundings = Surroundings(
      binder.names.get,
      binder.meshes.ordered,
      # Asked once, when the first program comes.
      functools.cache(_disabled_rewrites))
  return switch.Route(
      ShardyPlanner(surroundings), surroundings, binder.pending_bindings,
      binder.lost)


def _check(plugin: Any) -> None:
  from ..rewrite import pipeline
  pipeline.disabled_rewrites(plugin)


def _disabled_rewrites() -> frozenset[str]:
  """The names of the rewrites that this process's plugin disables."""
  import torch_xla.runtime as xr

  from ..door import device_plugins
  from ..rewrite import pipeline
  return pipeline.disabled_rewrites(device_plugins.registered(xr.device_type()))
