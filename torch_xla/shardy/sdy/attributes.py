"""Shardy's mesh and tensor shardings as values, checked, with their text.

  >>> mesh = Mesh((('x', 2), ('y', 4)))
  >>> str(mesh)
  '#sdy.mesh<["x"=2, "y"=4]>'
  >>> x, y = SubAxis('x'), SubAxis('y', 1, 2)
  >>> text(mesh, (DimSharding((x,), priority=1), DimSharding((y,)),
  ...             DimSharding(closed=False)))
  '<@mesh, [{"x"}p1, {"y":(1)2}, {?}]>'

XLA's verifier is off in release builds, and a malformed attribute ends the
process; so the verifier's rules (shardy/dialect/sdy/ir/verifiers.cc) are
checked here, before any text exists.
"""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import math
import re
from typing import Optional

MESH_NAME = 'mesh'
# Names that Shardy's text takes as they are; everything else is replaced.
_AXIS_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z')


class SdyError(ValueError):
  """A mesh or a sharding that Shardy's verifier would refuse."""


def is_axis_name(name: str) -> bool:
  """Tests whether `name` can stand in Shardy's text."""
  return bool(_AXIS_NAME.match(name))


@dataclasses.dataclass(frozen=True)
class Mesh:
  """A `sdy.mesh`: axes of (name, size), major first, over n devices.

  Attributes:
    device_ids: in row-major order; None for 0 to n - 1.
  """
  axes: tuple[tuple[str, int], ...]
  device_ids: Optional[tuple[int, ...]] = None

  def __post_init__(self) -> None:
    names = [name for name, _ in self.axes]
    if len(set(names)) != len(names):
      raise SdyError(f'mesh axes share a name: {names}')
    for name, size in self.axes:
      if not is_axis_name(name):
        raise SdyError(f'{name!r} is not a name for a mesh axis')
      if size < 1:
        raise SdyError(f'mesh axis {name!r} has size {size}')
    if self.device_ids is not None:
      plain = tuple(range(self.num_devices))
      if tuple(sorted(self.device_ids)) != plain:
        raise SdyError(f'device ids {self.device_ids} are not those of '
                       f'{self.num_devices} devices')
      if self.device_ids == plain:
        raise SdyError('device ids in plain order must be left out')

  @property
  def num_devices(self) -> int:
    return math.prod(size for _, size in self.axes)

  def __str__(self) -> str:
    axes = ', '.join(f'"{name}"={size}' for name, size in self.axes)
    ids = ''
    if self.device_ids is not None:
      ids = f', device_ids=[{", ".join(map(str, self.device_ids))}]'
    return f'#sdy.mesh<[{axes}]{ids}>'


@dataclasses.dataclass(frozen=True)
class SubAxis:
  """A mesh axis, or `(pre_size)size` of it.

  Attributes:
    pre_size: the product of what is more major in the same axis.
    size: None for the whole axis.
  """
  name: str
  pre_size: int = 1
  size: Optional[int] = None

  def __str__(self) -> str:
    part = '' if self.size is None else f':({self.pre_size}){self.size}'
    return f'"{self.name}"{part}'


@dataclasses.dataclass(frozen=True)
class DimSharding:
  """The split of one dimension.

  Attributes:
    axes: from major to minor.
    closed: an open dimension may be split further by propagation.
    priority: lower is propagated earlier; None counts as 0.
  """
  axes: tuple[SubAxis, ...] = ()
  closed: bool = True
  priority: Optional[int] = None

  def __post_init__(self) -> None:
    if self.priority is not None:
      if not 0 <= self.priority < 2**63:
        raise SdyError(f'priority {self.priority} is no number of 63 bits')
      if self.closed and not self.axes:
        raise SdyError('an empty closed dimension takes no priority')

  def __str__(self) -> str:
    entries = [*map(str, self.axes), *([] if self.closed else ['?'])]
    priority = '' if self.priority is None else f'p{self.priority}'
    return f'{{{", ".join(entries)}}}{priority}'


