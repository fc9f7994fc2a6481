"""The result of Shardy's propagation, as values.

An *origin* is a place where a user said a sharding: an argument of the program,
a constraint inside it, or a result. Shardy itself names the origin of each axis
of a tensor, and each step in which it came along an operation.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import math
import operator
from typing import NamedTuple, Optional

from ..hlo.array_shape import ArrayShape
from ..hlo.compiled_program import group_by_kind, Collective

# The factors of each dimension of an operand or a result.
Factors = tuple[tuple[int, ...], ...]


def whole_axis(axis: str) -> str:
  """The axis that a sub-axis is of; of another axis itself."""
  return axis.partition(':')[0]


class Dim(NamedTuple):
  """How a dimension is split: axes, 'model' or as a sub-axis 'model:(1)2'."""
  axes: tuple[str, ...] = ()
  is_closed: bool = False
  priority: Optional[int] = None


class Origin(NamedTuple):
  """A sharding that a user said.

  Attributes:
    name: the user's for the tensor, or what it is.
    argument: its number if it is one of the program's, else None.
    where: the line that said it, 'train.py:12'; empty where it is not known.
  """
  name: str
  shape: ArrayShape
  dims: tuple[Dim, ...]
  argument: Optional[int] = None
  where: str = ''

  def dim_of(self, axis: str) -> Optional[int]:
    """The dimension that an axis, or a part of it, was said for."""
    name = whole_axis(axis)
    return next(
        (n for n, d in enumerate(self.dims) if name in map(whole_axis, d.axes)),
        None)

  def priority_of(self, axis: str) -> int:
    """The priority that an axis was said with; 0 where none was."""
    dim = self.dim_of(axis)
    return 0 if dim is None else self.dims[dim].priority or 0


class Tensor(NamedTuple):
  """A value of the program, as it is after propagation.

  Attributes:
    name: its own if it is an argument, else what made it.
    origins: by axis, a key of `Propagation.origins`.
    own: that of what a user said of this very value; empty for most.
    where: the line that made it, 'train.py:12'; empty where it is not known.
  """
  name: str
  shape: ArrayShape
  dims: tuple[Dim, ...]
  origins: Mapping[str, str]
  own: str = ''
  where: str = ''

  @property
  def axes(self) -> Iterator[str]:
    return (axis for dim in self.dims for axis in dim.axes)

  def origin_of(self, axis: str) -> str:
    """The origin of an axis, or of the axis that it is a part of, or ''."""
    name = whole_axis(axis)
    return self.origins.get(axis) or next(
        (o for a, o in self.origins.items() if whole_axis(a) == name), '')


class Rule(NamedTuple):
  """How the dimensions of an operation's operands and results belong together.

  Attributes:
    sizes: of the factors.
    factors: of the operands and then of the results.
    blocked: factors that nothing is propagated along.
  """
  sizes: tuple[int, ...]
  factors: tuple[Factors, ...]
  blocked: frozenset[int] = frozenset()


class Step(NamedTuple):
  """One step of an axis from a tensor to others; tensors by their numbers."""
  number: int
  axis: str
  source: int
  targets: tuple[int, ...]


class Operation(NamedTuple):
  """An operation of the program.

  Attributes:
    tensors: the numbers of its operands and then of its results.
    num_operands: how many of them are operands.
    rule: None where Shardy has none.
  """
  name: str
  tensors: tuple[int, ...]
  num_operands: int
  rule: Optional[Rule]
  steps: tuple[Step, ...]


class Move(NamedTuple):
  """A collective that the propagated shardings ask for.

  Attributes:
    kind: as XLA calls it.
    nbytes: of what one device gets.
    operation: the number of the operation that it is for; None for a result of
      the program, and where it cannot be found.
  """
  kind: str
  nbytes: int
  operation: Optional[int]


@dataclasses.dataclass(frozen=True)
class Propagation:
  """A program after propagation.

  Attributes:
    mesh: the sizes of the axes, in the mesh's order.
    origins: by Shardy's names of them.
    names: of arguments, where the module has none.
    moves: what Shardy would move between devices.
    is_inferred: whether the origins of axes and the steps are ours.
  """
  mesh: Mapping[str, int]
  origins: Mapping[str, Origin]
  tensors: tuple[Tensor, ...]
  operations: tuple[Operation, ...]
  names: Mapping[int, str] = dataclasses.field(default_factory=dict)
  moves: tuple[Move, ...] = ()
  is_inferred: bool = False

  def size_of(self, axis: str) -> int:
    """The size of an axis or a sub-axis."""
    _, is_sub, sub = axis.partition(':(')
    return int(sub.partition(')')[2]) if is_sub else self.mesh[axis]

  def factor_axes(self, operation: Operation,
                  rule: Rule) -> list[dict[int, tuple[str, ...]]]:
    """The axes of each factor, for each operand and result."""
    by_tensor = []
    for number, factors in zip(operation.tensors, rule.factors, strict=True):
      of_tensor: dict[int, tuple[str, ...]] = {}
      for dim, of_dim in zip(self.tensors[number].dims, factors, strict=True):
        of_tensor.update(self._spread(dim, of_dim, rule.sizes))
      by_tensor.append(of_tensor)
    return by_tensor

  def _spread(self, dim: Dim, factors: Sequence[int],
              sizes: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Gives axes to factors as long as these last, in parts if need be."""
    axes = list(dim.axes)
    by_factor: dict[int, tuple[str, ...]] = {}
    for factor in factors:
      rest, axes_of_factor = sizes[factor], []
      while axes and (rest > 1 or factor == factors[-1]):
        size = self.size_of(axes[0])
        if factor != factors[-1] and size > rest and size % rest == 0:
          axes_of_factor.append(_part(axes[0], 1, rest))
          axes[0] = _part(axes[0], rest, size // rest)
          break
        axes_of_factor.append(axes.pop(0))
        rest //= size
      by_factor[factor] = tuple(axes_of_factor)
    return by_factor

  def splits_factors_unevenly(self) -> bool:
    """Tests whether axes split 3x4x16 in four: not the 3, and not the 12."""

    def is_uneven(dim: Dim, sizes: Sequence[int]) -> bool:
      tiles = itertools.accumulate(map(self.size_of, dim.axes), operator.mul)
      parts = list(itertools.accumulate(sizes[:-1], operator.mul))
      return any(
          tile % part and part % tile for tile in tiles for part in parts)

    return any(
        len(of_dim) > 1 and dim.axes and
        is_uneven(dim, [operation.rule.sizes[f]
                        for f in of_dim])
        for operation in self.operations if operation.rule is not None
        for number, factors in zip(
            operation.tensors, operation.rule.factors, strict=True)
        for dim, of_dim in zip(self.tensors[number].dims, factors, strict=True))

  def local(self, shape: ArrayShape, dims: Iterable[Dim]) -> ArrayShape:
    """The shape of one device's part of a tensor."""
    return dataclasses.replace(
        shape,
        dims=tuple(-(-size // math.prod(map(self.size_of, dim.axes)))
                   for size, dim in zip(shape.dims, dims, strict=True)))

  def collectives(
      self, at: Optional[Container[int]] = None) -> tuple[Collective, ...]:
    """The moves by kind; `at`: of these operations alone."""
    return group_by_kind((move.kind, move.nbytes, '')
                         for move in self.moves
                         if at is None or move.operation in at)

  @functools.cached_property
  def _arrivals(self) -> Mapping[tuple[int, str], int]:
    """The tensor that each tensor's axis first came from."""
    steps = sorted(s for operation in self.operations for s in operation.steps)
    return {
        (target, whole_axis(step.axis)): step.source for step in reversed(steps)
        for target in step.targets
    }

  def path(self, tensor: int, axis: str) -> list[int]:
    """The tensors by which an axis came to one, the origin's first."""
    path = {tensor: None}  # From its end.
    axis = whole_axis(axis)
    while (source := self._arrivals.get((tensor, axis))) is not None:
      if source in path:
        break
      path[tensor := source] = None
    return [*reversed(path)]


def _part(axis: str, before: int, size: int) -> str:
  """A part of an axis, behind as many devices of it."""
  name, _, rest = axis.partition(':(')
  return f'{name}:({int(rest.partition(")")[0] or 1) * before}){size}'
