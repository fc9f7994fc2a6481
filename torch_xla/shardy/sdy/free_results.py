"""Results that nobody placed, in programs of tensors in uneven tiles.

Shardy splits a result no further than its dimensions divide, so that a gradient
of a weight stored in uneven tiles would be gathered. Padded to a multiple of
the tiles it stays split; but torch_xla, which does not know of the padding,
then has to find the tiles that it expects:

    f32[10] padded to 16, in 8 tiles of 2: the tiles of f32[10] in 8
    f32[10] padded to 16, in 2 tiles of 8: not those of f32[10] in 2, of 5

What the tiles will be is up to propagation. So Shardy is asked first, of the
same program with nothing to compute (`question`), and what comes of the padding
is compared with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import dataclasses
from typing import NamedTuple, Optional

from ..compile.attempt import Attempt, Outcome

Dims = tuple[int, ...]


def may_be_uneven(dims: Dims, num_devices: int) -> bool:
  """Whether a result may be split unevenly."""
  return any(size > 1 and size % num_devices for size in dims)


def padded(dims: Dims, tiles: Dims) -> Optional[Dims]:
  """What divides evenly into tiles; None if `dims` does."""
  to = tuple(count * -(-size // count)
             for size, count in zip(dims, tiles, strict=True))
  return None if to == dims else to


class Made(NamedTuple):
  """An attempt, and the results that nobody placed, by number.

  Attributes:
    open_results: the dimensions of those that the attempt is a question about,
      in the order of its own results; empty where it is the program itself.
    padded: the dimensions, before and after, of those that were padded.
  """
  attempt: Attempt
  open_results: Mapping[int, Dims] = {}
  padded: Mapping[int, tuple[Dims, Dims]] = {}


# From the tiles of results that nobody placed, by number, an attempt in which
# they are padded; from None a question about them, if there is any.
MakeAttempt = Callable[[Optional[Mapping[int, Dims]]], Made]


class _Answer:
  """The promise of a question: it is never the program.

  Attributes:
    tiles: of the results that it asks about.
  """

  def __init__(self, open_results: Mapping[int, Dims]):
    self._open_results = open_results
    self.tiles: dict[int, Dims] = {}

  def __call__(self, outcome: Outcome) -> str:
    results = outcome.results
    if results is not None and len(results) == len(self._open_results):
      self.tiles = {
          number: made.tiles.dims[:len(dims)]
          for (number, dims
              ), made in zip(self._open_results.items(), results, strict=True)
          if made.tiles is not None and made.rank == len(dims)
      }
    return ''  # Nothing that a user has to know.


class _Kept:
  """An attempt's promise, and that what was padded is split as was told.

  Attributes:
    is_wrong: whether it was not.
  """

  def __init__(self, made: Made):
    self._promise = made.attempt.promise
    self._padded = made.padded
    self.is_wrong = False

  def __call__(self, outcome: Outcome) -> Optional[str]:
    if self._promise and (reason := self._promise(outcome)) is not None:
      return reason
    results = outcome.results
    for number, (dims, to) in self._padded.items():
      if results is None or number >= len(results) or (
          results[number].tile_shape(to) != results[number].tile_shape(dims)):
        self.is_wrong = True
        return f'result {number} is split otherwise than Shardy told before'
    return None


def attempts(make: MakeAttempt) -> Iterator[Attempt]:
  """A question if there is one, the attempt, and one without any padding.

  The last only where the second fails for the padding.
  """
  candidate = make(None)
  if candidate.open_results:
    answer = _Answer(candidate.open_results)
    yield dataclasses.replace(
        candidate.attempt,
        promise=answer,
        probe_description=f'asked how it splits {len(candidate.open_results)} results'
    )
    candidate = make(answer.tiles)
  kept = _Kept(candidate)
  yield dataclasses.replace(candidate.attempt, promise=kept)
  if kept.is_wrong:
    yield dataclasses.replace(
        make({}).attempt,
        fallback_description='results that nobody placed are not padded')
