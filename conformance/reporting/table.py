"""A report for people, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import itertools
import textwrap
from typing import Any

from ..result import ConformanceReport, counts_by_issue, counts_text, Result, Status

_WIDTH = 80
_LISTED = 12


def text(report: ConformanceReport) -> str:
  """The capabilities, a line for each case, each finding, and the verdict."""
  return '\n'.join([
      report.subject, '', *_capabilities(report.capabilities), '',
      *_cases(report.results), *_findings(report), *_issues(report.results),
      report.verdict_text()
  ])


def _capabilities(measured: Mapping[str, Any]) -> Iterator[str]:
  for name, value in measured.items():
    yield from wrapped(f'{name.replace("_", " ")}: {value_text(value)}')


def value_text(value: Any) -> str:
  if value is True:
    return 'yes'
  if value is False or value is None:
    return 'no'
  if isinstance(value, Mapping):
    return ', '.join(f'{k} {value_text(v)}' for k, v in value.items()) or 'none'
  if isinstance(value, Sequence) and not isinstance(value, str):
    shown = ', '.join(map(str, value[:_LISTED]))
    more = f', and {len(value) - _LISTED} more' if len(value) > _LISTED else ''
    return (shown or 'none') + more
  return str(value)


def wrapped(text_: str, indent: str = '  ', hanging: str = '  ') -> list[str]:
  """Lines of a paragraph, whose further ones are indented by `hanging` more."""
  return textwrap.wrap(
      text_,
      _WIDTH,
      initial_indent=indent,
      subsequent_indent=indent + hanging,
      break_on_hyphens=False)


def _cases(results: Sequence[Result]) -> Iterator[str]:
  absent: dict[str, int] = {}
  for case, some in itertools.groupby(results, lambda result: result.case):
    group = list(some)
    if all(r.status is Status.SKIPPED and not r.seconds for r in group):
      absent[group[0].text] = absent.get(group[0].text, 0) + 1
      continue
    seconds = sum(result.seconds for result in group)
    mark = '!' if any(r.status.is_finding for r in group) else ' '
    line = f'{mark} {case:<28} {counts_text(group)}'
    if len(group) == 1 and not group[0].status.is_finding and group[0].text:
      line += f': {group[0].text}'
    limit = _WIDTH - 9
    line = line if len(line) <= limit else line[:limit - 3] + '...'
    yield f'{line:<{limit}} {seconds:6.1f} s'
  for reason, names in _reasons(results).items():
    yield from wrapped(f'skipped: {", ".join(names)}: {reason}')
  for reason, count in absent.items():
    yield from wrapped(f'{count} case(s) were not run: {reason}')


def _reasons(results: Sequence[Result]) -> dict[str, list[str]]:
  """Why parts were skipped that were begun, and which cases have some."""
  cases_by_reason: dict[str, list[str]] = {}
  for result in results:
    if result.status is Status.SKIPPED and result.seconds:
      cases = cases_by_reason.setdefault(result.text, [])
      if result.case not in cases:
        cases.append(result.case)
  return cases_by_reason


def _issues(results: Sequence[Result]) -> Iterator[str]:
  """Counts of known failures by issue, if one is named."""
  if counts := counts_by_issue(results):
    known = ', '.join(
        f'{issue or "without an issue"}: {n}' for issue, n in counts.items())
    yield from wrapped(
        f'expected to fail: {sum(counts.values())} ({known})', indent='')
    yield ''


def _findings(report: ConformanceReport) -> Iterator[str]:
  for result in report.findings:
    yield ''
    yield f'{result.status.value.upper()} {result.name}'
    if result.status is not Status.STALE:
      yield f'  for a user: {report.means[result.case]}'
    yield from wrapped(result.text, hanging='')
  yield ''
