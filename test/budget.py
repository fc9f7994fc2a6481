"""Fails a run of the whole suite whose tests take too many CPU seconds.

CI has to end within ten minutes of two cores. A busy machine changes CPU
seconds less than time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Optional

import pytest

from cpu_seconds import CpuSeconds
import tiers

LIMITS = {'core': 400, 'whole': 1100}
_SHOWN = 10


def over_limit(limit: float, seconds: Mapping[str, float]) -> Optional[str]:
  """The report of a run that took more than the limit, with the costliest.

  Args:
    limit: CPU seconds of all tests.
    seconds: CPU seconds by module.
  """
  total = sum(seconds.values())
  if total <= limit:
    return None
  costliest = sorted(seconds.items(), key=lambda item: -item[1])[:_SHOWN]
  return (f'the tests took {total:.1f} CPU s of {limit:g}: ' +
          ', '.join(f'{module} {taken:.1f}' for module, taken in costliest))


class Budget:
  """Judges a session at its end."""

  def __init__(self, config: pytest.Config, counted: CpuSeconds):
    self._config = config
    self._counted = counted

  def _report(self) -> Optional[str]:
    asked = tiers.Asked.of(self._config)
    part = any(map(self._config.getoption, ('keyword', 'markexpr')))
    if part or not any(map(Path(__file__).is_relative_to, asked.folders)):
      return None
    limit = LIMITS.get(asked.tier, float('inf'))
    return over_limit(limit, self._counted.of_modules)

  @pytest.hookimpl(trylast=True)
  def pytest_sessionfinish(self, session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and self._report():
      session.exitstatus = pytest.ExitCode.TESTS_FAILED

  def pytest_terminal_summary(self, terminalreporter) -> None:
    if report := self._report():
      terminalreporter.section('over budget: test/budget.py', red=True)
      terminalreporter.line(report)
