"""Which device holds which tile: XLA's V1 device lists and V2 iotas.

A tile assignment is an array of device ids: one dimension for each of the
tensor, as long as the number of tiles along it, then those of subgroups, if any
(see `hlo_sharding`). XLA writes it in two ways:

  V1  `devices=[4,2]0,4,1,5,2,6,3,7`    every id, in row-major order
  V2  `devices=[4,2]<=[2,4]T(1,0)`      an iota, reshaped, transposed, reshaped

V2 costs nothing per device, but not every device order has a V2 form. The rules
are those of `xla/hlo/ir/tile_assignment.cc`; background is pytorch/xla#9348.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import functools
import math
import operator
from typing import NamedTuple, Optional, Union

import numpy as np


class ShardingError(ValueError):
  """A sharding that no compiler could mean. Base of all errors of the core."""


class TileAssignmentError(ShardingError):
  """Tile assignment dims, devices or an iota that contradict one another."""


class _Axis(NamedTuple):
  """A dimension of the transposed iota: `size` ids, `stride` apart."""
  size: int
  stride: int


def _integers(values: Iterable[int], name: str) -> tuple[int, ...]:
  try:
    return tuple(map(operator.index, values))
  except TypeError as e:
    raise TileAssignmentError(f'{name} must be integers: {values!r}') from e


def _positive(values: Iterable[int], name: str) -> tuple[int, ...]:
  values = _integers(values, name)
  if min(values, default=0) < 1:
    raise TileAssignmentError(f'{name} must be positive: {list(values)}')
  return values


def _iota_axes(reshape_dims: Sequence[int],
               transpose_perm: Sequence[int]) -> list[_Axis]:
  """The axes of `iota.reshape(reshape_dims).transpose(transpose_perm)`."""
  return [
      _Axis(reshape_dims[dim], math.prod(reshape_dims[dim + 1:]))
      for dim in transpose_perm
  ]


def _coalesce(axes: Iterable[_Axis]) -> list[_Axis]:
  """Drops axes of size 1 and joins neighbours that count on from each other.

  All axes of the same array give the same result: the canonical form. One pass
  is enough, since a joined axis has the stride of its last part.
  """
  joined: list[_Axis] = []
  for axis in axes:
    if axis.size == 1:
      continue
    if joined and joined[-1].stride == axis.size * axis.stride:
      axis = _Axis(joined.pop().size * axis.size, axis.stride)
    joined.append(axis)
  return joined


def _iota_of(
    axes: Sequence[_Axis]) -> Optional[tuple[tuple[int, ...], tuple[int, ...]]]:
  """The reshape dims and transpose perm of coalesced axes, or None.

  No iota has them where the strides are not the products of the sizes below.
  """
  order = sorted(range(len(axes)), key=lambda i: -axes[i].stride)
  stride = 1
  for i in reversed(order):
    if axes[i].stride != stride:
      return None
    stride *= axes[i].size
  reshape_dims = tuple(axes[i].size for i in order)
  return reshape_dims or (1,), tuple(map(order.index, range(len(axes)))) or (0,)


@dataclasses.dataclass(frozen=True)
class IotaTileAssignment:
  """The V2 form: a reshaped and transposed iota.

  It is `arange(n).reshape(reshape_dims).transpose(transpose_perm)` in `dims`.

  Canonical from the start, so that `==` compares placements: reshape dims of
  size 1 go, and those that stay consecutive under the permutation are merged.
  Without reshape dims it is the plain iota.

  >>> str(IotaTileAssignment((4, 2), (2, 2, 2), (2, 0, 1)))
  '[4,2]<=[4,2]T(1,0)'

  Raises:
    TileAssignmentError: dims that are not positive, sizes that differ, or a
      `transpose_perm` that does not permute the reshape dims.
  """
  dims: tuple[int, ...]
  reshape_dims: tuple[int, ...] = ()
  transpose_perm: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    dims = _positive(self.dims, 'tile assignment dims')
    size = math.prod(dims)
    reshape_dims = _positive(
        tuple(self.reshape_dims) or (size,), 'iota reshape dims')
    perm = _integers(self.transpose_perm, 'iota transpose perm')
    if not perm and len(reshape_dims) == 1:
      perm = (0,)
    if sorted(perm) != list(range(len(reshape_dims))):
      raise TileAssignmentError(
          f'iota transpose perm {list(perm)} is not a permutation of the '
          f'{len(reshape_dims)} reshape dims {list(reshape_dims)}')
    if size != math.prod(reshape_dims):
      raise TileAssignmentError(
          f'tile assignment dims {list(dims)} hold {size} devices, but iota '
          f'reshape dims {list(reshape_dims)} hold {math.prod(reshape_dims)}')
    iota = _iota_of(_coalesce(_iota_axes(reshape_dims, perm)))
    assert iota is not None  # It is one.
    object.__setattr__(self, 'dims', dims)
    object.__setattr__(self, 'reshape_dims', iota[0])
    object.__setattr__(self, 'transpose_perm', iota[1])

  @property
  def num_devices(self) -> int:
    return math.prod(self.dims)

  def to_array(self) -> np.ndarray:
    """The device ids, int64, in the shape `dims`."""
    iota = np.arange(self.num_devices, dtype=np.int64)
    axes = iota.reshape(self.reshape_dims).transpose(self.transpose_perm)
    return axes.reshape(self.dims)

  def reshape(self, dims: Sequence[int]) -> IotaTileAssignment:
    """Reshapes the array of devices; their order stays."""
    return dataclasses.replace(self, dims=tuple(dims))

  def sort_groups(self, size: int) -> TileAssignment:
    """Sorts each run of `size` devices: a device list if that takes one.

    Costs nothing per device unless the runs cut across an axis.
    """
    outer = _iota_axes(self.reshape_dims, self.transpose_perm)
    group: list[_Axis] = []
    rest = size
    while rest > 1:
      axis = outer.pop()
      inner = min(rest, axis.size)
      if rest % inner or axis.size % inner:
        devices = DeviceList(self.to_array()).sort_groups(size)
        return devices.iota or devices
      if inner < axis.size:
        outer.append(_Axis(axis.size // inner, axis.stride * inner))
      group.append(_Axis(inner, axis.stride))
      rest //= inner
    group.sort(key=lambda axis: -axis.stride)
    iota = _iota_of(_coalesce(outer + group))
    assert iota is not None  # The strides are those of one, in another order.
    return IotaTileAssignment(self.dims, *iota)

  def __str__(self) -> str:
    """The text that XLA prints: `[4,2]<=[2,4]T(1,0)`, `[8]<=[8]`."""
    text = f'[{_join(self.dims)}]<=[{_join(self.reshape_dims)}]'
    if len(self.reshape_dims) > 1:
      text += f'T({_join(self.transpose_perm)})'
    return text


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceList:
  """The V1 form: every device id, as an array in the shape of the tiles.

  >>> str(DeviceList(np.array([[0, 3], [1, 2]])))
  '[2,2]0,3,1,2'

  Raises:
    TileAssignmentError: ids that are not the integers 0 to n - 1, once each.
  """
  array: np.ndarray

  def __post_init__(self) -> None:
    array = np.asarray(self.array)
    _positive(array.shape, 'tile assignment dims')
    if array.dtype.kind not in 'iu':
      raise TileAssignmentError(f'device ids must be integers, not {array!r}')
    array = np.array(array, dtype=np.int64, order='C')
    flat, n = array.reshape(-1), array.size
    if flat.min() < 0 or flat.max() >= n:
      device = flat.max() if flat.max() >= n else flat.min()
      raise TileAssignmentError(f'device {device} is not one of 0 to {n - 1}')
    count = np.bincount(flat, minlength=n)
    if count.max() > 1:
      raise TileAssignmentError(
          f'device {count.argmax()} is listed {count.max()} times, '
          f'device {count.argmin()} is missing')
    array.setflags(write=False)
    object.__setattr__(self, 'array', array)

  @classmethod
  def from_devices(cls, devices: Devices, dims: Sequence[int]) -> DeviceList:
    """A flat list of devices, under the given tile assignment dims."""
    dims, array = _positive(dims, 'tile assignment dims'), np.asarray(devices)
    if math.prod(dims) != array.size:
      raise TileAssignmentError(
          f'tile assignment dims {list(dims)} hold {math.prod(dims)} devices, '
          f'but {array.size} are listed')
    return cls(array.reshape(dims))

  @property
  def dims(self) -> tuple[int, ...]:
    return tuple(self.array.shape)

  @property
  def num_devices(self) -> int:
    return int(self.array.size)

  @functools.cached_property
  def iota(self) -> Optional[IotaTileAssignment]:
    """The V2 form, None where there is none.

    Finds every form there is, axes fused, split or not adjacent, in time linear
    in the number of devices.

    >>> str(DeviceList.from_devices([0, 4, 1, 5, 2, 6, 3, 7], (4, 2)).iota)
    '[4,2]<=[2,4]T(1,0)'
    """
    axes = _axes_in(self.array.reshape(-1))
    iota_axes = None if axes is None else _iota_of(axes)
    iota = iota_axes and IotaTileAssignment(self.dims, *iota_axes)
    return iota if iota and np.array_equal(iota.to_array(),
                                           self.array) else None

  def to_array(self) -> np.ndarray:
    return self.array

  def reshape(self, dims: Sequence[int]) -> DeviceList:
    """Reshapes the array of devices; their order stays."""
    return DeviceList.from_devices(self.array, dims)

  def sort_groups(self, size: int) -> DeviceList:
    """Sorts each run of `size` devices."""
    return DeviceList.from_devices(
        np.sort(self.array.reshape(-1, size)), self.dims)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, DeviceList) and bool(
        np.array_equal(self.array, other.array))

  def __hash__(self) -> int:
    return hash((self.dims, self.array.tobytes()))

  def __str__(self) -> str:
    """The text that XLA prints: `[2,2]0,3,1,2`."""
    return f'[{_join(self.dims)}]{_join(self.array.reshape(-1).tolist())}'


Devices = Union[np.ndarray, Sequence[int]]
TileAssignment = Union[IotaTileAssignment, DeviceList]


def _join(values: Iterable[int]) -> str:
  return ','.join(map(str, values))


def _axes_in(flat: np.ndarray) -> Optional[list[_Axis]]:
  """The axes that an array of device ids must have if it is made of axes.

  The innermost of coalesced axes is the longest run of equal steps: were the
  step after it equal, the two axes would be one. So it is taken off, and the
  heads of the runs, at most half as many, are looked at in the same way.
  """
  axes: list[_Axis] = []
  while flat.size > 1:
    steps = np.diff(flat)
    breaks = np.flatnonzero(steps != steps[0])
    size = int(breaks[0]) + 1 if breaks.size else flat.size
    if flat.size % size:
      return None
    axes.append(_Axis(size, int(steps[0])))
    flat = flat[::size]
  return axes[::-1]
