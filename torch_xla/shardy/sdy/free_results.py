"""Results that nobody placed, with dimensions that are split unevenly.

Shardy splits a result no further than its dimensions divide, so that a gradient
of a weight stored in uneven tiles would be gathered. Padded to a multiple of
the tiles it stays split; but torch_xla, which does not know of the padding,
then has to find the tiles that it expects:

    f32[10] padded to 16, in 8 tiles of 2: the tiles of f32[10] in 8
    f32[10] padded to 16, in 2 tiles of 8: not those of f32[10] in 2, of 5

So the tiles are guessed, from those of what the program says something of, and
compared with what the compiler made. What was guessed wrong is not padded, and
the program is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
import dataclasses
import math
from typing import Optional

from ..compile.attempt import Attempt, Outcome, Promise
from ..sharding.hlo_sharding import HloSharding
from ..sharding.partition_spec import uneven_dims

Dims = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Tiled:
  """Dimensions of a tensor that a program places, and into how many tiles."""
  dims: Dims
  tiles: Dims

  @property
  def is_even(self) -> bool:
    return not uneven_dims(self.dims, self.tiles)


class TileGuesser:
  """Guesses the tiles of results from those of what is placed.

  Those of a tensor of the same dimensions, else of the same in another order,
  else of each uneven dimension of the same size; of an uneven tensor first.
  Where none is uneven, no result has to be.
  """

  def __init__(self, placed: Iterable[Tiled], num_devices: int):
    self._num_devices = num_devices
    placed = sorted(placed, key=lambda one: one.is_even)
    if placed and placed[0].is_even:
      placed = []
    self._by_dims: dict[Dims, Dims] = {}
    self._by_sorted: dict[Dims, Tiled] = {}
    self._by_size: dict[int, int] = {}
    for one in placed:
      self._by_dims.setdefault(one.dims, one.tiles)
      if len(set(one.dims)) == len(one.dims):
        self._by_sorted.setdefault(tuple(sorted(one.dims)), one)
      for dim, count in uneven_dims(one.dims, one.tiles):
        self._by_size.setdefault(one.dims[dim], count)

  def padded(self, dims: Dims) -> Optional[Dims]:
    """What to pad a result to; None if it need not be."""
    if not self._by_dims:
      return None
    tiles = self._tiles(dims)
    if tiles is None or math.prod(tiles) > self._num_devices:
      return None
    to = tuple(count * -(-size // count) for size, count in zip(dims, tiles))
    return None if to == dims else to

  def _tiles(self, dims: Dims) -> Optional[Dims]:
    if dims in self._by_dims:
      return self._by_dims[dims]
    if (other := self._by_sorted.get(tuple(sorted(dims)))) is not None:
      count_of = dict(zip(other.dims, other.tiles))
      return tuple(count_of[size] for size in dims)
    return tuple(
        self._by_size.get(size, 1) if dims.count(size) == 1 else 1
        for size in dims)


@dataclasses.dataclass(frozen=True)
class Guess:
  """A result that was padded, by its number: its dimensions, and what to."""
  dims: Dims
  padded: Dims

  def holds(self, made: HloSharding) -> bool:
    """Whether the tiles of the padded result are those of the result."""
    return made.tile_shape(self.padded) == made.tile_shape(self.dims)


def wrong_guesses(guesses: dict[int, Guess],
                  made: Optional[Sequence[HloSharding]]) -> set[int]:
  """The numbers of the results that are laid out otherwise."""
  return {
      number for number, guess in guesses.items()
      if made is None or number >= len(made) or not guess.holds(made[number])
  }


# Makes an attempt in which results are padded, all that are guessed to need it
# (None) or only these, and says what was guessed.
MakeAttempt = Callable[[Optional[Collection[int]]], tuple[Attempt, dict[int,
                                                                        Guess]]]


class _Guessed:
  """An attempt's promise, and that its guesses are right.

  Attributes:
    wrong: the numbers of those that were not.
  """

  def __init__(self, promise: Promise, guesses: dict[int, Guess]):
    self._promise = promise
    self._guesses = guesses
    self.wrong: set[int] = set()

  def __call__(self, outcome: Outcome) -> Optional[str]:
    if (reason := self._promise(outcome)) is not None:
      return reason
    self.wrong = wrong_guesses(
        self._guesses, outcome.compiled.results if outcome.compiled else None)
    return '' if self.wrong else None  # Nothing that a user has to know.


def attempts(make: MakeAttempt) -> Iterator[Attempt]:
  """An attempt, then those without what was guessed wrong.

  None follows one that failed otherwise.
  """
  numbers: Optional[Collection[int]] = None
  while True:
    attempt, guesses = make(numbers)
    promise = _Guessed(attempt.promise, guesses)
    yield dataclasses.replace(attempt, promise=promise)
    wrong = promise.wrong
    if not wrong:
      return
    # Twice wrong: what is split has changed with what was padded.
    numbers = () if numbers is not None else guesses.keys() - wrong
