"""Where an axis that a user asked for did not go on, and what kept it.

Of an operation, dimensions that belong together are a *factor*. An axis that
splits a factor of one of its tensors and not of another was *refused* there:
what the operation computes with has to be moved. Where another origin's axis
is the reason, the two are in conflict.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
import dataclasses
import enum
import functools
import itertools
import math
from typing import NamedTuple

from ..layers import group_of
from .propagation import Operation, Origin, Propagation, Rule, Tensor, whole_axis


class Reason(enum.Enum):
  """Why a tensor was not split by an axis."""
  SAID = 'is said to be otherwise'
  OTHER_AXIS = 'is split by another axis there'
  USED = 'is split by that axis in another dimension'
  USED_IN_OPERATION = 'would need it for another dimension of the operation'
  INDIVISIBLE = 'does not divide by it'
  MINOR = 'has another dimension merged before it'
  BLOCKED = 'is an operation that Shardy takes no axis through'
  UNTOLD = 'was not split; Shardy does not say why'


class Refusal(NamedTuple):
  """An axis that did not come to a tensor, and the operation where.

  Attributes:
    operation: its number.
    axis: that was refused.
    origin: that it came from; empty where Shardy does not say.
    source: the number of the tensor that has it.
    target: of the tensor that has not.
    dim: of the target.
    reason: why.
    winner: the origin of what stood in its way; empty where that is none.
    winning_axis: what has its place; empty likewise.
  """
  operation: int
  axis: str
  origin: str
  source: int
  target: int
  dim: int
  reason: Reason
  winner: str = ''
  winning_axis: str = ''


@dataclasses.dataclass(frozen=True)
class Conflict:
  """Two origins that wanted different things, wherever they did.

  Attributes:
    loser: the origin whose axis was refused.
    winner: of what stood in its way.
    axis: that was refused.
    places: where, in the program's order; at least one.
    alike: how many there are of other layers, by names that differ in numbers.
  """
  loser: str
  winner: str
  axis: str
  places: tuple[Refusal, ...]
  alike: int = 0


def refusals(propagation: Propagation) -> Iterator[Refusal]:
  """All of a program, operation by operation."""
  for number, operation in enumerate(propagation.operations):
    if operation.rule is not None and operation.rule.factors:
      yield from _refused_at(propagation, number, operation, operation.rule)


def find_conflicts(propagation: Propagation) -> tuple[Conflict, ...]:
  """The conflicts of a program, by the first place; of layers the first."""
  places: dict[tuple[str, str, str], list[Refusal]] = {}
  origins = propagation.origins
  for r in refusals(propagation):
    if r.origin in origins and r.winner in origins and (r.origin != r.winner):
      places.setdefault((r.origin, r.winner, r.axis), []).append(r)
  folded: dict[Hashable, Conflict] = {}
  for (loser, winner, axis), group in places.items():
    layers = [_of_layers(origins[n]) for n in (loser, winner)]
    key = (*layers, axis, group[0].reason)
    first = folded.get(key)
    folded[key] = (
        Conflict(loser, winner, axis, tuple(group))
        if first is None else dataclasses.replace(first, alike=first.alike + 1))
  return tuple(folded.values())


def _of_layers(origin: Origin) -> Hashable:
  """A key that origins of layers that are alike have in common."""
  if origin.argument is not None:
    return group_of(origin.name)
  return origin._replace(name=group_of(origin.name))


def _refused_at(propagation: Propagation, number: int, operation: Operation,
                rule: Rule) -> Iterator[Refusal]:
  split = propagation.factor_axes(operation, rule)
  for factor in range(len(rule.sizes)):
    having = [n for n, axes in enumerate(split) if factor in axes]
    reported_pairs = set()
    for source, target in itertools.permutations(having, 2):
      own, other = split[source][factor], split[target][factor]
      place = _common(own, other)
      if place < len(own) and (own[place], target) not in reported_pairs:
        reported_pairs.add((own[place], target))
        yield _refusal(propagation, number, operation, split, factor, source,
                       target, place)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
  pairs = zip(one, other, strict=False)  # As far as the shorter goes.
  return next((n for n, (a, b) in enumerate(pairs) if a != b),
              min(len(one), len(other)))


def _refusal(propagation: Propagation, number: int, operation: Operation,
             split: Sequence[Mapping[int, tuple[str, ...]]], factor: int,
             source: int, target: int, place: int) -> Refusal:
  assert operation.rule is not None
  tensors = [propagation.tensors[n] for n in operation.tensors]
  tensor, other_axes = tensors[target], split[target][factor]
  axis = split[source][factor][place]
  dim = next(d for d, factors in enumerate(operation.rule.factors[target])
             if factor in factors)

  def because(reason: Reason,
              holder: Tensor = tensor,
              winning: str = '') -> Refusal:
    return Refusal(number, axis, tensors[source].origin_of(axis),
                   operation.tensors[source], operation.tensors[target], dim,
                   reason, holder.origin_of(winning), winning)

  if tensor.own:
    return because(Reason.SAID)

  in_the_way = []
  for d, other in enumerate(tensor.dims):
    for held_axis in other.axes:
      if d != dim and _overlap(held_axis, axis):
        in_the_way.append(because(Reason.USED, winning=held_axis))
  if place < len(other_axes):
    in_the_way.append(because(Reason.OTHER_AXIS, winning=other_axes[place]))
  if not in_the_way:
    for holder, by_factor in zip(tensors, split, strict=True):
      for other_factor, axes in by_factor.items():
        in_the_way += (
            because(Reason.USED_IN_OPERATION, holder, held_axis)
            for held_axis in axes
            if other_factor != factor and _overlap(held_axis, axis))
  if in_the_way:  # What was there before the others.
    return min(in_the_way, key=functools.partial(_priority, propagation))
  size = math.prod(map(propagation.size_of, (*other_axes, axis)))
  if operation.rule.sizes[factor] % size:
    return because(Reason.INDIVISIBLE)
  if factor in operation.rule.blocked:
    return because(Reason.BLOCKED)
  if factor != operation.rule.factors[target][dim][0]:
    return because(Reason.MINOR)
  return because(Reason.UNTOLD)


def _priority(propagation: Propagation, one: Refusal) -> int:
  """The priority of what stood in the way; -1 for what is stored so."""
  winner = propagation.origins.get(one.winner)
  return -1 if winner is None else winner.priority_of(one.winning_axis)


def _overlap(one: str, other: str) -> bool:
  """Whether two axes are of one; sub-axes are taken to overlap."""
  return whole_axis(one) == whole_axis(other)
