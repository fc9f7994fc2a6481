"""Options of an annotation besides placement and priority, and their checks.

- `propagate`: which dimensions propagation may split further (`{"x", ?}`).
- `unreduced`: axes over which each device holds a part of a sum that is still to
  be added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional

from .priority import Priority

Propagate = tuple[Optional[bool], ...]


class PropagateError(ValueError):
  """`propagate=` that does not fit the tensor, or its priorities."""


class UnreducedError(ValueError):
  """`unreduced=` that does not fit the mesh, the tensor, or its spec."""


def check_propagate(propagate: Any,
                    partition_spec: Sequence[Any],
                    priority: Optional[Priority] = None) -> Optional[Propagate]:
  """`propagate` as a tuple of True, False or None for each dimension.

  Args:
    propagate: such a tuple, one bool for all dimensions, or None.
    partition_spec: of the tensor; what is None in it is not split.
    priority: as `check_priority` gives it.
  """
  if propagate is None:
    return None
  rank = len(partition_spec)
  if isinstance(propagate, bool):
    propagate = (propagate,) * rank
  hint = 'give a bool, or a tuple with one bool or None per dimension'
  if not isinstance(propagate, (tuple, list)) or not all(
      entry is None or isinstance(entry, bool) for entry in propagate):
    raise PropagateError(f'propagate={propagate!r}: {hint}')
  if len(propagate) != rank:
    raise PropagateError(f'propagate={tuple(propagate)!r} has '
                         f'{len(propagate)} entries for a tensor of rank '
                         f'{rank}; {hint}')
  for dim, (is_open, axes, entry) in enumerate(
      zip(propagate, partition_spec, priority or (None,) * rank, strict=True)):
    if is_open is False and entry is not None and axes in (None, ()):
      raise PropagateError(
          f'dimension {dim} is not split and has priority {entry}, which lets '
          'propagation split it, and propagate=False: take one of the two out')
  return tuple(propagate)


def check_unreduced(unreduced: Any, axis_names: Optional[Iterable[str]],
                    num_axes: int,
                    partition_spec: Sequence[Any]) -> tuple[int, ...]:
  """The unreduced axes of a mesh by index, in the mesh's order.

  Args:
    unreduced: mesh axes by name or index; None for none.
    axis_names: the mesh's, if it has any.
    partition_spec: mesh axes by index.
  """
  if unreduced is None:
    return ()
  names = list(axis_names or ())
  if not isinstance(unreduced, (tuple, list)):
    raise UnreducedError(f'unreduced={unreduced!r} is a '
                         f'{type(unreduced).__name__}; give a tuple of mesh '
                         "axes, such as ('model',)")
  axes = []
  for entry in unreduced:
    axis = names.index(entry) if entry in names else entry
    if isinstance(
        axis, bool) or not isinstance(axis, int) or axis not in range(num_axes):
      raise UnreducedError(f'unreduced={tuple(unreduced)!r}: the mesh has no '
                           f'axis {entry!r}, it has {names or num_axes}')
    axes.append(axis)
  split = [
      axis for entry in partition_spec if entry is not None
      for axis in (entry if isinstance(entry, (tuple, list)) else (entry,))
  ]
  if len(set(axes)) != len(axes) or not set(axes).isdisjoint(split):
    raise UnreducedError(
        f'unreduced={tuple(unreduced)!r} names an axis twice, or one that '
        f'splits a dimension: the spec is {tuple(partition_spec)!r}')
  return tuple(sorted(axes))
