"""Advice on tensors of which several devices hold the same."""

from __future__ import annotations

from collections.abc import Sequence
import math

from .folding import Fold, folded
from .report import Report, TensorRow

# How many tensors are shown, the largest first.
_SHOWN = 5


def advise(report: Report) -> list[str]:
  """A line for each of the largest that axes of the mesh could split.

  What is smaller than a hundredth of all is left out.
  """
  savings = [(_saved(fold, parts), fold, parts)
             for fold in folded(report)
             for parts in (splits(fold.row, report.mesh),)
             if parts]
  least = report.totals.nbytes / 100
  savings.sort(key=lambda f: -f[0])
  return [
      f'{fold.name} {list(fold.row.shape)}: {_text(parts)}, {saved:,} bytes '
      'less on each device'
      for saved, fold, parts in savings[:_SHOWN]
      if len(fold.names) * fold.row.nbytes >= least
  ]


def splits(row: TensorRow,
           mesh: Sequence[tuple[str, int]]) -> list[tuple[str, int, int]]:
  """The further splits of a tensor: (axis, its size, dimension).

  Axes that do not split it, the largest first, each on the dimension of which a
  device has most by then, where it divides that.
  """
  local_shape, extra_splits = list(row.local_shape), []
  for axis, size in sorted(mesh, key=lambda a: -a[1]):
    dims = [d for d, n in enumerate(local_shape) if n >= size and not n % size]
    if axis in row.unused_axes and dims:
      dim = max(dims, key=lambda d: local_shape[d])
      local_shape[dim] //= size
      extra_splits.append((axis, size, dim))
  return extra_splits


def _saved(fold: Fold, parts: Sequence[tuple[str, int, int]]) -> int:
  tiles = math.prod(size for _, size, _ in parts)
  local = fold.row.local_nbytes
  return len(fold.names) * (local - local // tiles)


def _text(parts: Sequence[tuple[str, int, int]]) -> str:
  return ', '.join(f'{axis} ({size}) could split dimension {dim}'
                   for axis, size, dim in parts)
