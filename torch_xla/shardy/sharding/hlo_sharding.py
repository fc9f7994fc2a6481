"""`HloSharding`: what XLA's `OpSharding` says, as a value.

Two shardings are equal if every device holds the same part of the tensor for
both, whether they are written in V1 or in V2:

  >>> v1 = parse_sharding('{devices=[4,2]0,4,1,5,2,6,3,7}')
  >>> v2 = parse_sharding('{devices=[4,2]<=[2,4]T(1,0)}')
  >>> v1 == v2, str(v1.canonical())
  (True, '{devices=[4,2]<=[2,4]T(1,0)}')

The rules are those of XLA's `HloSharding::FromProto` and of its text parser
(`xla/hlo/ir/hlo_sharding.cc`, `xla/hlo/parser/hlo_parser.cc`); what XLA would
take and then misread or crash on, such as repeated devices, is an error here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
import dataclasses
import enum
import functools
import math
from typing import Optional

from .tile_assignment import (DeviceList, IotaTileAssignment, ShardingError,
                              TileAssignment)

NO_IOTA = 'the device order is no reshaped and transposed iota'


class ShardingTextError(ShardingError):
  """Text that is not a sharding: says where, and what was expected there."""

  def __init__(self, text: str, position: int, expected: str):
    rest = repr(text[position:position + 20]) if text[position:] else 'the end'
    super().__init__(f'expected {expected} at position {position}, found '
                     f'{rest} in sharding {text[:200]!r}')
    self.text, self.position, self.expected = text, position, expected


class UnsupportedShardingError(ShardingError):
  """A sharding that XLA knows and this package does not: named, shard group."""


class ShardingType(enum.IntEnum):
  """The types of a sharding: `OpSharding.Type` of `xla_data.proto`."""
  REPLICATED = 0
  MAXIMAL = 1
  TUPLE = 2
  OTHER = 3
  MANUAL = 4
  UNKNOWN = 5
  UNREDUCED = 6


# The order in which XLA keeps subgroups.
SUBGROUP_ORDER = (ShardingType.MAXIMAL, ShardingType.MANUAL,
                  ShardingType.UNREDUCED, ShardingType.REPLICATED)
WHOLE_TYPES = (ShardingType.REPLICATED, ShardingType.MANUAL,
               ShardingType.UNKNOWN, ShardingType.UNREDUCED)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HloSharding:
  """A sharding: made by `tiled`, `whole`, `maximal`, `tuple_of` or `parse`.

  Attributes:
    type: OTHER is a tiled sharding, as in XLA.
    tiles: OTHER only: the tile assignment, subgroup dims last.
    subgroup_types: OTHER only: the types of the last dims of `tiles`. A lone
      REPLICATED is what XLA calls `replicate_on_last_tile_dim`.
    device: MAXIMAL only.
    elements: TUPLE only.
  """
  type: ShardingType
  tiles: Optional[TileAssignment] = None
  subgroup_types: tuple[ShardingType, ...] = ()
  device: Optional[int] = None
  elements: tuple[HloSharding, ...] = ()

  @classmethod
  def whole(cls, sharding_type: ShardingType) -> HloSharding:
    """A sharding that is its type: REPLICATED, MANUAL, UNKNOWN, UNREDUCED."""
    if sharding_type not in WHOLE_TYPES:
      raise ShardingError(f'{sharding_type!r} says too little for a sharding')
    return cls(ShardingType(sharding_type))

  @classmethod
  def maximal(cls, device: int) -> HloSharding:
    """All of the tensor on one device."""
    if device < 0:
      raise ShardingError(f'maximal device {device} is negative')
    return cls(ShardingType.MAXIMAL, device=int(device))

  @classmethod
  def tuple_of(cls, elements: Iterable[HloSharding]) -> HloSharding:
    """The shardings of the leaves of a tuple; XLA knows no nested ones."""
    elements = tuple(elements)
    if any(e.type == ShardingType.TUPLE for e in elements):
      raise ShardingError('a tuple sharding lists leaves, not tuples')
    return cls(ShardingType.TUPLE, elements=elements)

  @classmethod
  def tiled(
      cls, tiles: TileAssignment, subgroup_types: Sequence[ShardingType] = ()
  ) -> HloSharding:
    """A sharding over tiles, normalised as XLA does.

    One device, or a single kind of subgroup and no tiled dimension, is a
    sharding by type. Subgroups of size 1 go, those of one type are merged, all
    are put in XLA's order, and the devices of a replica group in ascending
    order. V1 stays V1.

    Args:
      tiles: dims of the tensor, then one for each subgroup.
      subgroup_types: MAXIMAL, MANUAL, UNREDUCED or REPLICATED.
    """
    types = tuple(subgroup_types)
    if unknown := [t for t in types if t not in SUBGROUP_ORDER]:
      raise ShardingError(f'{unknown[0]!r} is not the type of a subgroup')
    if len(types) > len(tiles.dims):
      raise ShardingError(f'{len(types)} subgroup types for '
                          f'{len(tiles.dims)} tile assignment dims')
    if tiles.num_devices == 1:
      return cls.whole(ShardingType.REPLICATED)
    rank = len(tiles.dims) - len(types)
    # A stable sort: the subgroup dims of each type, in their own order.
    subgroups = sorted(((ShardingType(t), rank + i)
                        for i, t in enumerate(types)
                        if tiles.dims[rank + i] > 1),
                       key=lambda subgroup: SUBGROUP_ORDER.index(subgroup[0]))
    data_dims = tiles.dims[:rank]
    merged = {t: 1 for t, _ in subgroups}
    for t, dim in subgroups:
      merged[t] *= tiles.dims[dim]
    if len(merged) == 1 and math.prod(data_dims) == 1:
      if (only := next(iter(merged))) in WHOLE_TYPES:
        return cls.whole(only)
    order = [dim for _, dim in subgroups]
    dims = (*data_dims, *merged.values())
    if order != sorted(order):
      tiles = _transpose_subgroups(tiles, rank, order)
    if dims != tiles.dims:
      tiles = tiles.reshape(dims)
    if ShardingType.REPLICATED in merged:
      tiles = tiles.sort_groups(dims[-1])
    return cls(ShardingType.OTHER, tiles, tuple(merged))

  @property
  def replicate_on_last_tile_dim(self) -> bool:
    return self.subgroup_types == (ShardingType.REPLICATED,)

  @property
  def rank(self) -> Optional[int]:
    """The rank of the tensors a tiled sharding is for; None for others."""
    if self.tiles is None:
      return None
    return len(self.tiles.dims) - len(self.subgroup_types)

  def canonical(self) -> HloSharding:
    """The V2 form if one exists; else V1, and `v1_reason` says why."""
    if self.type == ShardingType.TUPLE:
      return HloSharding.tuple_of(e.canonical() for e in self.elements)
    if isinstance(self.tiles, DeviceList) and self.tiles.iota is not None:
      return dataclasses.replace(self, tiles=self.tiles.iota)
    return self

  @property
  def v1_reason(self) -> Optional[str]:
    """Why there is no V2 form; None if there is one, or nothing to write."""
    for element in self.elements:
      if element.v1_reason:
        return element.v1_reason
    tiles = self.canonical().tiles
    return NO_IOTA if isinstance(tiles, DeviceList) else None

  def to_v1(self) -> HloSharding:
    """The V1 form, with every device listed."""
    if self.type == ShardingType.TUPLE:
      return HloSharding.tuple_of(e.to_v1() for e in self.elements)
    if isinstance(self.tiles, IotaTileAssignment):
      return dataclasses.replace(self, tiles=DeviceList(self.tiles.to_array()))
    return self

  def tile_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that a device holds of a tensor; the last tiles may be padded.
    """
    if self.type == ShardingType.TUPLE:
      raise ShardingError(f'{self} is for a tuple, not for a tensor')
    if self.tiles is None:
      return tuple(shape)
    if len(shape) != self.rank:
      raise ShardingError(f'{self} is for tensors of rank {self.rank}, '
                          f'not for shape {list(shape)}')
    return tuple(
        -(-size // tiles)
        for size, tiles in zip(shape, self.tiles.dims[:self.rank], strict=True))

  @functools.cached_property
  def _key(self) -> tuple[Hashable, ...]:
    tiles = self.canonical().tiles
    return self.type, tiles, self.subgroup_types, self.device, self.elements

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, HloSharding):
      return NotImplemented
    return self._key == other._key

  def __hash__(self) -> int:
    return hash(self._key)

  def __str__(self) -> str:
    """The text that XLA prints, without metadata."""
    if self.type == ShardingType.TUPLE:
      separators = ('' if i == 0 else ', ' if i % 5 else f', /*index={i}*/'
                    for i in range(len(self.elements)))
      leaves = (
          f'{s}{e}' for s, e in zip(separators, self.elements, strict=True))
      return '{' + ''.join(leaves) + '}'
    if self.type == ShardingType.MAXIMAL:
      return f'{{maximal device={self.device}}}'
    if self.tiles is None:
      return f'{{{self.type.name.lower()}}}'
    text = f'devices={self.tiles}'
    if self.replicate_on_last_tile_dim:
      text += ' last_tile_dim_replicate'
    elif self.subgroup_types:
      names = ', '.join(t.name.lower() for t in self.subgroup_types)
      text += f' last_tile_dims={{{names}}}'
    return f'{{{text}}}'

  def __repr__(self) -> str:
    return f'parse_sharding({str(self)!r})'


# Held whole by every device.
REPLICATED = HloSharding.whole(ShardingType.REPLICATED)


def _transpose_subgroups(tiles: TileAssignment, rank: int,
                         order: Sequence[int]) -> TileAssignment:
  """Puts the subgroup dims in `order`; those left out have size 1."""
  left_out = sorted(set(range(rank, len(tiles.dims))) - set(order))
  array = tiles.to_array().transpose(*range(rank), *order, *left_out)
  moved = DeviceList(array)
  return moved if isinstance(tiles, DeviceList) else moved.iota or moved
