"""Writes any placement in the axes of one mesh, by sub-axes where it needs to.

  >>> mesh = attributes.Mesh((('x', 2), ('y', 4)))
  >>> sharding = parse_sharding('{devices=[4,2]<=[8]}')
  >>> attributes.text(mesh, dims_of(sharding, mesh, 2))
  '<@mesh, [{"x", "y":(1)2}, {"y":(2)2}]>'
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
import itertools
import math
from typing import NamedTuple, Optional

import numpy as np

from . import attributes
from ..annotate.annotation import Annotation, UserMesh
from ..sharding.hlo_sharding import HloSharding, ShardingType
from ..sharding.tile_assignment import DeviceList, IotaTileAssignment


class InexpressibleError(ValueError):
  """Nothing in Shardy's terms says this exactly; the message says what.

  Attributes:
    site: the key of the site that said it, as `constraints.decide` has them; None
      if it was none.
  """

  def __init__(self, message: str, site: Optional[Hashable] = None):
    super().__init__(message)
    self.site = site


class _Digit(NamedTuple):
  """A digit of a device's place in the mesh: `index // stride % size`."""
  stride: int
  size: int


def mesh_of(user_mesh: UserMesh) -> attributes.Mesh:
  """The mesh in Shardy's terms, with axis names made up where it has none."""
  names = [user_mesh.axis_name(i) for i in range(len(user_mesh.shape))]
  if len(
      set(names)) != len(names) or not all(map(attributes.is_axis_name, names)):
    names = [f'axis_{i}' for i in range(len(names))]
  return attributes.Mesh(
      tuple(zip(names, user_mesh.shape, strict=True)), user_mesh.device_ids)