TensorSharding = tuple[DimSharding, ...]


def check(mesh: Mesh, dims: TensorSharding) -> None:
  """Checks the rules that need the mesh."""
  sizes = dict(mesh.axes)
  used_parts: dict[str, list[tuple[int, int]]] = {}
  for dim in dims:
    previous = None
    for axis in dim.axes:
      if axis.name not in sizes:
        raise SdyError(f'axis {axis} is not one of {mesh}')
      whole = sizes[axis.name]
      size = whole if axis.size is None else axis.size
      end = axis.pre_size * size
      if axis.pre_size < 1 or axis.size is not None and (
          size < 2 or size == whole or whole % end):
        raise SdyError(f'{axis} is no part of an axis of size {whole}')
      for other_pre, other_end in used_parts.setdefault(axis.name, []):
        if axis.pre_size < other_end and other_pre < end or whole == 1:
          raise SdyError(f'axis {axis} is used twice')
      used_parts[axis.name].append((axis.pre_size, end))
      if previous == (axis.name, axis.pre_size):
        raise SdyError(f'{axis} continues the sub-axis before it')
      previous = axis.name, end


def text(mesh: Mesh, dims: TensorSharding,
         unreduced: Sequence[SubAxis] = ()) -> str:
  """The text `<@mesh, [..]>` of a checked sharding; raises SdyError."""
  check(mesh, (*dims, DimSharding(tuple(unreduced))))
  rest = f', unreduced={{{", ".join(map(str, unreduced))}}}' if unreduced else ''
  return f'<@{MESH_NAME}, [{", ".join(map(str, dims))}]{rest}>'


def sharding_attribute(mesh: Mesh, dims: TensorSharding) -> str:
  """The value of `xla.sdy.sharding` on a parameter; raises SdyError."""
  return f'#sdy.sharding{text(mesh, dims)}'


def sharding_per_value(
    mesh: Mesh, dims: TensorSharding, unreduced: Sequence[SubAxis] = ()) -> str:
  """The value of `xla.sdy.sharding` on a custom call; raises SdyError."""
  return f'#sdy.sharding_per_value<[{text(mesh, dims, unreduced)}]>'


def free_axes(mesh: Mesh, dims: TensorSharding) -> tuple[SubAxis, ...]:
  """The parts of axes that split no dimension, in the order of the mesh."""
  free = []
  for name, size in mesh.axes:
    used_parts = sorted((axis.pre_size, axis.size or size)
                        for dim in dims
                        for axis in dim.axes
                        if axis.name == name)
    if not used_parts:
      free.append(SubAxis(name))
      continue
    end = 1
    for pre_size, part in [*used_parts, (size, 1)]:
      if pre_size > end:
        free.append(SubAxis(name, end, pre_size // end))
      end = pre_size * part
  return tuple(free)


def manual_attribute(mesh: Mesh, values: Sequence[TensorSharding]) -> str:
  """The in or out shardings of a manual region, all of whose axes are manual.

  Shardy wants every manual axis named in each: what splits no dimension is
  `replicated`. Raises SdyError.
  """
  shardings = []
  for dims in values:
    free = ', '.join(map(str, free_axes(mesh, dims)))
    replicated = f', replicated={{{free}}}' if free else ''
    shardings.append(f'{text(mesh, dims)[:-1]}{replicated}>')
  return f'#sdy.sharding_per_value<[{", ".join(shardings)}]>'


def manual_axes_attribute(mesh: Mesh) -> str:
  """The value of `xla.sdy.manual_axes`: all axes of the mesh."""
  names = ', '.join(f'"{name}"' for name, _ in mesh.axes)
  return f'#sdy<manual_axes{{{names}}}>'


def meshes_attribute(mesh: Mesh) -> str:
  """The value of `xla.sdy.meshes` on a module."""
  return f'{{{MESH_NAME} = {mesh}}}'
