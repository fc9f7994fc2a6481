"""Turns a mesh and a partition spec into the sharding they mean.

A mesh is a shape and, if its devices are not simply 0 to n - 1, their ids in
row-major order. A partition spec names, for each dimension of a tensor, the
mesh axes it is split over, by index: an axis, a tuple of axes from major to
minor, or None.

  >>> str(sharding_of((2, 4), None, (1, None)))
  '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'

Mesh axes that a spec does not name replicate. Background: pytorch/xla#9348.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Optional, Union

import numpy as np

from .hlo_sharding import HloSharding, NO_IOTA, ShardingType
from .tile_assignment import (DeviceList, IotaTileAssignment, ShardingError,
                              TileAssignment, TileAssignmentError)

PartitionSpec = tuple[Union[int, tuple[int, ...], None], ...]
DeviceIds = Union[np.ndarray, Sequence[int]]


class PartitionSpecError(ShardingError):
  """A partition spec that does not fit its mesh."""


class NoIotaError(ShardingError):
  """V2 arguments asked for a placement that only a device list can say."""


def sharding_of(mesh_shape: Sequence[int], device_ids: Optional[DeviceIds],
                partition_spec: PartitionSpec) -> HloSharding:
  """The sharding of a tensor over a mesh, canonical, right for every mesh.

  V2, except for a mesh whose devices are in an order that no iota gives, such
  as a reversed one or some of those that `HybridMesh` makes: that stays V1. A
  mesh in plain order costs the same at any size.

  Args:
    mesh_shape: the size of each mesh axis.
    device_ids: the devices in row-major order; None for 0 to n - 1.
    partition_spec: for each dimension of the tensor, mesh axes by index.

  Raises:
    PartitionSpecError: an axis out of range, named twice, or not an integer.
    TileAssignmentError: `device_ids` is not a permutation of 0 to n - 1.
  """
  tiles, types = _assign(mesh_shape, device_ids, partition_spec)
  return HloSharding.tiled(tiles, types).canonical()


def iota_args(
    mesh_shape: Sequence[int], device_ids: Optional[DeviceIds],
    partition_spec: PartitionSpec
) -> tuple[list[int], list[int], list[int], list[ShardingType]]:
  """The values of upstream's `Mesh._get_op_sharding_args_v2`, for every mesh.

  Over a mesh in plain order these are upstream's values: the axes in the order
  of the mesh, not yet merged. Where the mesh has `device_ids` of its own, which
  upstream leaves out, the reshape dims and the permutation are those of the
  iota that gives these devices.

  Returns:
    Tile assignment dims, iota reshape dims, iota transpose perm, and subgroup
    types: `[REPLICATED]` if devices replicate, otherwise none.

  Raises:
    NoIotaError: there is no such iota; `sharding_of` gives the device list.
    PartitionSpecError, TileAssignmentError: as for `sharding_of`.
  """
  mesh_shape, device_ids = _check_mesh(mesh_shape, device_ids)
  if device_ids is None:
    dims, perm, types = _layout(mesh_shape, partition_spec)
    return dims, list(mesh_shape), perm, types
  tiles, types = _assign(mesh_shape, device_ids, partition_spec)
  if types:  # A replica group is a set: some order of it may be an iota.
    tiles = tiles.sort_groups(tiles.dims[-1])
  iota = tiles if isinstance(tiles, IotaTileAssignment) else tiles.iota
  if iota is None:
    raise NoIotaError(f'{NO_IOTA}: partition spec {partition_spec} over the '
                      f'devices of mesh {list(mesh_shape)}')
  return (list(iota.dims), list(iota.reshape_dims), list(iota.transpose_perm),
          types)


def are_in_plain_order(device_ids: np.ndarray) -> bool:
  """Tests whether these device ids, of rank 1, are 0 to n - 1."""
  return bool(np.array_equal(device_ids, np.arange(device_ids.size)))


def uneven_dims(shape: Sequence[int],
                tiles: Sequence[int]) -> list[tuple[int, int]]:
  """The dimensions that are not split into equal tiles: (dimension, tiles).

  Args:
    shape: of a tensor.
    tiles: into how many tiles each dimension is split; subgroups may follow.
  """
  return [(dim, count)
          for dim, (size, count) in enumerate(zip(shape, tiles, strict=False))
          if size % count]


def _check_mesh(
    mesh_shape: Sequence[int], device_ids: Optional[DeviceIds]
) -> tuple[tuple[int, ...], Optional[np.ndarray]]:
  """The mesh, with None for devices in plain order."""
  mesh_shape = tuple(int(size) for size in mesh_shape)
  if not mesh_shape or min(mesh_shape) < 1:
    raise TileAssignmentError(f'mesh axes must be positive: {list(mesh_shape)}')
  if device_ids is None:
    return mesh_shape, None
  devices = np.asarray(device_ids).reshape(-1)
  if devices.size != math.prod(mesh_shape):
    raise TileAssignmentError(f'mesh {list(mesh_shape)} needs '
                              f'{math.prod(mesh_shape)} device ids, '
                              f'got {devices.size}')
  if are_in_plain_order(devices):
    return mesh_shape, None
  return mesh_shape, DeviceList(devices).to_array()


def _checked_axes(partition_spec: PartitionSpec,
                  mesh_rank: int) -> list[tuple[int, ...]]:
  """The mesh axes of each tensor dimension, checked."""
  axes = [() if entry is None else entry if isinstance(entry, tuple) else
          (entry,) for entry in partition_spec]
  named = [axis for entry in axes for axis in entry]
  for axis in named:
    if not isinstance(axis, (int, np.integer)):
      raise PartitionSpecError(
          f'partition spec {partition_spec} names mesh axes by index, '
          f'not as {axis!r}')
    if not 0 <= axis < mesh_rank:
      raise PartitionSpecError(
          f'partition spec {partition_spec} names axis {axis} of a mesh with '
          f'{mesh_rank} axes')
  if len(set(named)) != len(named):
    raise PartitionSpecError(
        f'partition spec {partition_spec} names a mesh axis twice')
  return axes


def _layout(
    mesh_shape: tuple[int, ...], partition_spec: PartitionSpec
) -> tuple[list[int], list[int], list[ShardingType]]:
  """Tile assignment dims, the order of the mesh axes, and subgroup types."""
  axes = _checked_axes(partition_spec, len(mesh_shape))
  dims = [math.prod(mesh_shape[axis] for axis in entry) for entry in axes]
  sharded = [int(axis) for entry in axes for axis in entry]
  replicated = sorted(set(range(len(mesh_shape))) - set(sharded))
  replicas = math.prod(mesh_shape[axis] for axis in replicated)
  types = []
  if replicas > 1:
    dims.append(replicas)
    types.append(ShardingType.REPLICATED)
  return dims, sharded + replicated, types


def _assign(
    mesh_shape: Sequence[int], device_ids: Optional[DeviceIds],
    partition_spec: PartitionSpec) -> tuple[TileAssignment, list[ShardingType]]:
  mesh_shape, devices = _check_mesh(mesh_shape, device_ids)
  dims, perm, types = _layout(mesh_shape, partition_spec)
  dims = dims or [1]  # A scalar on one device.
  if devices is None:
    return IotaTileAssignment(tuple(dims), mesh_shape, tuple(perm)), types
  array = devices.reshape(mesh_shape).transpose(perm).reshape(dims)
  return DeviceList(array), types
