"""Searches the priorities with which Shardy plans to move least.

What is searched is the order of the annotations that are in conflict, one for
all layers whose names differ in numbers alone; shardings stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import collections
import contextlib
import functools
import itertools
from typing import NamedTuple

from . import by_level, conflicts, trial
from ..layers import group_of
from .propagation import Move, Origin, Propagation

# The name of a group, and the dimension that was said to be split.
Item = tuple[str, int]
# A priority for each item.
Priorities = Mapping[Item, int]

_MOST_ITEMS = 4  # 75 orders, with ties; 541 of one more.
_LEVELS = 3


class Program(NamedTuple):
  """One to be priced: a module in Shardy's dialect, and what it becomes."""
  data: bytes
  propagation: Propagation


class Tried(NamedTuple):
  """Priorities, and what Shardy plans to move with them.

  Attributes:
    priorities: of items; what is not here stays as the script has it.
    nbytes: that one device gets, in all programs.
    changed: how many differ from the script's.
  """
  nbytes: int
  changed: int
  priorities: tuple[tuple[Item, int], ...]


def items_of(programs: Sequence[Program]) -> tuple[Item, ...]:
  """The named arguments in conflict, by the dimension that has the axis."""
  return tuple(
      dict.fromkeys((group_of(origin.name), dim)
                    for origin, dim in _in_conflict(programs)
                    if is_named(origin)))


def unnamed_in(programs: Sequence[Program]) -> tuple[str, ...]:
  """Those in conflict that have no name, and so no priority of a search."""
  return tuple(
      dict.fromkeys(f'{origin.name} (dimension {dim})'
                    for origin, dim in _in_conflict(programs)
                    if not is_named(origin)))


def _in_conflict(programs: Sequence[Program]) -> Iterator[tuple[Origin, int]]:
  for _, propagation in programs:
    for conflict in conflicts.find_conflicts(propagation):
      axes = ((conflict.loser, conflict.axis),
              (conflict.winner, conflict.places[0].winning_axis))
      for key, axis in axes:
        origin = propagation.origins[key]
        dim = origin.dim_of(axis)
        if dim is not None:
          yield origin, dim


def is_named(origin: Origin) -> bool:
  return (origin.argument is not None and
          origin.name != f'argument {origin.argument}')


def own(programs: Sequence[Program], item: Item) -> int:
  """The priority that the script gives, the first of a group's."""
  group, dim = item
  return next((origin.dims[dim].priority or 0
               for _, found in programs
               for origin in found.origins.values()
               if group_of(origin.name) == group and dim < len(origin.dims) and
               origin.dims[dim].axes), 0)


def search(programs: Sequence[Program], items: Sequence[Item],
           may_go_on: Callable[[], bool]) -> Iterator[Tried]:
  """Tries priorities; yields each as it was priced, the script's own first.

  All orders where there are few, else one item after the other, each at each
  of a few levels, as long as that helps.
  """
  start = {item: own(programs, item) for item in items}
  moved = functools.partial(_moved, programs,
                            [by_level.ByLevel(p.data).moved for p in programs])
  price = functools.cache(lambda priorities: Tried(
      moved(dict(priorities)),
      sum(start[item] != level for item, level in priorities), priorities))
  yield (best := price(tuple(start.items())))
  if len(items) <= _MOST_ITEMS:
    # What has no name stays where it is: all others before it, and behind.
    behind = not all(is_named(origin) for origin, _ in _in_conflict(programs))
    for levels, shift in itertools.product(
        _orders(len(items)), range(1 + behind)):
      if not may_go_on():
        return
      yield price(
          tuple((item, level + shift)
                for item, level in zip(items, levels, strict=True)))
    return
  improved = True
  while improved:
    improved = False
    for item, level in itertools.product(items, range(_LEVELS)):
      if not may_go_on():
        return
      tried = price(tuple({**dict(best.priorities), item: level}.items()))
      yield tried
      if tried < best:
        best, improved = tried, True


def _orders(count: int) -> Iterator[tuple[int, ...]]:
  """All orders of so many, with ties: each as levels from 0 without a gap."""
  for levels in itertools.product(range(count), repeat=count):
    if set(levels) == set(range(len(set(levels)))):
      yield levels


def moved_without_priorities(programs: Sequence[Program]) -> int:
  """The bytes moved without any priority."""
  moves_of = [functools.partial(trial.moved, p.data) for p in programs]
  return _moved(programs, moves_of, collections.defaultdict(int))


def _moved(programs: Sequence[Program],
           moves_of: Sequence[Callable[[trial.Priorities], tuple[Move, ...]]],
           levels: Priorities) -> int:
  """The bytes that one device gets; what is in no levels stays."""
  nbytes = 0
  for (_, propagation), moves_with in zip(programs, moves_of, strict=True):
    changed: dict[tuple[str, int], int] = {}
    for key, origin in propagation.origins.items():
      for dim, said in enumerate(origin.dims):
        with contextlib.suppress(KeyError):
          level = levels[group_of(origin.name), dim]
          if said.axes and (said.priority or 0) != level:
            changed[key, dim] = level
    moves = moves_with(changed) if changed else propagation.moves
    nbytes += sum(move.nbytes for move in moves)
  return nbytes


def best_of(tried: Sequence[Tried], most: int) -> list[Tried]:
  """The cheapest that are cheaper than the first, one of each price."""
  found: dict[int, Tried] = {}
  for one in sorted(tried):
    if one.nbytes < tried[0].nbytes:
      found.setdefault(one.nbytes, one)
  return list(found.values())[:most]
