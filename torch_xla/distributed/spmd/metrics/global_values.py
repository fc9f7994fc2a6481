"""Checks that a value is the same on all devices and in all processes.

What there is to compare depends on how far the runtime reaches: `find_reach`.
"""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import enum
import os
import threading
from typing import Any, Optional

import torch
import torch.distributed as dist
import torch_xla
import torch_xla.runtime as xr

from ..xla_sharded_tensor import XLAShardedTensor
from ..xla_sharding import ShardingType

# Integers of the same size, to compare bits with.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# XLA:CPU tells collectives apart by the executable: replicas in one process
# that each compile the same program never meet in it, and abort.
_compiling = threading.Lock()


class LocalValueError(RuntimeError):
  """A value is one device's or process's own, or may be.

  The message says what was found where, and what to do.
  """


class Host(enum.Enum):
  """The reductions that are left to `torch.distributed`.

  NOT_NEEDED: nothing; the runtime shows all of it.
  COMPARE: one runtime spans them, but each sees only its own devices.
  COMBINE: each has a runtime of its own.
  """
  NOT_NEEDED = 'not needed'
  COMPARE = 'compare'
  COMBINE = 'combine'


@dataclasses.dataclass(frozen=True)
class Reach:
  """How far a value reaches that the runtime calls global.

  Attributes:
    replicas: how many replicas the runtime reduces over; 1 in SPMD mode.
    host: what is left to the processes.
  """
  replicas: int
  host: Host


def find_reach() -> Reach:
  """How far the runtime reaches, and who else takes part in the job.

  That others do is known from `torch.distributed`, or from WORLD_SIZE as
  torchrun sets it.
  """
  processes = xr.process_count()
  replicas = 1 if xr.is_spmd() else xr.world_size()
  if not (dist.is_available() and dist.is_initialized()):
    ranks = int(os.environ.get('WORLD_SIZE', '1'))
    if ranks not in (1, processes, replicas):
      raise LocalValueError(
          f'WORLD_SIZE={ranks}, but the runtime of this process reaches '
          f'{processes} process(es) only; start torch.distributed, with '
          "init_process_group('gloo')")
    if xr.is_spmd() and processes > 1:
      raise LocalValueError(
          f'{processes} processes share the mesh and each sees its own devices '
          'only; start torch.distributed for them to compare results, with '
          "init_process_group('gloo', init_method='xla://')")
    return Reach(replicas, Host.NOT_NEEDED)
  ranks = dist.get_world_size()
  if not _has_cpu_backend():
    # Its ranks are the runtime's own replicas, or it reduces over nothing.
    if ranks != replicas:
      raise LocalValueError(
          f'torch.distributed has {ranks} ranks and the runtime reaches '
          f"{replicas} replica(s), which are all that backend 'xla' reduces "
          "over; use init_process_group('cpu:gloo,xla:xla')")
    return Reach(replicas, Host.NOT_NEEDED)
  if ranks == processes:
    compare = xr.is_spmd() and processes > 1
    return Reach(replicas, Host.COMPARE if compare else Host.NOT_NEEDED)
  if processes > 1 or replicas > 1:
    raise LocalValueError(
        f'torch.distributed has {ranks} ranks, the runtime of this one reaches '
        f'{processes} process(es) with {replicas} replica(s): which are the '
        'same is not known; use one device per process, or SPMD')
  return Reach(replicas, Host.COMBINE)


def _has_cpu_backend() -> bool:
  backends = dist.distributed_c10d.get_backend_config(dist.group.WORLD)
  return any(part.startswith('cpu:') for part in str(backends).split(','))


def plain(t: torch.Tensor) -> torch.Tensor:
  """The tensor without its wrapper, if it has one, and its gradient."""
  if isinstance(t, XLAShardedTensor):
    t = t.global_tensor
  return t.detach()


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
  """Tests whether two CPU tensors have the same bits, all NaNs being one."""
  if a.dtype != b.dtype or a.shape != b.shape:
    return False
  bits = _BITS[a.element_size()]
  same = a.contiguous().view(bits) == b.contiguous().view(bits)
  if a.is_floating_point():
    same |= torch.isnan(a) & torch.isnan(b)
  return bool(same.all())


def check_same(name: str, places: Sequence[str],
               copies: Sequence[Sequence[torch.Tensor]]) -> None:
  """Raises LocalValueError unless all `places` hold the same 0-d tensors."""
  differ = any(not same_bits(a, b)
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


def over_replicas(parts: Sequence[tuple[torch.Tensor, str]],
                  replicas: int) -> tuple[list[torch.Tensor], tuple[str, ...]]:
  """Reduces one 0-d tensor per replica over all of them, on the device.

  Args:
    parts: 0-d tensors and how to reduce each, 'sum' or 'max'.

  Returns:
    The results on the CPU, and the devices of all replicas.
  """
  # Computed first: from here on the program is the same on all replicas,
  # whatever the shapes were.
  values = [value.reshape(1) for value, _ in parts]
  compute(values)
  everyone = [list(range(replicas))]

  def all_reduce(reduce: str, value: torch.Tensor) -> torch.Tensor:
    # `xm.all_reduce` chains its calls by a token, and the graph would hold all
    # those of the step.
    return torch_xla._XLAC._xla_spmd_all_reduce(reduce, value, 1.0, everyone)

  # As data, so that it does not set the replicas' programs apart.
  mine = torch.zeros(replicas, dtype=torch.bool)
  mine[xr.global_ordinal()] = True
  mine = mine.to(values[0].device)
  entered = [
      all_reduce('sum', torch.where(mine, all_reduce(reduce, value), 0))
      for value, (_, reduce) in zip(values, parts)
  ]
  entered.append(all_reduce('sum', mine.to(torch.int32)))
  with _compiling:
    torch_xla._XLAC._xla_warm_up_cache(entered, [])
  *results, entries = torch_xla._XLAC._xla_get_cpu_tensors(entered)
  if entries.tolist() != [1] * replicas:
    raise LocalValueError(
        f'the all-reduce did not go over all {replicas} replicas once: they '
        f'entered {entries.tolist()} times')
  devices = tuple(torch_xla._XLAC._xla_get_all_devices())
  check_same('the result', devices, list(zip(*results)))
  return [result[0] for result in results], devices


def exchange(name: str, error: Optional[Exception],
             values: list[torch.Tensor]) -> list[list[torch.Tensor]]:
  """The values of all processes, by rank, through `torch.distributed`.

  Args:
    name: what is being computed; all processes must say the same.
    error: what went wrong in this one, if anything.
  """
  everyone: list[Any] = [None] * dist.get_world_size()
  message = None if error is None else str(error)
  dist.all_gather_object(everyone, (name, message, values))
  names = [theirs for theirs, _, _ in everyone]
  if len(set(names)) > 1:
    raise LocalValueError(
        f'the processes compute different metrics at once: {", ".join(names)}')
  errors = [
      f'process {rank}: {theirs}' for rank, (_, theirs,
                                             _) in enumerate(everyone)
      if theirs is not None
  ]
  if errors:
    raise LocalValueError(f'{name}: {"; ".join(errors)}') from error
  return [theirs for _, _, theirs in everyone]
