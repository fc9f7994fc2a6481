"""Which devices a collective joins, in all the ways in which XLA writes it."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any

import numpy as np

from ...sharding.tile_assignment import IotaTileAssignment

# Groups of devices: replica * partitions + partition.
Groups = tuple[tuple[int, ...], ...]

# Their groups are of partitions: XLA lets them have no use_global_device_ids.
_OF_PARTITIONS = ('all-to-all', 'collective-broadcast', 'ragged-all-to-all')


def groups_of(instruction: Any, kind: str, replicas: int,
              partitions: int) -> Groups:
  """The groups of a collective that is no collective-permute.

  What the numbers in it count follows from its channel and from
  use_global_device_ids, as `CollectiveOpGroupMode` in xla/xla_data.proto says.

  Args:
    instruction: an HloInstructionProto.
    kind: its opcode without '-start'.
    replicas, partitions: of the program's devices.
  """
  devices = np.arange(replicas * partitions).reshape(replicas, partitions)
  listed = _listed(instruction)
  has_channel = instruction.channel_id > 0
  if has_channel and instruction.use_global_device_ids:
    return listed or _rows(devices, devices.size)
  if has_channel and kind in _OF_PARTITIONS:
    devices = devices.T
  listed = listed or (tuple(range(len(devices))),)
  if largest_device(instruction) >= len(devices):
    return listed  # No device has such a number.
  parts = [devices[list(group)] for group in listed]
  # Of partitions, or of replicas without a channel: in each of the others.
  if not has_channel or kind in _OF_PARTITIONS:
    parts = [column for part in parts for column in part.T]
  return tuple(tuple(part.ravel().tolist()) for part in parts)


def pairs_of(instruction: Any, replicas: int, partitions: int) -> Groups:
  """The pairs (source, target) of devices of a collective-permute."""
  pairs = [(p.source, p.target) for p in instruction.source_target_pairs]
  if instruction.channel_id > 0:
    return tuple((r * partitions + source, r * partitions + target)
                 for r in range(replicas)
                 for source, target in pairs)
  return tuple((source * partitions + p, target * partitions + p)
               for p in range(partitions)
               for source, target in pairs)


def largest_device(instruction: Any) -> int:
  """The largest number in a collective's groups or pairs; -1 without any."""
  pairs = [(p.source, p.target) for p in instruction.source_target_pairs]
  return max((i for group in (*_listed(instruction), *pairs) for i in group),
             default=-1)


def _listed(instruction: Any) -> Groups:
  """The groups as they are written; none where all devices are one group."""
  if instruction.HasField('mesh_axes_replica_group_list'):
    return _of_mesh(instruction.mesh_axes_replica_group_list)
  if instruction.HasField('iota_collective_device_list'):
    return _of_iota(instruction.iota_collective_device_list)
  devices = instruction.collective_device_list
  if devices.HasField('iota_replica_group_list'):
    return _of_iota(devices.iota_replica_group_list)
  return tuple(
      tuple(group.replica_ids)
      for group in devices.replica_groups or instruction.replica_groups)


def _of_iota(iota: Any) -> Groups:
  return _rows(
      IotaTileAssignment((iota.num_replica_groups, iota.num_devices_per_group),
                         tuple(iota.iota_reshape_dims),
                         tuple(iota.iota_transpose_perm)).to_array(),
      iota.num_devices_per_group)


def _of_mesh(groups: Any) -> Groups:
  """Groups that span some axes of a mesh, or parts of axes.

  A part [pre_size, size] of an axis is its middle when the axis is split into
  pre_size, size and the rest.
  """
  mesh = groups.mesh
  sizes = tuple(axis.size for axis in mesh.axes)
  devices = np.array(mesh.device_ids)
  if not devices.size:
    devices = IotaTileAssignment(sizes, tuple(mesh.iota.reshape_dims),
                                 tuple(mesh.iota.transpose_perm)).to_array()
  # The bounds at which each axis is split, as products of sizes from its left.
  bounds = [{1, size} for size in sizes]
  spans = []
  for axis in groups.axes:
    index, start = axis.mesh_axis_index, 1
    end = sizes[index]
    if axis.HasField('sub_axis_info'):
      start = axis.sub_axis_info.pre_size
      end = start * axis.sub_axis_info.size
    bounds[index] |= {start, end}
    spans.append((index, start, end))
  parts = [(index, start, end)
           for index, of_axis in enumerate(bounds)
           for start, end in zip(sorted(of_axis),
                                 sorted(of_axis)[1:])]
  grouped = [
      i for span in spans for i, part in enumerate(parts)
      if part[0] == span[0] and span[1] <= part[1] and part[2] <= span[2]
  ]
  others = [i for i in range(len(parts)) if i not in grouped]
  shape = [end // start for _, start, end in parts]
  return _rows(
      devices.reshape(shape).transpose(others + grouped),
      math.prod(shape[i] for i in grouped))


def _rows(devices: np.ndarray, size: int) -> Groups:
  return tuple(map(tuple, devices.reshape(-1, size).tolist()))


def text_of(groups: Sequence[Sequence[int]]) -> str:
  """The groups as text: '16 groups of 16'; sizes are listed if they differ."""
  sizes = sorted({len(group) for group in groups})
  plural = '' if len(groups) == 1 else 's'
  return (f'{len(groups)} group{plural} of '
          f'{" and ".join(map(str, sizes))}')
