"""The report on a torch_xla: per series, and in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .judge import Feature, ProbeResult
from .shared.result import Result, Status
from .suites import Suite, suite_of, SUITES

# The kinds of failures, and the verb of a verdict; the worst comes last.
KINDS = {'lacks': 'lacks', 'differs': 'differs in', 'wrong': 'is wrong in'}
_FORMS = {
    'wheel': 'with torch_xla.shardy',
    'native': 'without torch_xla.shardy',
}
_SHOWN = 5


@dataclass(frozen=True)
class Standing:
  """A series' feature, and what became of its tests.

  Attributes:
    kinds: of failures, by the name of the test.
  """
  suite: Suite
  feature: Feature
  results: tuple[Result, ...]
  kinds: Mapping[str, str]

  @property
  def findings(self) -> tuple[Result, ...]:
    return tuple(r for r in self.results if r.status.is_finding)

  def with_status(self, status: Status) -> tuple[Result, ...]:
    return tuple(r for r in self.results if r.status is status)

  def failing(self, kind: str) -> tuple[Result, ...]:
    """The findings of one kind."""
    return tuple(r for r in self.findings
                 if r.status is not Status.STALE and self.kinds[r.case] == kind)

  @property
  def ran(self) -> int:
    """The number of tests that have an outcome."""
    return len([
        r for r in self.results
        if r.status not in (Status.SKIPPED, Status.STALE)
    ])

  @property
  def clause(self) -> str:
    """The standing as a clause of the verdict."""
    called = self.suite.called
    if not self.ran:
      return f'no test of {called} was run'
    if len(self.failing('lacks')) == self.ran:
      return f'yours lacks {called}'
    parts = [
        f'{verb} {len(self.failing(kind))}' for kind, verb in KINDS.items()
        if self.failing(kind)
    ]
    if stale := self.with_status(Status.STALE):
      parts.append(f'has {len(stale)} stale expectation(s)')
    if parts:
      return f'{called}: yours {", ".join(parts)} of {self.ran}'
    known = len(self.with_status(Status.EXPECTED))
    but = f' but for {known} expected' if known else ''
    return f'{called}: all {self.ran} hold{but}'


@dataclass(frozen=True)
class Report:
  """The report on a torch_xla.

  Attributes:
    probe_result: which torch_xla it is, and its features.
    results: of the tests, by their names as cases.
    kinds: of failures, by the name of the test.
    seconds: that it took.
  """
  probe_result: ProbeResult
  results: tuple[Result, ...]
  kinds: Mapping[str, str]
  seconds: float

  @property
  def standings(self) -> tuple[Standing, ...]:
    return tuple(
        Standing(suite, self.probe_result.features[suite.series],
                 tuple(r
                       for r in self.results
                       if suite_of(r.case) is suite), self.kinds)
        for suite in SUITES)

  @property
  def findings(self) -> tuple[Result, ...]:
    return tuple(r for r in self.results if r.status.is_finding)

  def kind_of(self, result: Result) -> str:
    """Its kind, if it is a failure, or else its status."""
    is_failure = result.status.is_finding and result.status is not Status.STALE
    return self.kinds[result.case] if is_failure else result.status.value

  @property
  def exit_status(self) -> int:
    """0 if all that was run holds, 1 with a finding, 2 if nothing was run."""
    if self.findings:
      return 1
    return 0 if any(s.ran for s in self.standings) else 2

  @property
  def verdict(self) -> str:
    return '; '.join(s.clause for s in self.standings)

  @property
  def subject(self) -> str:
    """Which torch_xla it is, in a line."""
    facts = self.probe_result.facts
    return (f'torch_xla {facts["version"]}, {_FORMS[facts["form"]]}; torch '
            f'{facts["torch"]}, Python {facts["python"]}')

  def text(self) -> str:
    """The report for people."""
    facts = self.probe_result.facts
    lines = [self.subject, f'  {facts["file"]}', f'  {facts["extension"]}']
    for standing in self.standings:
      lines += ['', *self._lines_of(standing)]
    return '\n'.join([*lines, '', f'verdict: {self.verdict}'])

  def _lines_of(self, standing: Standing) -> Iterator[str]:
    feature = standing.feature
    yield standing.suite.series
    yield f'  {"found" if feature.is_present else "not found"}: {feature.how}'
    held = len(standing.with_status(Status.PASSED))
    yield f'  {held} of {standing.ran} hold'
    by_reason: dict[tuple[str, str], list[str]] = {}
    for result in standing.findings:
      key = self.kind_of(result), result.text
      by_reason.setdefault(key, []).append(result.name)
    for (kind, reason), names in by_reason.items():
      yield from (f'  {kind.upper()} {name}' for name in names[:_SHOWN])
      if len(names) > _SHOWN:
        yield f'  and {len(names) - _SHOWN} more'
      yield from (f'    {line}'.rstrip() for line in reason.splitlines())
    for status in Status.EXPECTED, Status.SKIPPED:
      for result in standing.with_status(status):
        yield f'  {status.value} {result.name}: {result.text}'
