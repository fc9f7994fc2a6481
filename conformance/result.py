"""The results, as values."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
import dataclasses
import enum
from typing import Any

from . import lines

# The case that measures, and does not judge.
CAPABILITIES = 'capabilities'
# The part of a case that a process ends in behind all others.
AT_EXIT = 'exit'
# How the reason begins of what was skipped for want of any device.
NO_DEVICE = 'no device: '


class Status(enum.Enum):
  """The way a part of a case ended.

  EXPECTED: it failed, and a file says that it would. STALE: a file says that it
  fails, and it did not.
  """
  PASSED = 'passed'
  FAILED = 'failed'
  CRASHED = 'crashed'
  HUNG = 'hung'
  SKIPPED = 'skipped'
  EXPECTED = 'expected'
  STALE = 'stale'

  @property
  def is_finding(self) -> bool:
    """Tests whether something has to be done about it."""
    return self in (Status.FAILED, Status.CRASHED, Status.HUNG, Status.STALE)

  @property
  def junit_kind(self) -> str:
    """JUnit's name of it; expected failures are skipped."""
    if self in (Status.CRASHED, Status.HUNG):
      return 'error'
    if self.is_finding:
      return 'failure'
    return '' if self is Status.PASSED else 'skipped'


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of one part of a case.

  Attributes:
    part: its name; empty for a case without parts; of what is stale, the
      pattern of the line.
    text: what was measured, what was wrong, or why it was skipped.
    seconds: that it took.
    issue: that explains an expected failure; empty if none is named.
  """
  case: str
  part: str
  status: Status
  text: str
  seconds: float
  issue: str = ''

  @property
  def name(self) -> str:
    if self.status is Status.STALE:
      return self.part  # Which has the case in it, or stands for several.
    return full_name(self.case, self.part)


def printable(text: str) -> str:
  """A plugin's words without what would steer a terminal."""
  return ''.join(c if c.isprintable() or c == '\n' else c.
                 encode('unicode_escape').decode() for c in text.expandtabs())


def full_name(case: str, part: str) -> str:
  return f'{case}/{part}' if part else case


def matches(pattern: str, case: str, part: str) -> bool:
  """Tests whether a pattern with * and ? matches a case, or a part of it."""
  return any(
      lines.matches(pattern, name) for name in (case, full_name(case, part)))


def counts(results: Sequence[Result]) -> dict[Status, int]:
  """Counts by status, where not 0, in the order of `Status`."""
  by_status = collections.Counter(result.status for result in results)
  return {status: by_status[status] for status in Status if by_status[status]}


def counts_text(results: Sequence[Result]) -> str:
  """The counts of the outcomes as text: '3 passed, 1 skipped'."""
  return ', '.join(
      f'{n} {status.value}' for status, n in counts(results).items())


def counts_by_issue(results: Sequence[Result]) -> dict[str, int]:
  """Counts of expected failures by issue, the most first.

  Those that name no issue are counted under ''. Empty if none names one.
  """
  by_issue = collections.Counter(
      r.issue for r in results if r.status is Status.EXPECTED)
  if not any(by_issue):
    return {}
  return dict(sorted(by_issue.items(), key=lambda item: (-item[1], item[0])))


class Verdict(enum.Enum):
  """The verdict of a run, with the exit status of the command.

  NOTHING: all that was asked for was skipped.
  """
  CONFORMS = 0
  FINDINGS = 1
  NOTHING = 2
  NO_DEVICE = 3
  INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class ConformanceReport:
  """The results of a run of the suite.

  Attributes:
    subject: the plugin, in words.
    capabilities: what was measured of it first; what the plugin lacks is a
      false or empty value.
    results: in the order of the suite.
    means: by case, what a failure is for a user.
    nightly: cases of which nothing is run but every night.
    interrupted: whether the run was ended before its end.
    seconds: that it took.
  """
  subject: str
  capabilities: Mapping[str, Any]
  results: tuple[Result, ...]
  means: Mapping[str, str]
  interrupted: bool
  seconds: float
  nightly: frozenset[str] = frozenset()

  @property
  def findings(self) -> tuple[Result, ...]:
    return tuple(r for r in self.results if r.status.is_finding)

  @property
  def is_whole(self) -> bool:
    """Tests whether each case was begun that is not for nights alone."""
    return set(self.means) - self.nightly <= {
        r.case
        for r in self.results
        if r.status is not Status.SKIPPED or r.seconds
    }

  @property
  def verdict(self) -> Verdict:
    if self.interrupted:
      return Verdict.INTERRUPTED
    if self.findings:
      return Verdict.FINDINGS
    if not self.capabilities.get('devices'):
      return Verdict.NO_DEVICE
    if not any(r.status is not Status.SKIPPED and r.case != CAPABILITIES
               for r in self.results):
      return Verdict.NOTHING
    return Verdict.CONFORMS

  def verdict_text(self) -> str:
    """One line for people."""
    why = self.capabilities.get('start_error', 'it lists none')
    nothing = 'nothing was judged: all that was asked for was skipped'
    words = {
        Verdict.CONFORMS:
            'conforms' if self.is_whole else 'conforms, as far as tried',
        Verdict.FINDINGS:
            f'{len(self.findings)} finding(s)',
        Verdict.NO_DEVICE:
            NO_DEVICE + why,
        Verdict.NOTHING:
            nothing,
        Verdict.INTERRUPTED:
            'interrupted',
    }[self.verdict]
    were = counts_text(self.results) or 'nothing was run'
    return f'{" ".join(words.split())} ({were})'
