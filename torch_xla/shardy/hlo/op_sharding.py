"""`OpSharding` protos: to and from `HloSharding`, and where a module has them.

Reading follows XLA's `HloSharding::FromProto`, writing its `ToProto`
(`xla/hlo/ir/hlo_sharding.cc`); which leaves a sharding covers is from
`HloSharding::Validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import functools
import math
from typing import Optional

import numpy as np

from . import messages
from ..sharding.hlo_sharding import (HloSharding, ShardingType,
                                     UnsupportedShardingError, WHOLE_TYPES)
from ..sharding.tile_assignment import (DeviceList, IotaTileAssignment,
                                        ShardingError, TileAssignment)
from .protos import HloModuleProto, OpSharding

_TILE_FIELDS = ('tile_assignment_dimensions', 'tile_assignment_devices',
                'replicate_on_last_tile_dim', 'last_tile_dims',
                'iota_reshape_dims', 'iota_transpose_perm')
# Far above any system's: a damaged iota must not make us list its devices.
_MAX_DEVICES = 1 << 24
_INSTRUCTION_FIELDS = ('sharding', 'domain_entry_sharding',
                       'domain_exit_sharding')


class OpShardingError(ShardingError):
  """An OpSharding that is damaged, or that lacks what its type needs."""


class ShapeMismatchError(ShardingError):
  """A sharding on an instruction whose shape it cannot be for."""


def parse(data: bytes) -> OpSharding:
  """The OpSharding message in `data`."""
  try:
    return messages.parse(OpSharding, data)
  except ValueError as e:
    raise OpShardingError(str(e)) from e


def read(message: OpSharding) -> HloSharding:
  """The value of an OpSharding message, V1 or V2, normalised as XLA does.

  Raises:
    OpShardingError: a type without the fields that it needs.
    TileAssignmentError: dims, devices and iota that contradict one another.
    UnsupportedShardingError: a type of a later XLA, or a named sharding.
  """
  kind = _sharding_type(message.type)
  if kind in WHOLE_TYPES:
    return HloSharding.whole(kind)
  if kind == ShardingType.TUPLE:
    return HloSharding.tuple_of(
        read(parse(leaf)) for leaf in message.tuple_shardings)
  dims = tuple(message.tile_assignment_dimensions)
  devices = message.tile_assignment_devices
  if kind == ShardingType.MAXIMAL:
    if len(devices) != 1:
      raise OpShardingError(
          f'a maximal sharding names one device, not {len(devices)}')
    return HloSharding.maximal(devices[0])
  if not dims:
    raise UnsupportedShardingError('a tiled sharding without tile dims')
  if message.iota_reshape_dims:
    if math.prod(dims) > _MAX_DEVICES:
      raise OpShardingError(f'an iota of {math.prod(dims)} devices')
    tiles: TileAssignment = IotaTileAssignment(
        dims, tuple(message.iota_reshape_dims),
        tuple(message.iota_transpose_perm))
  else:
    tiles = DeviceList.from_devices(np.array(devices, dtype=np.int64), dims)
  types = [_sharding_type(t) for t in message.last_tile_dims]
  if message.replicate_on_last_tile_dim:
    if types:
      raise OpShardingError(
          'replicate_on_last_tile_dim and last_tile_dims exclude each other')
    types = [ShardingType.REPLICATED]
  return HloSharding.tiled(tiles, types)


def write(sharding: HloSharding, message: OpSharding) -> None:
  """Makes `message` say `sharding`; metadata and unknown fields stay."""
  for field in _TILE_FIELDS:
    message.ClearField(field)
  message.ClearField('tuple_shardings')
  message.type = int(sharding.type)
  if sharding.type == ShardingType.TUPLE:
    message.tuple_shardings.extend(map(to_bytes, sharding.elements))
  elif sharding.device is not None:
    message.tile_assignment_devices.append(sharding.device)
  elif sharding.tiles is not None:
    tiles = sharding.tiles
    message.tile_assignment_dimensions.extend(tiles.dims)
    if isinstance(tiles, IotaTileAssignment):
      message.iota_reshape_dims.extend(tiles.reshape_dims)
      message.iota_transpose_perm.extend(tiles.transpose_perm)
    else:
      message.tile_assignment_devices.extend(
          tiles.to_array().reshape(-1).tolist())
    if sharding.replicate_on_last_tile_dim:
      message.replicate_on_last_tile_dim = True
    else:
      message.last_tile_dims.extend(map(int, sharding.subgroup_types))


@functools.lru_cache(maxsize=1024)  # A program has few different ones.
def from_bytes(data: bytes) -> HloSharding:
  """The value of a serialised OpSharding; raises as `parse` and `read`."""
  return read(parse(data))


def to_bytes(sharding: HloSharding) -> bytes:
  """The OpSharding that XLA itself would write, serialised."""
  message = messages.make(OpSharding)
  write(sharding, message)
  return message.SerializeToString()


def _sharding_type(value: int) -> ShardingType:
  try:
    return ShardingType(value)
  except ValueError as e:
    raise UnsupportedShardingError(
        f'sharding type {value} is not known here') from e


def check_rank(sharding: HloSharding, rank: int) -> None:
  """Checks that a leaf's sharding is for arrays of `rank` dims."""
  if sharding.rank not in (None, rank):
    raise ShapeMismatchError(f'a sharding for rank {sharding.rank} '
                             f'on an array of rank {rank}')


def elements(data: bytes) -> tuple[Optional[HloSharding], ...]:
  """The shardings of a tuple's leaves, or of one value; None where unknown."""
  try:
    sharding = from_bytes(data)
  except ShardingError:
    return (None,)
  return sharding.elements or (sharding,)


def module_shardings(module: HloModuleProto) -> Iterator[Optional[HloSharding]]:
  """The shardings of a program; None for one that is not understood."""
  for data in {
      i.sharding
      for c in module.computations
      for i in c.instructions
      if i.HasField('sharding')
  }:
    yield from elements(data)


def is_split(module: HloModuleProto) -> bool:
  """Tests whether anything in a program is in tiles."""
  return any(s is None or s.tiles is not None for s in module_shardings(module))


Rewrite = Callable[[bytes, Optional[bytes]], bytes]


def rewrite_module(module: HloModuleProto, rewrite: Rewrite) -> bool:
  """Puts `rewrite(sharding, shape)` in the place of each OpSharding.

  Args:
    module: an HloModuleProto message, changed in place.
    rewrite: maps a serialised OpSharding and the ShapeProto of its instruction,
      None for the module's own, to an OpSharding; to the very same object where
      nothing is to change.

  Returns:
    Whether anything changed.
  """
  changed = False
  for computation in module.computations:
    for instruction in computation.instructions:
      for field in _INSTRUCTION_FIELDS:
        if instruction.HasField(field):
          old = getattr(instruction, field)
          new = rewrite(old, instruction.shape)
          if new is not old:
            setattr(instruction, field, new)
            changed = True
  if module.HasField('spmd_output_sharding'):
    old = module.spmd_output_sharding
    new = rewrite(old, None)
    if new is not old:
      module.spmd_output_sharding = new
      changed = True
  for i, old in enumerate(module.spmd_parameters_shardings):
    new = rewrite(old, None)
    if new is not old:
      module.spmd_parameters_shardings[i] = new
      changed = True
  return changed
