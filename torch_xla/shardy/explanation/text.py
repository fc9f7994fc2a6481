"""An explanation as people read it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
import fnmatch
import itertools
from typing import Optional, Union

from . import conflicts
from ..compile.record import collectives
from .conflicts import Conflict, Reason, Refusal
from .propagation import Dim, Origin, Propagation, Tensor, whole_axis
from .trial import Priorities

INFERRED = (
    'Where axes came from is inferred: the installed Shardy does not tell '
    'it of this program')
_MOST_PLACES = 3


def axes_of(dims: Iterable[Dim]) -> Iterator[str]:
  return (axis for dim in dims for axis in dim.axes)


def spec_text(of: Union[Tensor, Origin]) -> str:
  """The partition spec as `mark_sharding` takes it: `('data', None)`."""
  return spec_of([d.axes for d in of.dims])


def spec_of(axes: Sequence[Sequence[str]]) -> str:
  dims = list(map(_dim_text, axes))
  return f'({", ".join(dims)}{"," * (len(dims) == 1)})'


def _dim_text(axes: Sequence[str]) -> str:
  if len(axes) > 1:
    return f'({", ".join(map(repr, axes))})'
  return repr(axes[0]) if axes else 'None'


def as_above(count: int) -> str:
  return f'{count} as above'


def turned(propagation: Propagation, priorities: Optional[Priorities]) -> str:
  if priorities is None:
    return '  no priority that was tried turns it'
  return f'  turned by {priorities_text(propagation, priorities)} (tried)'


def conflict_lines(propagation: Propagation,
                   conflict: Conflict) -> Iterator[str]:
  """A conflict, without what turns it."""
  place = conflict.places[0]
  loser, winner = (
      propagation.origins[n] for n in (conflict.loser, conflict.winner))
  yield (' against '.join(
      f'{of.name} {spec_text(of)}{_where_text(of)}' for of in (loser, winner)) +
         (f', and {conflict.alike} alike' if conflict.alike else ''))
  for one in conflict.places[:_MOST_PLACES]:
    yield f'  {_place_text(propagation, one)}'
  if len(conflict.places) > _MOST_PLACES:
    yield f'  and at {len(conflict.places) - _MOST_PLACES} more operations'
  moved = propagation.collectives({p.operation for p in conflict.places})
  yield f'  moved there: {collectives(moved)}'
  yield f'  {_by_what(propagation, conflict, place)}'


def _where_text(of: Union[Tensor, Origin]) -> str:
  return f' ({of.where})' if of.where else ''


def timeline(propagation: Propagation) -> Iterator[str]:
  """For each priority and axis, to how many tensors the axis came."""
  came = collections.Counter(
      (origin.priority_of(axis), axis)
      for tensor in propagation.tensors
      for axis in set(map(whole_axis, tensor.axes))
      if (origin := propagation.origins.get(tensor.origin_of(axis))))
  for priority, some in itertools.groupby(sorted(came), lambda key: key[0]):
    to = ', '.join(f'{key[1]!r} to {came[key]:,} tensors' for key in some)
    yield f'propagated by priority {priority}: {to}'


def _place_text(propagation: Propagation, refusal: Refusal) -> str:
  tensor = propagation.tensors[refusal.target]
  operation = propagation.operations[refusal.operation]
  why = refusal.reason.value
  if refusal.winning_axis and refusal.reason in (Reason.OTHER_AXIS,
                                                 Reason.USED):
    why = f'is {spec_text(tensor)}'
  at = '' if tensor.name == operation.name else f' at {operation.name}'
  at += _where_text(propagation.tensors[operation.tensors[-1]])
  return (f'{refusal.axis!r} does not come to dimension {refusal.dim} of '
          f'{tensor.name} {tensor.shape}{at}, which {why}')


def _by_what(found: Propagation, conflict: Conflict, place: Refusal) -> str:
  loser, winner = (found.origins[n] for n in (conflict.loser, conflict.winner))
  mine = loser.priority_of(conflict.axis)
  other = winner.priority_of(place.winning_axis)
  if other < mine:
    return f'{winner.name} won by priority {other} before {mine}'
  if other > mine:
    return (
        f'{winner.name} was there first, though its priority is {other} and '
        f'not {mine}')
  return (f'both have priority {mine}: {winner.name} won by the order in which '
          'Shardy goes through operations')


def priorities_text(propagation: Propagation, priorities: Priorities) -> str:
  by_origin: dict[str, dict[int, int]] = {}
  for (origin, dim), priority in priorities.items():
    by_origin.setdefault(origin, {})[dim] = priority
  if len(by_origin) > 2:  # The first, before all others.
    key = next(iter(by_origin))
    return (
        f'priority={_values(propagation.origins[key], by_origin[key])} on '
        f'{propagation.origins[key].name}, and one more than now on all others')
  return ' and '.join(
      f'priority={_values(propagation.origins[key], by_dim)} on '
      f'{propagation.origins[key].name}' for key, by_dim in by_origin.items())


def _values(origin: Origin, by_dim: Mapping[int, int]) -> str:
  values = [str(by_dim.get(n, d.priority)) for n, d in enumerate(origin.dims)]
  return f'({", ".join(values)}{"," * (len(values) == 1)})'


def tensor_lines(propagation: Propagation, glob: str) -> Iterator[str]:
  """Each tensor whose name matches: its sharding, and how each axis came."""
  for number, tensor in enumerate(propagation.tensors):
    if tensor.name != glob and not fnmatch.fnmatchcase(tensor.name, glob):
      continue
    yield f'{tensor.name} {tensor.shape} {spec_text(tensor)}{_where_text(tensor)}'
    for axis in dict.fromkeys(tensor.axes):
      origin = tensor.origin_of(axis)
      if origin not in propagation.origins:
        continue
      way = [
          propagation.tensors[n].name for n in propagation.path(number, axis)
      ]
      name = propagation.origins[origin].name
      if way[0] != name:
        way.insert(0, name)
      yield f'  {axis!r} of {" -> ".join(way)}'


def whole_lines(propagation: Propagation, nbytes: int) -> Iterator[str]:
  """Computed tensors that each device has whole, and what kept them so.

  Args:
    nbytes: from which size on; the largest come first.
  """
  refused = {
      refusal.target: refusal for refusal in conflicts.refusals(propagation)
  }
  computed_with: dict[int, Sequence[int]] = {}
  for operation in propagation.operations:
    if operation.rule is not None:
      count = len(operation.rule.factors)
      computed_with.update(
          (n, operation.tensors[:count]) for n in operation.tensors)
  whole = [(tensor.shape.nbytes, -number)
           for number, tensor in enumerate(propagation.tensors)
           if number in computed_with and not tensor.own and
           not any(tensor.axes) and tensor.shape.nbytes >= nbytes]
  for size, negated in sorted(whole, reverse=True):
    number = -negated
    refusal = refused.get(number)
    if refusal is not None:
      why = f'{refusal.axis!r} was refused: it {refusal.reason.value}'
    elif any(any(propagation.tensors[n].axes) for n in computed_with[number]):
      why = 'what splits other tensors there is no dimension of it'
    else:
      why = 'nothing that it is computed with is split'
    tensor = propagation.tensors[number]
    yield f'{tensor.name} {tensor.shape}, {size:,} bytes: {why}'


def changes(before: Propagation, after: Propagation) -> Iterator[str]:
  """The tensors of one program that are split otherwise, before and after."""
  for one, other in zip(before.tensors, after.tensors, strict=False):
    if one.name == other.name and spec_text(one) != spec_text(other):
      yield f'{one.name} {one.shape} {spec_text(one)} -> {spec_text(other)}'
