"""The file of what is known to fail."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from torch_xla_conformance import expected_failures
from torch_xla_conformance.case import ConformanceError
from torch_xla_conformance.expected_failures import judge, Line
from torch_xla_conformance.result import Result, Status


def made(case: str, part: str, status: Status) -> Result:
  return Result(case, part, status, 'what was found', 1.)


def judged(results: list[Result],
           line: Line,
           path: str = 'f') -> tuple[Result, ...]:
  """The results of a suite that has two cases."""
  names = ('donation.real/taken', 'donation.real/refused')

  def matching(pattern: str) -> set[str]:
    return {
        name for name in names if fnmatch.fnmatchcase(name, pattern) or
        fnmatch.fnmatchcase('donation.real', pattern)
    }

  return judge(results, [line], matching, path)


def test_reading(tmp_path: Path) -> None:
  path = tmp_path / 'known.txt'
  path.write_text(
      '''
# Of our first silicon.
donation.*   donation is emulated, #12

  transfers.types/F64  there is no F64
''',
      encoding='utf-8-sig')
  assert expected_failures.read(str(path)) == (Line(
      3, 'donation.*', 'donation is emulated, #12'),
                                               Line(5, 'transfers.types/F64',
                                                    'there is no F64'))


@pytest.mark.parametrize('reason, issue', [
    ('#17', '#17'),
    ('acme#17: the partitioner aborts', 'acme#17'),
    ('acme/plugin-a.b#17, of old', 'acme/plugin-a.b#17'),
    ('https://acme.example/i/17: so', 'https://acme.example/i/17'),
    ('donation is emulated, #12', ''),
    ('#first is not there', ''),
])
def test_an_issue_that_a_reason_begins_with(reason: str, issue: str) -> None:
  line = Line(1, 'donation.*', reason)
  result, = judged([made('donation.real', 'taken', Status.FAILED)], line)
  assert (line.issue, result.issue) == (issue, issue)


def test_a_line_needs_a_reason(tmp_path: Path) -> None:
  path = tmp_path / 'known.txt'
  path.write_text('# fine\ndonation.real\n')
  with pytest.raises(
      ConformanceError, match=r'known.txt:2: donation.real has no reason'):
    expected_failures.read(str(path))
  with pytest.raises(ConformanceError, match='no-such'):
    expected_failures.read(str(tmp_path / 'no-such'))


@pytest.mark.parametrize('status', (Status.FAILED, Status.CRASHED, Status.HUNG))
def test_what_was_expected(status: Status) -> None:
  line = Line(1, 'donation.*', 'it is emulated')
  result, = judged([made('donation.real', 'taken', status)], line)
  assert result.status is Status.EXPECTED
  assert result.text == f'it is emulated ({status.value}: what was found)'


def test_a_stale_line_is_a_finding() -> None:
  line = Line(4, 'donation.*', 'it is emulated')
  both = [
      made('donation.real', part, Status.PASSED)
      for part in ('taken', 'refused')
  ]
  *others, stale = judged(both, line, 'known.txt')
  assert others == both
  assert stale.status is Status.STALE and stale.status.is_finding
  assert stale.text == ('known.txt:4: donation.* does not fail any more; take '
                        'the line out')


@pytest.mark.parametrize(
    'line, statuses, judged_as',
    [
        # What was not expected stays.
        ('donation.real/taken', [None, Status.FAILED], [Status.FAILED]),
        # Not with --only, nor in a run that was interrupted.
        ('donation.*', [Status.PASSED], [Status.PASSED]),
        ('donation.*', [Status.SKIPPED], [Status.SKIPPED]),
        ('donation.*', [], []),
        # One failure keeps a pattern.
        ('donation.*', [Status.PASSED, Status.FAILED
                       ], [Status.PASSED, Status.EXPECTED]),
    ])
def test_a_line_that_is_not_stale(line: str, statuses: list[Status | None],
                                  judged_as: list[Status]) -> None:
  results = [
      made('donation.real', part, status)
      for part, status in zip(('taken', 'refused'), statuses)
      if status
  ]
  assert [r.status for r in judged(results, Line(4, line, 'it is emulated'))
         ] == judged_as
