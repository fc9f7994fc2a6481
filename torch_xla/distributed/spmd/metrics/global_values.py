"""Checks that a value is the same on all devices and in all processes.

What there is to compare depends on how far the runtime reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
import os
from typing import Any, Optional

import torch
import torch.distributed as dist
import torch_xla
import torch_xla.runtime as xr

from ..xla_sharded_tensor import XLAShardedTensor
from ..xla_sharding import ShardingType


class LocalValueError(RuntimeError):
  """A value is one device's or process's own, or may be.

  The message says what was found where, and what to do.
  """


def spans_processes() -> bool:
  """Tests whether one mesh spans processes, which then compare what they hold.

  That others take part in the job is known from `torch.distributed`, or from
  WORLD_SIZE as torchrun sets it.

  Raises:
    LocalValueError: others take part that the runtime does not reach.
  """
  processes = xr.process_count()
  if not xr.is_spmd() and xr.world_size() > 1:
    raise LocalValueError(
        f'the value is one of {xr.world_size()} replicas; call '
        'torch_xla.runtime.use_spmd() first, or reduce it with xm.all_reduce')
  is_joined = dist.is_available() and dist.is_initialized()
  ranks = (
      dist.get_world_size() if is_joined else int(
          os.environ.get('WORLD_SIZE', '1')))
  if ranks not in (1, processes):
    raise LocalValueError(
        f'there are {ranks} ranks, but the runtime of this process reaches '
        f'{processes} process(es) only')
  if processes > 1 and not (is_joined and _has_cpu_backend()):
    raise LocalValueError(
        f'{processes} processes share the mesh and each sees its own devices '
        'only; start torch.distributed for them to compare results, with '
        "init_process_group('gloo', init_method='xla://')")
  return processes > 1


def _has_cpu_backend() -> bool:
  backends = dist.distributed_c10d.get_backend_config(dist.group.WORLD)
  return any(part.startswith('cpu:') for part in str(backends).split(','))


def plain(t: torch.Tensor) -> torch.Tensor:
  """The tensor without its wrapper, if it has one, and its gradient."""
  if isinstance(t, XLAShardedTensor):
    t = t.global_tensor
  return t.detach()


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
  """Tests whether two numbers on the CPU are the same; all NaNs are one."""
  return a.dtype == b.dtype and (bool(a.isnan() & b.isnan()) or torch.equal(
      *(t.reshape(1).view(torch.uint8) for t in (a, b))))


def check_same(name: str, places: Sequence[str],
               copies: Sequence[Sequence[torch.Tensor]]) -> None:
  """Raises LocalValueError unless all `places` hold the same 0-d tensors."""
  differ = any(not _same_bits(a, b)
               for copy in copies[1:]
               for a, b in zip(copies[0], copy))
  if differ:
    found = ', '.join(
        f'{place}: {" ".join(str(value.item()) for value in copy)}'
        for place, copy in zip(places, copies))
    raise LocalValueError(f'{name} is not the same everywhere ({found})')


def compute(tensors: list[torch.Tensor]) -> None:
  """Computes what is pending of `tensors`, and nothing else."""
  torch_xla._XLAC._xla_sync_multi(
      tensors, devices=[], wait=True, sync_xla_data=False)


def over_mesh(
    values: list[torch.Tensor]) -> tuple[list[torch.Tensor], tuple[str, ...]]:
  """Reads pending 0-d tensors that are the same on all devices of the mesh.

  Without SPMD there is one device, and nothing to compare.

  Returns:
    The values on the CPU, and the devices that hold them.
  """
  compute(values)
  if not xr.is_spmd():
    return (torch_xla._XLAC._xla_get_cpu_tensors(values),
            (str(values[0].device),))
  shards = torch_xla._XLAC._get_local_shards(values)
  devices = tuple(device for _, device in shards[0])
  for value, copies in zip(values, shards):
    if torch_xla._XLAC._get_xla_sharding_type(value) != ShardingType.REPLICATED:
      found = ', '.join(f'{device}: {copy.item()}' for copy, device in copies)
      raise LocalValueError(
          'the result is not replicated but '
          f'{torch_xla._XLAC._get_xla_sharding_spec(value)}, and each device '
          f'has its own ({found}); reduce what disable_manual_sharding returns')
  check_same('the result', devices,
             [[copy for copy, _ in column] for column in zip(*shards)])
  return [copies[0][0] for copies in shards], devices


def exchange(name: str, error: Optional[Exception],
             values: list[torch.Tensor]) -> list[list[torch.Tensor]]:
  """The values of all processes, by rank, through `torch.distributed`.

  Args:
    name: what is being computed.
    error: what went wrong in this one, if anything.
  """
  everyone: list[Any] = [None] * dist.get_world_size()
  dist.all_gather_object(everyone, (error and str(error), values))
  errors = [
      f'process {rank}: {message}' for rank, (message, _) in enumerate(everyone)
      if message is not None
  ]
  if errors:
    raise LocalValueError(f'{name}: {"; ".join(errors)}') from error
  return [shared for _, shared in everyone]
