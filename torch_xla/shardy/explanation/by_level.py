"""Prices many orders of a program's annotations, level by level.

Shardy propagates the annotations of a priority, and then those of the next one
from where it came to. Where it came to is kept here, for all orders that begin
so, or that begin otherwise and come to the same shardings.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
import contextlib
from typing import Any, Optional

from ..stablehlo import dialects, functions
from ..stablehlo.functions import ARGUMENTS, RESULTS
from ..stablehlo.mlir import sdy
from . import reader, trial
from .propagation import Move

# Of arguments, results and operations, in order.
_Shardings = tuple[Any, ...]
# A dimension, by the place of its sharding in these.
_Dim = tuple[int, int]


class ByLevel:
  """Finds what Shardy would move in a program with many priorities.

  With the first that have two levels it has Shardy's whole pass do so, too: if
  that comes to others, it is asked always.
  """

  def __init__(self, program: bytes):
    self._program = program
    self._module = reader.parse(program)
    reader.import_it(self._module)
    self._is_exact: Optional[bool] = None
    self._reached: dict[tuple[_Shardings, frozenset[_Dim]], _Shardings] = {}
    self._moves: dict[_Shardings, tuple[Move, ...]] = {}
    self._objects: dict[Any, Any] = {}
    # As the program has them: shardings with the dimensions, and priorities.
    self._own: dict[_Dim, sdy.DimensionShardingAttr] = {}
    with dialects.scope(self._module):
      self._start = tuple(
          one if one is None or not dialects.is_a(one, sdy.TensorShardingAttr)
          else self._held_back(place, sdy.TensorShardingAttr(one))
          for place, one in enumerate(self._read()))

  def moved(self, priorities: trial.Priorities) -> tuple[Move, ...]:
    """As `trial.moved` with priorities of arguments alone."""
    if self._is_exact:
      return self._moved(priorities)
    whole = trial.moved(self._program, priorities)
    if self._is_exact is None:
      is_same = False
      with contextlib.suppress(ValueError):  # Other operations than before.
        is_same = whole == self._moved(priorities)
      if len(self._reached) > 1 or not is_same:  # A level after another.
        self._is_exact = is_same
    return whole

  def _moved(self, priorities: trial.Priorities) -> tuple[Move, ...]:
    levels: dict[int, set[_Dim]] = collections.defaultdict(set)
    for (place, n), dim in self._own.items():
      level = priorities.get((f'input: {place}', n), dim.priority or 0)
      levels[level].add((place, n))
    state = self._start
    with dialects.scope(self._module):
      for _, dims in sorted(levels.items()):
        step = state, frozenset(dims)
        if step not in self._reached:
          self._write(state, dims)
          reader.run_propagation(self._module)
          self._reached[step] = self._read()
        state = self._reached[step]
      if state not in self._moves:
        self._write(state, ())
        copy: Any = self._module.operation.clone()
        self._moves[state] = reader.planned(copy)
    return self._moves[state]

  def _held_back(self, place: int, sharding: sdy.TensorShardingAttr) -> Any:
    """Keeps a sharding's dimensions; none is split before its level."""
    dims = [*map(sdy.DimensionShardingAttr, sharding.dimension_shardings)]
    self._own.update({(place, n): dim for n, dim in enumerate(dims)})
    closed = sdy.DimensionShardingAttr.get([], True)
    return sdy.TensorShardingAttr.get(
        sharding.mesh_or_ref, [closed] * len(dims),
        [*sharding.replicated_axes, *(a for dim in dims for a in dim.axes)])

  def _come(self, place: int, sharding: Any, numbers: Iterable[int]) -> Any:
    """A sharding with dimensions whose level it is."""
    before = sdy.TensorShardingAttr(sharding)
    dims, axes = [*before.dimension_shardings], []
    for n in numbers:
      own = self._own[place, n]
      dims[n] = sdy.DimensionShardingAttr.get(list(own.axes), own.is_closed)
      axes += own.axes
    return sdy.TensorShardingAttr.get(
        before.mesh_or_ref, dims,
        [a for a in before.replicated_axes if a not in axes])

  def _read(self) -> _Shardings:
    found = [
        attributes[name] if name in attributes else None
        for attributes, name in self._holders()
    ]
    return tuple(self._objects.setdefault(one, one) for one in found)

  def _write(self, state: _Shardings, come: Iterable[_Dim]) -> None:
    """Has the module be as it was after some levels, and dimensions come."""
    by_place: dict[int, list[int]] = {}
    for place, n in come:
      by_place.setdefault(place, []).append(n)
    for place, ((attributes, name),
                one) in enumerate(zip(self._holders(), state, strict=True)):
      if place in by_place:
        attributes[name] = self._come(place, one, by_place[place])
      elif one is not None:
        attributes[name] = one
      elif name in attributes:
        del attributes[name]

  def _holders(self) -> Iterator[tuple[Any, str]]:
    """Where shardings are: attributes, which may be changed, and a name."""
    main = functions.main_of(self._module)
    for which in (ARGUMENTS, RESULTS):
      attributes = functions.attributes_of(main, which)
      yield from ((given, reader.SHARDING) for given in attributes)
      functions.set_attributes(main, which, attributes)
    for operation in dialects.operations_of(main):
      is_own = operation.name in (reader.EDGE, reader.CONSTRAINT)
      yield operation.attributes, 'sharding' if is_own else reader.SHARDING
