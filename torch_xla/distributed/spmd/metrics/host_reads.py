"""Warns where a value is read to the host that is still one device's own.

A debugging aid: in its block each torch call goes through Python, and each read
of an SPMD tensor may fetch its copies to compare them. Outside there is no cost
at all. It sees the calls of the thread that entered it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
import contextlib
import sys
from typing import Any, Optional
import warnings

import torch
from torch.overrides import TorchFunctionMode
import torch_xla
import torch_xla.runtime as xr

from . import global_values
from ..xla_sharding import ShardingType

__all__ = ['LocalReadWarning', 'watch_host_reads']

_Place = tuple[str, int]


class LocalReadWarning(UserWarning):
  """The host reads a value that is one device's or process's own."""


# Each turns an XLA tensor into something on the host; `to` and `copy_` do so
# depending on their arguments.
_READS = frozenset(
    (torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.cpu,
     torch.Tensor.numpy, torch.Tensor.__bool__, torch.Tensor.__int__,
     torch.Tensor.__float__, torch.Tensor.__complex__, torch.Tensor.__index__,
     torch.Tensor.__array__, torch.Tensor.__repr__, torch.Tensor.__format__,
     torch.Tensor.__contains__, torch.equal, torch.Tensor.equal, torch.allclose,
     torch.Tensor.allclose, torch.is_nonzero, torch.Tensor.is_nonzero))


@contextlib.contextmanager
def watch_host_reads() -> Iterator[None]:
  """Warns, once per source line, of host reads of values that are local.

  A read is `item()`, `tolist()`, `cpu()`, `numpy()`, `.to('cpu')`, `copy_()`
  into a CPU tensor, `bool(t)` and thus `if t:`, `int(t)`, `float(t)`,
  `complex(t)`, an index, `x in t`, printing and formatting, `torch.equal`,
  `torch.allclose` and `torch.is_nonzero`. What torch_xla reads on its own
  behalf is left alone. Not seen: reads in other threads, in C++ and by
  `torch.save`.

  What counts as local:
  - In SPMD mode, a tensor under manual sharding, and one whose copies on the
    devices of this process differ. Reading a sharded tensor gathers it, which
    is global. The tensor is computed, as the read would do.
  - With several replicas, or several processes with a runtime each: every XLA
    tensor. Nothing tells afterwards that it came out of an all-reduce;
    `metrics.global_mean` and its like return CPU tensors that were shown to be
    global.

  >>> with watch_host_reads():
  ...   train()

  Warns:
    LocalReadWarning: with the line of the read, and what was found.
  """
  with _Watch():
    yield


class _Watch(TorchFunctionMode):

  def __init__(self):
    super().__init__()
    self._warned: set[_Place] = set()

  def __torch_function__(self, func, types, args=(), kwargs=None):
    kwargs = kwargs or {}
    for t in _read_tensors(func, args, kwargs):
      place = _place()
      if place is None or place in self._warned:
        continue
      found = _what_is_local(t)
      if found:
        self._warned.add(place)
        warnings.warn_explicit(
            f'{func.__name__} reads a value that is not global: {found}',
            LocalReadWarning, *place)
    return func(*args, **kwargs)


def _read_tensors(func: Any, args: tuple[Any, ...],
                  kwargs: dict[str, Any]) -> list[torch.Tensor]:
  """The XLA tensors that a call reads to the host."""
  if func in _READS:
    return _xla_tensors(args, kwargs)
  if func is torch.Tensor.copy_ and args[0].device.type == 'cpu':
    return _xla_tensors(args, kwargs)
  if func is torch.Tensor.to and _target(args[1:], kwargs) == 'cpu':
    return _xla_tensors(args[:1], {})
  return []


def _xla_tensors(args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> list[torch.Tensor]:
  return [
      t for t in (*args, *kwargs.values())
      if isinstance(t, torch.Tensor) and t.device.type == 'xla'
  ]


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional[str]:
  """The type of the device that `Tensor.to` moves to, if it moves."""
  for target in (*args[:1], kwargs.get('device'), kwargs.get('other')):
    if isinstance(target, torch.Tensor):
      return target.device.type
    if isinstance(target, (str, torch.device)):
      return torch.device(target).type
  return None


def _place() -> Optional[_Place]:
  """The line that reads, or None if torch_xla itself does."""
  frame = sys._getframe(1)
  while frame is not None:
    module = frame.f_globals.get('__name__', '')
    package = module.partition('.')[0]
    if module != __name__ and package != 'torch':
      if package == 'torch_xla':
        return None
      return frame.f_code.co_filename, frame.f_lineno
    frame = frame.f_back
  return None


def _what_is_local(t: torch.Tensor) -> Optional[str]:
  """What makes `t` local; None if nothing was found."""
  try:
    reach = global_values.find_reach()
  except global_values.LocalValueError as e:
    return str(e)
  if reach.replicas > 1:
    return (f'it is that of replica {xr.global_ordinal()} of {reach.replicas}, '
            f'on {t.device}; use metrics.global_mean or its like')
  if reach.host is global_values.Host.COMBINE:
    return (f'it is that of process {torch.distributed.get_rank()} of '
            f'{torch.distributed.get_world_size()}; use metrics.global_mean or '
            'its like')
  return _what_differs(t) if xr.is_spmd() else None


def _what_differs(t: torch.Tensor) -> Optional[str]:
  """What sets the devices of an SPMD tensor apart."""
  t = global_values.plain(t)
  global_values.compute([t])
  sharding = torch_xla._XLAC._get_xla_sharding_type(t)
  if sharding is None:  # Copied from the host, the same to all devices.
    return None
  if sharding == ShardingType.MANUAL:
    return ('it is under manual sharding, and each device has its own; read '
            'what disable_manual_sharding returns')
  places = torch_xla._XLAC._get_local_shard_replica_and_indices([t])[0]
  copies = collections.defaultdict(list)
  for number, (_, indices) in enumerate(places):
    copies[str(indices)].append(number)
  if all(len(numbers) == 1 for numbers in copies.values()):
    return None
  shards = torch_xla._XLAC._get_local_shards([t])[0]
  for first, *others in copies.values():
    for other in others:
      if not global_values.same_bits(shards[first][0], shards[other][0]):
        spec = torch_xla._XLAC._get_xla_sharding_spec(t)
        return (f'{shards[first][1]} and {shards[other][1]} hold copies of the '
                f'same part, by its sharding {spec}, and they differ')
  return None
