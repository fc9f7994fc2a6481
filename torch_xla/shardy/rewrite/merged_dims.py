"""Dimensions that a reshape merged, and matrix products without the merge.

  >>> lhs = Merged((8, 4, 5, 16), merge((8, 4, 5, 16), (32, 5, 16)))
  >>> lhs
  Merged(source=(8, 4, 5, 16), groups=((0, 1), (2,), (3,)))

A sharding of such a dimension has a form over the source only if it splits the
first of a group, or all of it and more; so no sharding of the 4, as attention
heads are, gets past the reshape. `product` gives the product of the sources.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
import itertools
import math
from typing import NamedTuple, Optional

Dims = tuple[int, ...]
Groups = tuple[Dims, ...]


def merge(source: Sequence[int], dims: Sequence[int]) -> Optional[Groups]:
  """The dimensions of `source` that each of `dims` is; None if one is split."""
  groups = []
  place = 0
  for size in dims:
    group: list[int] = []
    elements = 1
    while place < len(source) and (not group or elements < size):
      group.append(place)
      elements *= source[place]
      place += 1
    if not group or elements != size or not size:
      return None
    groups.append(tuple(group))
  rest = range(place, len(source))
  if any(source[n] != 1 for n in rest) or (rest and not groups):
    return None
  if rest:
    groups[-1] += tuple(rest)
  return tuple(groups)


class Merged(NamedTuple):
  """An array as a reshape of `source`, whose groups may then be transposed.

  Attributes:
    groups: for each dimension the ones of the source that it is, in order and
      next to each other.
  """
  source: Dims
  groups: Groups

  @classmethod
  def plain(cls, dims: Dims) -> Merged:
    return cls(dims, tuple((n,) for n in range(len(dims))))

  @property
  def order(self) -> Dims:
    """The source's dimensions as they stand in the array."""
    return tuple(itertools.chain.from_iterable(self.groups))

  @property
  def is_transposed(self) -> bool:
    return self.order != tuple(range(len(self.source)))

  @property
  def merges(self) -> bool:
    """Tests whether a dimension merges several of size above 1."""
    return any(sum(self.source[n] > 1 for n in g) > 1 for g in self.groups)

  def transposed(self, permutation: Sequence[int]) -> Merged:
    return Merged(self.source, tuple(self.groups[n] for n in permutation))

  def sizes(self, dim: int) -> Dims:
    return tuple(self.source[n] for n in self.groups[dim])

  def without_merged(self, merged: Collection[int]) -> Merged:
    """Merges these dimensions in the source already."""
    return self._with_runs([(group,) if n in merged else (*zip(group),)
                            for n, group in enumerate(self.groups)])

  def without_ones(self) -> Merged:
    """Merges dimensions of size 1 in the source already."""

    def runs(group: Dims) -> Groups:
      large = [n for n in group if self.source[n] > 1][1:]
      starts = [0, *map(group.index, large), len(group)]
      return tuple(group[n:m] for n, m in itertools.pairwise(starts))

    return self._with_runs([*map(runs, self.groups)])

  def _with_runs(self, runs: Sequence[Groups]) -> Merged:
    """Merges each of these dimensions of each group in the source already."""
    places = {run: n for n, run in enumerate(sorted(itertools.chain(*runs)))}
    return Merged(
        tuple(math.prod(self.source[n] for n in run) for run in places),
        tuple(tuple(places[run] for run in group) for group in runs))


class ProductDims(NamedTuple):
  """The dimensions of a `dot` by their part in it."""
  lhs_batch: Dims
  rhs_batch: Dims
  lhs_contracting: Dims
  rhs_contracting: Dims


class Product(NamedTuple):
  """A `dot` of sources.

  Attributes:
    lhs: the operand as a reshape of the one to use.
    rhs: likewise.
    dims: of the operands to use.
    result: the `dot` that there was as a reshape of this one.
  """
  lhs: Merged
  rhs: Merged
  dims: ProductDims
  result: Merged


def product(lhs: Merged, rhs: Merged, dims: ProductDims) -> Optional[Product]:
  """The product without merges; None if there are none that could go.

  A merge stays where only one side of what is contracted, or of a batch, has
  it.
  """
  if not (lhs.merges or rhs.merges):
    return None
  pairs = [
      *zip(dims.lhs_batch, dims.rhs_batch, strict=True),
      *zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)
  ]
  if any(lhs.sizes(n) != rhs.sizes(m) for n, m in pairs):
    # Of several reshapes `_XLAC` makes one where it writes StableHLO.
    lhs, rhs = lhs.without_ones(), rhs.without_ones()
  unlike = [(n, m) for n, m in pairs if lhs.sizes(n) != rhs.sizes(m)]
  if unlike:
    lhs = lhs.without_merged([n for n, _ in unlike])
    rhs = rhs.without_merged([m for _, m in unlike])
    if not (lhs.merges or rhs.merges):
      return None
  batch = [lhs.sizes(n) for n in dims.lhs_batch]
  frees = []
  for side, bound in ((lhs, {*dims.lhs_batch, *dims.lhs_contracting}),
                      (rhs, {*dims.rhs_batch, *dims.rhs_contracting})):
    free = [g for n, g in enumerate(side.groups) if n not in bound]
    if sorted(free) != free:
      return None  # The result would be transposed.
    frees += [tuple(side.source[n] for n in g) for g in free]
  counter = itertools.count()
  groups = tuple(
      tuple(next(counter) for _ in sizes) for sizes in (*batch, *frees))
  source = tuple(itertools.chain.from_iterable((*batch, *frees)))

  def expanded(side: Merged, numbers: Dims) -> Dims:
    return tuple(m for n in numbers for m in side.groups[n])

  return Product(
      lhs, rhs,
      ProductDims(
          expanded(lhs, dims.lhs_batch), expanded(rhs, dims.rhs_batch),
          expanded(lhs, dims.lhs_contracting),
          expanded(rhs, dims.rhs_contracting)), Merged(source, groups))
