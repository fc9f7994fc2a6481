"""Running the scenarios of a driver in C under checkers.

The driver forks a process for each, because starting valgrind takes longer than
any scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import re
import runpy
import shutil
import subprocess
from typing import NamedTuple

import pytest
from shim_build import clean_environment

# What Bazel runs too: SHIM, AOT, AOT_THREADS and AOT_STARVED.
CASES: dict[str, list[str]] = runpy.run_path(
    str(Path(__file__).with_name('cases.bzl')))
CANARIES = ('canary_read', 'canary_leak')
CHECKERS = (pytest.param('valgrind', marks=pytest.mark.nightly), 'sanitizers')
_VALGRIND = ('valgrind', '--quiet', '--error-exitcode=99', '--leak-check=full',
             '--errors-for-leak-kinds=definite,indirect,possible')


class Ended(NamedTuple):
  """The end of a scenario: its exit status and all that it printed."""
  status: int
  output: str


def name_of(case: str) -> str:
  """The scenario of a case."""
  return case.split(',')[0]


def listed(driver: Path) -> list[str]:
  """All scenarios that a driver has, sorted."""
  done = subprocess.run([driver, '--list'],
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True)
  return sorted(done.stdout.split())


def run(checker: str, command: Sequence[object],
        cases: Sequence[str]) -> dict[str, Ended]:
  """Runs cases.

  Args:
    checker: 'valgrind', or any other name if the driver has sanitizers in it.
    command: the driver and its first arguments.
    cases: SCENARIO[,VARIABLE=VALUE]... of each.

  Returns:
    How each ended, by its case.
  """
  if checker == 'valgrind':
    assert shutil.which('valgrind'), 'install valgrind (a Debian package)'
    command = [*_VALGRIND, *command]
  environment = {
      **clean_environment(), 'ASAN_OPTIONS': 'detect_leaks=1:exitcode=99',
      'TSAN_OPTIONS': 'exitcode=99'
  }
  done = subprocess.run([*command, *cases],
                        env=environment,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        timeout=600,
                        text=True,
                        check=False)
  ends = re.findall(
      r'(.*?)^end (-?\d+) (.*?)\n', done.stdout, flags=re.DOTALL | re.MULTILINE)
  assert [case for _, _, case in ends] == list(cases), done.stdout
  ended = {case: Ended(int(status), output) for output, status, case in ends}
  # Which is all that Bazel sees.
  failed = any(end.status for end in ended.values())
  assert done.returncode == int(failed), done.stdout
  return ended
