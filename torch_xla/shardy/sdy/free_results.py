"""Results that nobody placed, in programs of tensors in uneven tiles.

Shardy splits a result no further than its dimensions divide, so that a gradient
of a weight stored in uneven tiles would be gathered. Padded to a multiple of
the tiles it stays split; but torch_xla, which does not know of the padding,
then has to find the tiles that it expects:

    f32[10] padded to 16, in 8 tiles of 2: the tiles of f32[10] in 8
    f32[10] padded to 16, in 2 tiles of 8: not those of f32[10] in 2, of 5

The tiles depend on propagation. So a probe finds them first, by the same program
with nothing to compute (`propagation_probe`), and the padded program's layouts
are compared with its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import dataclasses
from typing import NamedTuple, Optional

from ..compile.attempt import Attempt, Outcome

Dims = tuple[int, ...]


def may_be_uneven(dims: Dims, num_devices: int) -> bool:
  """Tests whether a result may be split unevenly."""
  return any(size > 1 and size % num_devices for size in dims)


def padded_to_tiles(dims: Dims, tiles: Dims) -> Optional[Dims]:
  """The dimensions padded to whole tiles; None if `dims` needs no padding."""
  to = tuple(count * -(-size // count)
             for size, count in zip(dims, tiles, strict=True))
  return None if to == dims else to


class CandidateAttempt(NamedTuple):
  """An attempt, and the results that nobody placed, by number.

  Attributes:
    probed_results: the dimensions of those that the attempt probes, in the order
      of its own results; empty where it is the program itself.
    padded: the dimensions, before and after, of those that were padded.
  """
  attempt: Attempt
  probed_results: Mapping[int, Dims] = {}
  padded: Mapping[int, tuple[Dims, Dims]] = {}


# From the tiles of results that nobody placed, by number, an attempt in which
# they are padded; from None a probe of them, if there are any.
MakeAttempt = Callable[[Optional[Mapping[int, Dims]]], CandidateAttempt]


class _ProbeResult:
  """The promise of a probe: it is never the program.

  Attributes:
    tiles: of the results that it probes.
  """

  def __init__(self, open_results: Mapping[int, Dims]):
    self._open_results = open_results
    self.tiles: dict[int, Dims] = {}

  def __call__(self, outcome: Outcome) -> str:
    results = outcome.results
    if results is not None and len(results) == len(self._open_results):
      self.tiles = {
          number: layout.tiles.dims[:len(dims)]
          for (number, dims), layout in zip(
              self._open_results.items(), results, strict=True)
          if layout.tiles is not None and layout.rank == len(dims)
      }
    return ''  # Nothing that a user has to know.


class _PaddingPromise:
  """An attempt's promise, and that padded results are split as probed.

  Attributes:
    is_broken: whether they are not.
  """

  def __init__(self, candidate: CandidateAttempt):
    self._promise = candidate.attempt.promise
    self._padded = candidate.padded
    self.is_broken = False

  def __call__(self, outcome: Outcome) -> Optional[str]:
    if self._promise and (reason := self._promise(outcome)) is not None:
      return reason
    results = outcome.results
    for number, (dims, to) in self._padded.items():
      if results is None or number >= len(results) or (
          results[number].tile_shape(to) != results[number].tile_shape(dims)):
        self.is_broken = True
        return f'result {number} is split otherwise than the probe reported'
    return None


def attempts(make: MakeAttempt) -> Iterator[Attempt]:
  """A probe if one is needed, the attempt, and one without any padding.

  The last only where the second fails for the padding.
  """
  candidate = make(None)
  if candidate.probed_results:
    probe = _ProbeResult(candidate.probed_results)
    yield dataclasses.replace(
        candidate.attempt,
        promise=probe,
        probe_description='asked how it splits '
        f'{len(candidate.probed_results)} results')
    candidate = make(probe.tiles)
  promise = _PaddingPromise(candidate)
  yield dataclasses.replace(candidate.attempt, promise=promise)
  if promise.is_broken:
    yield dataclasses.replace(
        make({}).attempt,
        fallback_description='results that nobody placed are not padded')
