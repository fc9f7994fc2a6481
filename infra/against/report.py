"""What a torch_xla came to: per series, and in one line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping

from infra.against.suite import BEHAVIOUR, Suite
from infra.against.wheel_only import WheelOnly

_PARTS = 8
_FORMS = {
    'wheel': 'with torch_xla.shardy',
    'native': 'without torch_xla.shardy',
}


@dataclass(frozen=True)
class Feature:
  """Whether a torch_xla has a feature.

  Attributes:
    how: by what that was found.
    is_on: whether it can be switched on, if it is there.
  """
  found: bool
  how: str
  is_on: bool = True

  @property
  def usable(self) -> bool:
    return self.found and self.is_on


@dataclass(frozen=True)
class Outcome:
  """What became of a test: passed, failed, skipped or absent, and why."""
  outcome: str
  reason: str = ''


@dataclass(frozen=True)
class Standing:
  """A series' feature, and what became of its tests, by node id."""
  suite: Suite
  feature: Feature
  outcomes: Mapping[str, Outcome]

  def those(self, outcome: str) -> dict[str, str]:
    """The node ids of one outcome, and their reasons."""
    return {
        n: o.reason for n, o in self.outcomes.items() if o.outcome == outcome
    }

  @property
  def failed(self) -> int:
    return len(self.those('failed'))

  @property
  def ran(self) -> int:
    return len(self.those('passed')) + self.failed

  @property
  def holds(self) -> bool:
    """Whether the feature is there, and nothing that was chosen fails."""
    return self.feature.usable and not self.failed

  @property
  def in_short(self) -> str:
    """The standing as a clause of the verdict."""
    called = self.suite.called
    if not self.feature.found and not self.ran:
      return self.suite.lacking
    if not self.feature.is_on:
      return f'{called} cannot be switched on'
    if not self.ran:
      return f'no test of {called} was chosen'
    if self.failed:
      return f'{called} {self.failed} of {self.ran} fail'
    return f'{called} {"holds" if called != "priorities" else "hold"}'


@dataclass(frozen=True)
class Report:
  """What a torch_xla came to.

  Attributes:
    facts: which one it is.
    wheel_only: by series, the tests that were not run as they need the wheel.
  """
  facts: Mapping[str, str]
  standings: tuple[Standing, ...]
  wheel_only: Mapping[str, WheelOnly]

  @property
  def exit_status(self) -> int:
    """The exit status: 0 if all three are there and all chosen tests hold."""
    ran = any(s.ran for s in self.standings)
    return 0 if ran and all(s.holds for s in self.standings) else 1

  @property
  def verdict(self) -> str:
    clauses = ', '.join(s.in_short for s in self.standings)
    if all(s.holds and s.ran for s in self.standings):
      ran = sum(s.ran for s in self.standings)
      return f'verdict: all three features are there, and all {ran} tests hold'
    if not any(s.feature.usable for s in self.standings):
      return f'verdict: this torch_xla has none of the three features: {clauses}'
    return f'verdict: {clauses}'

  def lines(self) -> list[str]:
    """The report for people."""
    facts = self.facts
    lines = [
        '',
        f'torch_xla {facts["version"]}, {_FORMS[facts["form"]]}',
        f'  {facts["file"]}',
        f'  {facts["extension"]}',
        f'  torch {facts["torch"]}, Python {facts["python"]}',
    ]
    for standing in self.standings:
      lines += ['', *_lines_of(standing)]
    lines += ['', "not run, as they need this project's wheel"]
    lines += [
        _line_of(name, of) for name, of in self.wheel_only.items() if of.tests
    ]
    return [*lines, '', self.verdict]

  def data(self) -> dict[str, Any]:
    """The report for programs."""
    return {
        'torch_xla': dict(self.facts),
        'series': {
            s.suite.series: {
                'feature': asdict(s.feature),
                'holds': s.holds,
                'ran': s.ran,
                'failed': s.those('failed'),
                'skipped': s.those('skipped'),
                'not_run': sorted(s.those('absent'))
            } for s in self.standings
        },
        'needs_the_wheel': {
            name: asdict(of) for name, of in self.wheel_only.items()
        },
        'verdict': self.verdict,
        'exit_status': self.exit_status
    }


def _lines_of(standing: Standing) -> list[str]:
  feature = standing.feature
  lines = [standing.suite.series]
  said = 'found' if feature.found else 'not found'
  lines.append(f'  {said}: {feature.how}')
  absent = standing.those('absent')
  if absent:
    lines.append(f'  not run, as the feature is absent: {len(absent)} tests')
  elif standing.ran:
    held = standing.ran - standing.failed
    lines.append(f'  {held} of {standing.ran} hold')
  else:
    lines.append('  none of its tests was chosen')
  by_reason: dict[str, list[str]] = {}
  for node, reason in standing.those('failed').items():
    by_reason.setdefault(reason, []).append(node)
  for reason, nodes in by_reason.items():
    lines += [f'  FAILED {_short(node)}' for node in nodes]
    lines += [f'    {line}'.rstrip() for line in reason.splitlines()]
  for node, reason in standing.those('skipped').items():
    lines.append(f'  skipped {_short(node)}: {reason}')
  return lines


def _short(node: str) -> str:
  return node.removeprefix(BEHAVIOUR)


def _line_of(series: str, wheel_only: WheelOnly) -> str:
  more = ', ...' if len(wheel_only.parts) > _PARTS else ''
  return (f'  {series}: {wheel_only.tests} tests in {wheel_only.files} files '
          f'({", ".join(wheel_only.parts[:_PARTS])}{more})')
