"""Finds where axes came from in a program of which Shardy does not tell it.

An axis is taken to have come the shortest way from an annotation that has it,
along factors that both ends of each step are split by; an annotation with a
lower priority number goes first, as in Shardy's own order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import dataclasses
import heapq
import itertools
from typing import NamedTuple

from .propagation import Propagation, Step, whole_axis


class _Way(NamedTuple):
  """A way that an axis may come from a tensor to another, at an operation."""
  axis: str
  source: int
  target: int
  operation: int


def inferred(propagation: Propagation,
             origin_tensors: Iterable[tuple[str, int]]) -> Propagation:
  """A propagation with the origins of axes and the steps in which they came.

  Args:
    origin_tensors: origins, each with the tensor that it is said of.
  """
  of_tensors: dict[tuple[str, int], list[_Way]] = {}
  for way in _ways(propagation):
    of_tensors.setdefault((way.axis, way.source), []).append(way)
  # By priority and distance; then as the program has them.
  coming = [(propagation.origins[origin].priority_of(axis), 0, tensor, origin,
             axis, -1, -1)
            for origin, tensor in origin_tensors
            for axis in map(whole_axis, propagation.tensors[tensor].axes)
            if propagation.origins[origin].dim_of(axis) is not None]
  heapq.heapify(coming)
  origins: dict[tuple[str, int], str] = {}
  steps: dict[int, list[Step]] = {}
  while coming:
    priority, far, tensor, origin, axis, source, operation = heapq.heappop(
        coming)
    if (axis, tensor) in origins:
      continue
    origins[axis, tensor] = origin
    if operation >= 0:
      steps.setdefault(operation,
                       []).append(Step(len(origins), axis, source, (tensor,)))
    for way in of_tensors.get((axis, tensor), ()):
      heapq.heappush(
          coming,
          (priority, far + 1, way.target, origin, axis, tensor, way.operation))
  return dataclasses.replace(
      propagation,
      is_inferred=True,
      tensors=tuple(
          tensor._replace(
              origins={
                  axis: origins[key]
                  for axis in tensor.axes
                  if (key := (whole_axis(axis), number)) in origins
              })
          for number, tensor in enumerate(propagation.tensors)),
      operations=tuple(
          operation._replace(steps=tuple(steps.get(number, ())))
          for number, operation in enumerate(propagation.operations)))


def _ways(propagation: Propagation) -> Iterator[_Way]:
  for number, operation in enumerate(propagation.operations):
    if operation.rule is None:
      continue
    split = [{(factor, whole_axis(axis))
              for factor, axes in one.items()
              for axis in axes}
             for one in propagation.factor_axes(operation, operation.rule)]
    ends = list(zip(operation.tensors, split, strict=True))
    for (source, one), (target, other) in itertools.permutations(ends, 2):
      for _, axis in sorted(one & other):
        yield _Way(axis, source, target, number)
