"""The doctor's findings, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import dataclasses
import enum
import json
import re
import textwrap
from typing import Union

SCHEMA = 1
_WIDTH = 80
_STATUS_WIDTH = 9
_CHECK_WIDTH = 19
_ARROW = '-> '


class Status(enum.Enum):
  """The status of a check.

  WARNING: it runs, but perhaps not as meant; ERROR: it does not run, or not as
  asked; SKIPPED: it could not be looked at, and `found` says why.
  """
  OK = 'ok'
  WARNING = 'warning'
  ERROR = 'error'
  SKIPPED = 'skipped'


OK, WARNING, ERROR, SKIPPED = Status
# The status of a check, the state that it found, and what to do, if anything.
Judgement = Union[tuple[Status, str], tuple[Status, str, str]]


@dataclasses.dataclass(frozen=True)
class Finding:
  """The finding of one check.

  Attributes:
    check: the check's name; those of the probe start with 'probe.'.
    status: of the check.
    message: the state that it found.
    remedy: what to do; empty if nothing has to be done.
  """
  check: str
  status: Status
  message: str
  remedy: str = ''

  def to_dict(self) -> Mapping[str, str]:
    return {**dataclasses.asdict(self), 'status': self.status.value}

  @classmethod
  def from_dict(cls, data: Mapping[str, str]) -> 'Finding':
    return cls(**{**data, 'status': Status(data['status'])})


@dataclasses.dataclass(frozen=True)
class Diagnosis:
  """All findings, in the order in which they were made."""
  findings: tuple[Finding, ...]

  @property
  def ok(self) -> bool:
    """Tests whether no finding is an error."""
    return all(f.status is not Status.ERROR for f in self.findings)

  def __add__(self, other: 'Diagnosis') -> 'Diagnosis':
    return Diagnosis(self.findings + other.findings)

  def to_json(self) -> str:
    """The report as JSON with sorted keys, for programs and for diffs.

    Times and process ids are not in it: two runs on the same installation give
    the same text.
    """
    data = {
        'schema': SCHEMA,
        'ok': self.ok,
        'findings': [f.to_dict() for f in self.findings],
    }
    return json.dumps(data, indent=2, sort_keys=True)

  def __str__(self) -> str:
    """The report as a table of at most 80 columns, and a closing line."""
    rows = [_row('STATUS', 'CHECK', ['FOUND'])]
    for finding in self.findings:
      rows.append(_row(finding.status.value, finding.check, _cell(finding)))
    return '\n'.join(rows + ['', _summary(self.findings)])


def one_line(text: str, limit: int = 400) -> str:
  """A text on one line, cut to `limit` characters."""
  text = re.sub(r'\s+', ' ', text).strip()
  return text if len(text) <= limit else text[:limit - 3] + '...'


def _cell(finding: Finding) -> Iterable[str]:
  width = _WIDTH - _STATUS_WIDTH - _CHECK_WIDTH
  lines = textwrap.wrap(finding.message, width, break_on_hyphens=False)
  lines += textwrap.wrap(
      finding.remedy,
      width,
      initial_indent=_ARROW,
      subsequent_indent=' ' * len(_ARROW),
      break_on_hyphens=False)
  return lines or ['']


def _row(status: str, check: str, cell: Iterable[str]) -> str:
  margin = ' ' * (_STATUS_WIDTH + _CHECK_WIDTH)
  head = status.ljust(_STATUS_WIDTH) + check.ljust(_CHECK_WIDTH)
  return (head + f'\n{margin}'.join(cell)).rstrip()


def _summary(findings: Iterable[Finding]) -> str:
  statuses = [f.status for f in findings]
  errors, warnings = map(statuses.count, (Status.ERROR, Status.WARNING))
  if not errors and not warnings:
    return 'nothing wrong was found'
  return f'{errors} error(s), {warnings} warning(s)'
