"""Manual regions, of whatever format a program is in: checks and shapes.

All axes of the mesh are manual in a region: each device computes on values of
its own. Where a tensor enters one it is split, in equal tiles: one that does
not divide evenly is padded with zeros, as GSPMD does, and cut where it leaves.

A manual value that passes from one region to another, or into or out of the
program, is *stacked* meanwhile: its first dimension is that of all devices, one
after the other, split over all axes of the mesh. A device's part is its value:

    f32[4,8], {manual}   ->   f32[32,8], <@mesh, [{"x", "y"}, {}]>

XLA checks little of what it is told of regions and ends the process where that
is wrong, so all of it is checked here and where regions are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import attributes
from ..hlo.array_shape import ArrayShape
from ..sharding.hlo_sharding import HloSharding
from ..sharding.tile_assignment import (DeviceList, IotaTileAssignment,
                                        ShardingError, TileAssignment)
from .constraints import Constraint, Site
from .mesh_axes import InexpressibleError

BEGIN_TARGET, END_TARGET = 'SPMDFullToShardShape', 'SPMDShardToFullShape'
MANUAL_TARGETS = (BEGIN_TARGET, END_TARGET)
# How XLA's importer knows a region: two calls with attributes around a call of
# a computation with this in its name, which has to stay a call.
BODY = 'xla.sdy.manual_computation_body'
ENTER_TARGET = 'xla.sdy.GlobalToLocalShape'
LEAVE_TARGET = 'xla.sdy.LocalToGlobalShape'
IN_ATTRIBUTE, OUT_ATTRIBUTE = 'xla.sdy.in_shardings', 'xla.sdy.out_shardings'
AXES_ATTRIBUTE = 'xla.sdy.manual_axes'
NOT_INLINED = {'inlineable': 'false'}


class ManualShardingError(ValueError):
  """Manual sharding that means nothing; GSPMD ends the process on it."""


def nested_error(name: str) -> ManualShardingError:
  """A region begins at a manual value."""
  return ManualShardingError(
      f'{name} begins a manual region within one: call disable_manual_sharding '
      'on a tensor before enable_manual_sharding is called on what follows '
      'from it')


def marked_error(name: str, sharding: HloSharding,
                 operand: str) -> ManualShardingError:
  """A manual value is given a sharding."""
  return ManualShardingError(
      f'{name} has the sharding {sharding} and is computed from {operand}, which is '
      'manual: call disable_manual_sharding before such a tensor is marked, or '
      'read')


def unsupported(name: str, reason: str) -> InexpressibleError:
  return InexpressibleError(f'manual sharding at {name}: {reason}')


def boundary(sharding: HloSharding, whole: ArrayShape, local: ArrayShape,
             name: str) -> Site:
  """The site where a tensor is split for a region, or put together after it."""
  try:
    tile = ArrayShape(whole.dtype, sharding.tile_shape(whole.dims), whole.bits)
  except ShardingError as e:
    raise ManualShardingError(f'manual sharding at {name}: {e}') from e
  if tile != local:
    raise ManualShardingError(
        f'manual sharding at {name}: {whole} split as {sharding} is {tile} on '
        f'a device, and not {local}; give the shape of the whole tensor that '
        'belongs to the local one')
  return Site(sharding, len(whole.dims), is_boundary=True)


def even_dims(sharding: HloSharding, local: ArrayShape) -> tuple[int, ...]:
  """The dimensions that `local` is an equal tile of."""
  if sharding.tiles is None:
    return local.dims
  return tuple(
      size * tiles
      for size, tiles in zip(local.dims, sharding.tiles.dims, strict=False))


def stacked(mesh: attributes.Mesh, rank: int) -> Constraint:
  """The sharding of a stacked manual value, of rank one at least."""
  axes = tuple(attributes.SubAxis(name) for name, size in mesh.axes if size > 1)
  dims = (attributes.DimSharding(axes),
          *[attributes.DimSharding()] * (rank - 1))
  tiles = (mesh.num_devices,) + (1,) * (rank - 1)
  if mesh.device_ids is None:
    assignment: TileAssignment = IotaTileAssignment(tiles, (mesh.num_devices,),
                                                    (0,))
  else:
    assignment = DeviceList.from_devices(mesh.device_ids, tiles)
  return Constraint(dims, HloSharding.tiled(assignment).canonical(), None)


def stacked_dims(dims: Sequence[int], num_devices: int = 1) -> tuple[int, ...]:
  """The dimensions of a manual value where it is stacked.

  A scalar becomes an array of one: with one device it is that.
  """
  first, *rest = dims or (1,)
  return num_devices * first, *rest
