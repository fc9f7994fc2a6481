"""Executions of `_XLAC` besides syncs: reads, and syncs of some tensors alone.

    loss.item()   t.cpu()   print(t)   if t:   cpu.copy_(t)   torch.equal(t, u)

They come to a few kernels of XLA's, and to functions of `_XLAC`. Each is wrapped
so that a binding is computed with what is read: in the same call, where a read
leaves its tensor pending, or by a sync of that tensor right before, where it
would have data after it. So all that is executed is what was, and as often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import functools
import traceback
from typing import Any, TYPE_CHECKING
import warnings

import torch
import torch_xla

from .graph_inputs import are_pending

if TYPE_CHECKING:
  from .binding import Binder


def _copy_from(value: torch.Tensor, to: torch.Tensor, *_: bool) -> torch.Tensor:
  return to.copy_(value)


def _copy_from_and_resize(value: torch.Tensor,
                          to: torch.Tensor) -> torch.Tensor:
  return to.resize_(value.shape).copy_(value)


# Kernels that read one tensor, into another or a new one; which it is, and what
# they do with its value.
_COPIES: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    '_to_copy': (0, torch.ops.aten.to.dtype_layout),  # The value is new.
    '_copy_from': (0, _copy_from),
    '_copy_from_and_resize': (0, _copy_from_and_resize),
    'copy': (1, torch.ops.aten.copy),
    'copy_': (1, torch.ops.aten.copy_),
}
# Functions that give each of their tensors data, one after the other.
_OF_SHARDS = ('_get_local_shards', '_get_local_shard_replica_and_indices')
_SYNCS = ('_xla_step_marker', '_xla_sync_live_tensors')


def hook_executions(binder: Binder) -> torch.library.Library:
  """Hooks `binder` into all executions of graphs, while the library lives."""
  xlac = torch_xla._XLAC
  sync_these = xlac._xla_sync_multi
  read_these = xlac._xla_get_cpu_tensors

  def give_data(t: torch.Tensor) -> None:
    with binder.read([t]) as binding:
      if are_pending([t])[0]:
        sync_these([t, *binding], [], True, False)

  def copy(kernel: Any, operation: Callable[..., torch.Tensor], place: int,
           keys: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    to = kwargs.get('device') or args[len(args) > 1 and 1 - place].device
    if to.type != 'cpu' or args[place].device.type != 'xla':
      return kernel.call_boxed(keys, *args, **kwargs)
    give_data(args[place])
    # The kernel, called from Python, would hold Python's lock while it compiles,
    # and let go of it for good where its transfer raises.
    value, = read_these([args[place]])
    return operation(*args[:place], value, *args[place + 1:], **kwargs)

  def read_all(read: Callable[[list[torch.Tensor]], list[Any]],
               tensors: Sequence[torch.Tensor]) -> list[Any]:
    with binder.read(tensors) as binding:
      return read([*tensors, *binding])[:len(tensors)]

  def to_cpu(_: Any, tensors: Sequence[Any]) -> list[torch.Tensor]:
    there = [t for t in tensors if getattr(t, 'is_xla', False)]
    values = iter(read_all(read_these, there))

    def on_host(t: Any) -> torch.Tensor:
      if isinstance(t, torch.Tensor):
        return next(values) if t.is_xla else t
      # A wrapped number comes as a number.
      return torch.tensor(t, dtype=torch.result_type(there[0], t))

    return [on_host(t) for t in tensors]

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

  kernel_of = functools.partial(torch.library.get_kernel, dispatch_key='XLA')
  kernels: dict[str, Callable[..., Any]] = {
      name:
          functools.partial(copy, kernel_of(f'aten::{name}'), operation, place)
      for name, (place, operation) in _COPIES.items()
  }
  kernels['_to_cpu'] = to_cpu
  library = torch.library.Library('aten', 'IMPL')
  with warnings.catch_warnings():
    warnings.filterwarnings('ignore', 'Warning only once for all operators')
    for name, kernel in kernels.items():
      library.impl(
          name,
          functools.partial(_let_go_of, kernel),
          'XLA',
          with_keyset=True,
          allow_override=True)
  return library


def _let_go_of(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
  """Calls a kernel, of whose tensors an error that is kept keeps none.

  A tensor that could not be computed fails all syncs while it lives.
  """
  try:
    return kernel(*args, **kwargs)
  except BaseException as e:
    traceback.clear_frames(e.__traceback__)
    del args, kwargs
    raise
