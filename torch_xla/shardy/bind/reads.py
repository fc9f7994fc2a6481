"""Executions of `_XLAC` besides syncs: reads, and syncs of some tensors alone.

    loss.item()   t.cpu()   print(t)   if t:   cpu.copy_(t)   torch.equal(t, u)

They come to functions of `_XLAC`, those of kernels by series `operators`. Each is
wrapped so that a binding is computed with what is read: in the same call, where a
read leaves its tensor pending, or by a sync of that tensor right before, where it
would have data after it. So all that is executed is what was, and as often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import functools
from typing import Any, TYPE_CHECKING

import torch
import torch_xla

from .graph_inputs import are_pending

if TYPE_CHECKING:
  from .binding import Binder

# Functions that give each of their tensors data, one after the other.
_OF_SHARDS = ('_get_local_shards', '_get_local_shard_replica_and_indices')
_SYNCS = ('_xla_step_marker', '_xla_sync_live_tensors')


def hook_executions(binder: Binder) -> None:
  """Hooks `binder` into all executions of graphs, for good."""
  xlac = torch_xla._XLAC
  sync_these = xlac._xla_sync_multi

  def give_data(t: torch.Tensor) -> None:
    with binder.read([t]) as binding:
      if are_pending([t])[0]:
        sync_these([t, *binding], [], True, False)

  def read_all(read: Callable[[list[Any]], list[torch.Tensor]],
               tensors: Sequence[Any]) -> list[torch.Tensor]:
    # A kernel's may be numbers, or on the host.
    there = [t for t in tensors if getattr(t, 'is_xla', False)]
    with binder.read(there) as binding:
      return read([*tensors, *binding])[:len(tensors)]

  def _xla_sync_multi(tensors: Sequence[torch.Tensor],
                      devices: Sequence[str],
                      wait: bool = True,
                      sync_xla_data: bool = True) -> None:
    with binder.read(tensors, sync_xla_data) as binding:
      sync_these([*tensors, *binding], devices, wait, sync_xla_data)

  def read_shards(function: Callable[..., Any],
                  tensors: Sequence[torch.Tensor]) -> Any:
    for t in tensors:
      give_data(t)
    return function(tensors)

  def sync(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    with binder.sync():
      function(*args, **kwargs)

  def wrap(name: str, wrapper: Callable[..., Any]) -> None:
    setattr(xlac, name, functools.partial(wrapper, getattr(xlac, name)))

  xlac._xla_sync_multi = _xla_sync_multi
  wrap('_xla_get_cpu_tensors', read_all)
  for name in _OF_SHARDS:
    wrap(name, read_shards)
  for name in _SYNCS:
    wrap(name, sync)
