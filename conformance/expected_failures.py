"""Judges results by a file of what is known to fail, as `lines` reads it.

A line of which nothing fails any more is a finding: STALE. A reason that begins
with an issue, as #17, acme#17, acme/plugin#17 or an address, is counted by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import re

from .case import ConformanceError
from .lines import read_expected
from .result import matches, Result, Status

_ISSUE = re.compile(r'(https?://\S*\w|([\w.-]+/)?[\w.-]*#\d+)\b')
_FAILED = (Status.FAILED, Status.CRASHED, Status.HUNG)


@dataclasses.dataclass(frozen=True)
class Line:
  """A line of the file: what is expected to fail, and why."""
  number: int
  pattern: str
  reason: str

  @property
  def issue(self) -> str:
    """The issue that the reason begins with; empty if it names none."""
    named = _ISSUE.match(self.reason)
    return named[0] if named else ''

  def matches(self, result: Result) -> bool:
    return matches(self.pattern, result.case, result.part)


def read(path: str) -> tuple[Line, ...]:
  """Reads the file of expected failures.

  Raises:
    ConformanceError: it cannot be read, or a line has no reason.
  """
  try:
    return tuple(Line(*line) for line in read_expected(path))
  except ValueError as e:
    raise ConformanceError(f'--expected-failures: {e}') from e


def judge(results: Iterable[Result], lines: Sequence[Line],
          names: Callable[[str], set[str]], path: str) -> tuple[Result, ...]:
  """Adds to `results` what was expected, and a result for each stale line.

  A line is stale if all parts that it names were run and none of them failed;
  of what was not run or was skipped nothing is known.

  Args:
    names: the full names of the parts that a pattern matches.
    path: of the file, for people.
  """
  judged: list[Result] = []
  failed: set[Line] = set()
  passed: dict[str, Result] = {}
  for result in results:
    line = next((entry for entry in lines if entry.matches(result)), None)
    if line and result.status in _FAILED:
      failed.add(line)
      result = dataclasses.replace(
          result,
          status=Status.EXPECTED,
          text=f'{line.reason} ({result.status.value}: {result.text})',
          issue=line.issue)
    elif result.status is Status.PASSED:
      passed[result.name] = result
    judged.append(result)
  for line in lines:
    named = names(line.pattern)
    if line not in failed and named and named <= set(passed):
      judged.append(
          Result(
              passed[min(named)].case, line.pattern, Status.STALE,
              f'{path}:{line.number}: {line.pattern} does not fail any more; '
              'take the line out', 0.))
  return tuple(judged)
