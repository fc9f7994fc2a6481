"""Fails a run whose tests take more CPU seconds than their folder may.

`budgets.toml` says how many each folder may take, in the core and in the whole.
A folder counts where it is run wholly, by its name or that of one around it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Optional

import pytest

from cpu_seconds import CpuSeconds
import tiers

FILE = Path(__file__).with_name('budgets.toml')
_SHOWN = 3


def load() -> dict[str, dict[str, float]]:
  """The CPU seconds of folders, by tier."""
  import tomllib  # From Python 3.11 on, and others need not this.
  return tomllib.loads(FILE.read_text(encoding='utf-8'))


def folder_of(module: str, budgets: Collection[str]) -> Optional[str]:
  """The closest folder around a module that has a budget."""
  around = [str(folder) for folder in PurePosixPath(module).parents]
  return next((folder for folder in around if folder in budgets), None)


def over_budget(budgets: Mapping[str, float], taken: Mapping[str, float],
                asked: Collection[str]) -> list[str]:
  """Says of each folder that took too much what it took, and where.

  Args:
    budgets: CPU seconds by folder.
    taken: CPU seconds by module.
    asked: the folders that were run wholly, with all that they hold.
  """
  problems = []
  for folder, budget in budgets.items():
    of_folder = {
        module: seconds
        for module, seconds in taken.items()
        if folder_of(module, budgets) == folder
    }
    whole = any(
        PurePosixPath(folder).is_relative_to(around) for around in asked)
    if whole and sum(of_folder.values()) > budget:
      costliest = sorted(of_folder.items(), key=lambda item: -item[1])[:_SHOWN]
      problems.append(
          f'{folder} took {sum(of_folder.values()):.1f} CPU s, and its budget '
          f'is {budget:g}: ' +
          ', '.join(f'{module} {seconds:.1f}' for module, seconds in costliest))
  return problems


class Budgets:
  """Judges a session at its end."""

  def __init__(self, config: pytest.Config, counted: CpuSeconds):
    self._config = config
    self._counted = counted

  def _problems(self) -> list[str]:
    asked = tiers.Asked.of(self._config)
    some = any(map(self._config.getoption, ('keyword', 'markexpr')))
    if some or asked.tier == tiers.ALL or not FILE.exists():
      return []
    root = self._config.rootpath
    folders = [
        folder.relative_to(root).as_posix()
        for folder in asked.folders
        if folder.is_relative_to(root)
    ]
    return over_budget(load()[asked.tier], self._counted.of_modules, folders)

  @pytest.hookimpl(trylast=True)
  def pytest_sessionfinish(self, session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and self._problems():
      session.exitstatus = pytest.ExitCode.TESTS_FAILED

  def pytest_terminal_summary(self, terminalreporter) -> None:
    if problems := self._problems():
      terminalreporter.section('over budget: test/budgets.toml', red=True)
      for problem in problems:
        terminalreporter.line(problem)
