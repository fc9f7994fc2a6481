"""Which tensor something was said of: annotations, bound to programs.

`binder` is this process's; patches to torch_xla call it.
"""

from __future__ import annotations

import atexit

from .. import switch
from ..mode import Mode
from .binding import Binder

__all__ = ['Binder', 'binder', 'register']

binder = Binder()


def register() -> None:
  """Has mode Shardy bind annotated tensors, and Shardy partition."""
  switch.add_route(Mode.SHARDY, _route)


def _route() -> switch.Route:
  from . import printed
  from ..rewrite.planner import ShardyPlanner
  if printed.replace_printers():
    atexit.register(binder.saved_graphs.clean)
  binder.follow_copies()
  return switch.Route(
      ShardyPlanner(binder.names.of, binder.meshes.in_order),
      binder.pending_bindings, binder.meshes.in_order, binder.names.of)