def mesh_of_placements(placements: Iterable[HloSharding],
                       num_devices: int) -> attributes.Mesh:
  """The mesh of as few axes as possible that gives all of these placements.

  For a program in which no user names a mesh: its axes have made-up names.
  """
  tiled = [(p, p.tiles) for p in placements if p.tiles is not None]
  for placement, _ in tiled:
    _check_tiled(placement, num_devices)
  # The devices of a replica group are sorted: the least of them tell most.
  unordered = max(((math.prod(tiles.dims[:p.rank]), tiles)
                   for p, tiles in tiled
                   if p.v1_reason),
                  key=lambda candidate: candidate[0],
                  default=None)
  device_ids = None
  if unordered is not None:
    device_ids = tuple(unordered[1].to_array().reshape(-1).tolist())
  line = attributes.Mesh((('axis_0', num_devices),), device_ids)
  ends = {1, num_devices}
  for placement, _ in tiled:
    for digits in _digits(_tiles_in_mesh_order(placement, line)):
      for digit in digits:
        ends |= {digit.stride, digit.stride * digit.size}
  sizes = []
  for minor, major in itertools.pairwise(sorted(ends)):
    if major % minor:
      raise InexpressibleError('shardings that no mesh has in common')
    sizes.append(major // minor)
  axes = tuple(
      (f'axis_{i}', size) for i, size in enumerate(reversed(sizes or [1])))
  return attributes.Mesh(axes, device_ids)


def annotated_dims(annotation: Annotation,
                   mesh: attributes.Mesh) -> attributes.TensorSharding:
  """An annotation's dimensions: priorities kept, closed unless left open.

  Raises:
    InexpressibleError: the annotation's mesh and `mesh` do not divide alike.
  """
  if mesh_of(annotation.mesh) == mesh:
    names = [name for name, _ in mesh.axes]
    placed = tuple(
        attributes.DimSharding(
            tuple(attributes.SubAxis(names[axis])
                  for axis in axes))
        for axes in annotation.partition_spec)
  else:
    placed = dims_of(annotation.sharding, mesh, len(annotation.partition_spec))
  priorities = annotation.priority or (None,) * len(placed)
  dims = []
  for dim, named, priority, is_open in zip(
      placed,
      annotation.partition_spec,
      priorities,
      annotation.open_dims,
      strict=True):
    if named and not dim.axes and not is_open:
      priority = None  # An axis of size 1 of another mesh: split over nothing.
    dims.append(attributes.DimSharding(dim.axes, not is_open, priority))
  return tuple(dims)


def unreduced_axes(annotation: Annotation,
                   mesh: attributes.Mesh) -> tuple[attributes.SubAxis, ...]:
  """The axes over which a value is a part of a sum."""
  if annotation.unreduced and mesh_of(annotation.mesh) != mesh:
    raise InexpressibleError(
        f'axes that are unreduced over {mesh_of(annotation.mesh)} in a program '
        f'over {mesh} (mark what one program uses over one mesh)')
  return tuple(
      attributes.SubAxis(mesh.axes[axis][0]) for axis in annotation.unreduced)


def dims_of(sharding: HloSharding, mesh: attributes.Mesh,
            rank: int) -> attributes.TensorSharding:
  """The closed dimensions that give a tensor of `rank` this placement."""
  if sharding.type == ShardingType.REPLICATED:
    return (attributes.DimSharding(),) * rank
  _check_tiled(sharding, mesh.num_devices)
  if sharding.rank != rank:
    raise InexpressibleError(
        f'the sharding {_short(sharding)} on a tensor of rank {rank}')
  try:
    digits = _digits(_tiles_in_mesh_order(sharding, mesh))
    return tuple(
        attributes.DimSharding(_sub_axes_of(dim, mesh))
        for dim in digits[:rank])
  except InexpressibleError as e:
    raise InexpressibleError(
        f'the sharding {_short(sharding)} over {mesh} (mark what one program '
        'uses over one mesh, or over meshes that are factors of one)') from e


def _check_tiled(sharding: HloSharding, num_devices: int) -> None:
  if (sharding.tiles is None or
      set(sharding.subgroup_types) - {ShardingType.REPLICATED}):
    raise InexpressibleError(f'the sharding {_short(sharding)}')
  if sharding.tiles.num_devices != num_devices:
    raise InexpressibleError(
        f'the sharding {_short(sharding)} over {sharding.tiles.num_devices} '
        f'of {num_devices} devices')


def _short(sharding: HloSharding) -> str:
  text = str(sharding)
  return text if len(text) <= 120 else f'{text[:117]}...'


def _tiles_in_mesh_order(sharding: HloSharding,
                         mesh: attributes.Mesh) -> IotaTileAssignment:
  """The tiles with devices numbered by their place in the mesh."""
  tiles = sharding.tiles
  assert tiles is not None  # It is checked.
  if mesh.device_ids is not None:
    places = np.argsort(np.array(mesh.device_ids))
    tiles = DeviceList(places[tiles.to_array()])
    if sharding.replicate_on_last_tile_dim:
      tiles = tiles.sort_groups(tiles.dims[-1])
  iota = tiles if isinstance(tiles, IotaTileAssignment) else tiles.iota
  if iota is None:
    raise InexpressibleError('no iota')
  return iota


def _digits(iota: IotaTileAssignment) -> list[list[_Digit]]:
  """The digits that each tile dimension is made of, from major to minor."""
  strides = np.cumprod((1, *iota.reshape_dims[:0:-1]))[::-1].tolist()
  order = iota.transpose_perm
  factors = [(strides[i], iota.reshape_dims[i]) for i in order]
  factors.reverse()  # A stack: the major one is taken first.
  dims = []
  for need in iota.dims:
    digits = []
    while need > 1:
      stride, size = factors.pop()
      if size == 1:
        continue
      digit_size = size if need % size == 0 else need
      if size % digit_size:
        raise InexpressibleError('tiles cut a factor')
      rest = size // digit_size
      digits.append(_Digit(stride * rest, digit_size))
      if rest > 1:
        factors.append((stride, rest))
      need //= digit_size
    dims.append(digits)
  return dims


def _sub_axes_of(digits: Sequence[_Digit],
                 mesh: attributes.Mesh) -> tuple[attributes.SubAxis, ...]:
  """The sub-axes that give these digits, whole axes written as such."""
  parts: list[tuple[str, int, int]] = []  # Name, pre-size, size.
  for digit in digits:
    for name, pre_size, size in _parts_of(digit, mesh):
      if parts and parts[-1][0] == name and (parts[-1][1] * parts[-1][2]
                                             == pre_size):
        _, first, before = parts.pop()
        parts.append((name, first, before * size))
      else:
        parts.append((name, pre_size, size))
  sizes = dict(mesh.axes)
  return tuple(
      attributes.SubAxis(name) if size ==
      sizes[name] else attributes.SubAxis(name, pre_size, size)
      for name, pre_size, size in parts)


def _parts_of(digit: _Digit,
              mesh: attributes.Mesh) -> list[tuple[str, int, int]]:
  """The parts of mesh axes that a digit runs over, from major to minor."""
  parts = []
  start, end = digit.stride, digit.stride * digit.size
  low = mesh.num_devices
  for name, axis_size in mesh.axes:
    high, low = low, low // axis_size
    first, last = max(start, low), min(end, high)
    if last <= first:
      continue
    if first % low or last % first or high % last or first % start or (end %
                                                                       last):
      raise InexpressibleError('axes cut a digit')
    parts.append((name, high // last, last // first))
  return parts
