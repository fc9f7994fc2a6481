"""The largest value of a script's argument with which it fits, by search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
import math
import re
from typing import Optional

from . import wording
from ...gate import sizes
from ..errors import AotError
from ..report import AotReport, INTERRUPTED

_TEXT = re.compile(r'-{0,2}(?P<name>[\w.-]+)=(?P<low>\d+)\.\.(?P<high>\d+)')
# What scripts call a batch's size.
_BATCH = ('batch-size', 'batch_size', 'batch', 'train-batch-size',
          'train_batch_size', 'per_device_train_batch_size')
_NEEDED = re.compile(r'Used ([\d.]+[KMGT]?) of ')
# Of the batch that the script is given.
_MOST_TIMES = 1 << 20
# Behind them a line is none, and what is between is halved.
_LINE_TRIES = 7
# The largest is known if what is larger by a part in so many does not fit.
_PARTS = 100
# Of the memory. From there on the compiler recomputes more and more, so that far
# more may fit, and each of it takes longer to compile and to run.
_BEFORE_RECOMPUTING = 0.98


class RangeError(ValueError):
  """Raised where the values of an argument are no range."""


@dataclasses.dataclass(frozen=True)
class Range:
  """The multiples of `low` up to `high`, as values of the argument `--name`.

  Attributes:
    enough: the part of the memory with which a search ends at once.
  """
  name: str
  low: int
  high: int
  enough: float = math.inf

  def put(self, arguments: Sequence[str], value: int) -> tuple[str, ...]:
    """The script's arguments with this value, in place of one or at the end."""
    at = _place(arguments, self.name)
    if at is None:
      return (*arguments, f'--{self.name}={value}')
    made = list(arguments)
    if '=' in made[at]:
      made[at] = f'--{self.name}={value}'
    else:
      made[at + 1:at + 2] = [str(value)]
    return tuple(made)


def parse(text: str) -> Range:
  """The range in 'batch-size=8..4096': 8, 16, ... 4096."""
  match = _TEXT.fullmatch(text)
  if not match or not 0 < int(match['low']) <= int(match['high']):
    raise RangeError(f'--largest {text}: write NAME=LOW..HIGH, as in '
                     'batch-size=8..4096, for the multiples of 8 up to 4096')
  return Range(match['name'], int(match['low']), int(match['high']))


def batch(arguments: Sequence[str]) -> Range:
  """The multiples of the batch that the script is given."""
  for name in _BATCH:
    at = _place(arguments, name)
    if at is not None:
      value = ('='.join(arguments[at].split('=')[1:]) or
               ''.join(arguments[at + 1:at + 2]))
      if value.isdecimal() and int(value):
        return Range(name, int(value),
                     int(value) * _MOST_TIMES, _BEFORE_RECOMPUTING)
  raise RangeError(
      '--largest-batch: the script is given no batch size, as in SCRIPT '
      '--batch-size 8; name its argument: --largest NAME=8..4096')


def search(wanted: Range,
           run: Callable[[int], AotReport],
           say: Callable[[str], None],
           is_quiet: bool = False) -> AotReport:
  """The report of the largest that fits; its findings tell of each try.

  Peaks grow with the value, from the first on at most in proportion: what would
  fit so is the second try. The last two peaks, of which the compiler may have
  refused one, give a line, and what lies beside it, or 1 % behind, is tried: as
  far as that peaks bend, and each try compiles the script's programs. Where not even the
  smallest fits it is that one's report, and where a try tells nothing, because
  the script failed or was interrupted, or nobody knows whether it fits, that
  one's: what fits so far is said, too. With `wanted.enough` it may end before.
  """
  tries: list[str] = []
  high = wanted.high // wanted.low
  best, times, fitting, refused = None, 0, 0, high + 1
  peaks: dict[int, int] = {}  # By multiple, of what fits, in rising order.
  needed = 0  # By what was refused, if the compiler says it.
  while refused - fitting > (step := max(
      1, fitting // _PARTS)) or fitting < high < refused:
    memory = best.topology.memory if best else None
    points = list(peaks.items())
    line = None
    if memory and len(tries) < _LINE_TRIES:
      ends = [*points[-1:], (refused, needed)] if needed else points[-2:]
      line = _on_line(ends, memory)
    if line is None:
      line = 2 * fitting if refused > high else (fitting + refused) // 2
    elif times == refused:  # The line was wrong there.
      line = min(line, refused - max(1, (refused - fitting) // 16))
    times = min(max(line, fitting + step), refused - 1)
    value = times * wanted.low
    so_far = f'--{wanted.name}={value} ends the search: ' + (
        f'--{wanted.name}={fitting * wanted.low} is the largest that fits so '
        'far' if fitting else 'nothing that fits was tried')
    try:
      report = run(value)
    except (KeyboardInterrupt, AotError):
      say(so_far)
      raise
    tries.append(f'--{wanted.name}={value} {wording.verdict(report)}')
    if not is_quiet:
      say(f'try {len(tries)}: {tries[-1]}')
    if report.ended == INTERRUPTED or not (report.fits or
                                           wording.is_out_of_memory(report)):
      say(so_far)
      return _with_tries(report, tries, so_far)
    if report.fits:
      best, fitting = report, times
      peaks[times] = _peak(report)
      part = peaks[times] / (report.topology.memory or math.inf)
      if part >= wanted.enough and fitting < min(high, refused - 1):
        return _with_tries(
            best, tries,
            f'--{wanted.name}={value} fits, with {part:.1%} of the '
            'memory: more may fit, but by recomputing. To search that: --largest '
            f'{wanted.name}={value}..{2 * value}')
    else:
      refused, needed = times, _peak(report)
      if best is None:
        return _with_tries(report, tries,
                           f'not even --{wanted.name}={value} fits')
  assert best is not None
  return _with_tries(
      best, tries,
      f'--{wanted.name}={fitting * wanted.low} is the largest that fits' +
      (f', to 1 %: --{wanted.name}={refused * wanted.low} does not' if refused -
       fitting > 1 else ''))


def _peak(report: AotReport) -> int:
  """The most that a program needs, as the compiler says it; 0: it does not."""
  refusals = [_NEEDED.search(p.error) for p in report.programs]
  return max(*(p.peak or 0 for p in report.programs),
             *(sizes.parse(found[1]) for found in refusals if found), 0, 0)


def _on_line(ends: Sequence[tuple[int, int]], memory: int) -> Optional[int]:
  """The most that fits by a line; by one through nothing, of a single point."""
  if not ends:
    return None
  (least, base), (most, peak) = ends[0], ends[-1]
  if least == most:
    return most * memory // peak if peak else None
  if peak <= base:
    return None
  return least + (memory - base) * (most - least) // (peak - base)


def _with_tries(report: AotReport, tries: Sequence[str],
                answer: str) -> AotReport:
  return dataclasses.replace(
      report,
      findings=(answer, *(f'tried {t}' for t in tries), *report.findings))


def _place(arguments: Sequence[str], name: str) -> Optional[int]:
  return next((
      i for i, one in enumerate(arguments) if one.split('=')[0] == f'--{name}'),
              None)
