"""Running the scenarios of a driver in C under checkers.

The driver forks a process for each, because starting valgrind takes longer than
any scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
import re
import shutil
import subprocess
from typing import NamedTuple

import pytest
from shim_build import clean_environment

CANARIES = ('canary_read', 'canary_leak')
CHECKERS = (pytest.param('valgrind', marks=pytest.mark.nightly), 'sanitizers')
_VALGRIND = ('valgrind', '--quiet', '--error-exitcode=99', '--leak-check=full',
             '--errors-for-leak-kinds=definite,indirect,possible')


class Ended(NamedTuple):
  """The end of a scenario: its exit status and all that it printed."""
  status: int
  output: str


def argument(scenario: str, variables: dict[str, str]) -> str:
  """What names a scenario, with variables of the environment, to a driver."""
  return ','.join([scenario, *(f'{k}={v}' for k, v in variables.items())])


def run(checker: str, command: Sequence[object],
        scenarios: Sequence[str]) -> dict[str, Ended]:
  """Runs scenarios.

  Args:
    checker: 'valgrind', or any other name if the driver has sanitizers in it.
    command: the driver and its first arguments.
    scenarios: an `argument` for each.

  Returns:
    How each ended, by its argument.
  """
  if checker == 'valgrind':
    assert shutil.which('valgrind'), 'install valgrind (a Debian package)'
    command = [*_VALGRIND, *command]
  environment = {
      **clean_environment(), 'ASAN_OPTIONS': 'detect_leaks=1:exitcode=99',
      'TSAN_OPTIONS': 'exitcode=99'
  }
  done = subprocess.run([*command, *scenarios],
                        env=environment,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        timeout=600,
                        text=True,
                        check=False)
  assert done.returncode == 0, done.stdout
  ends = re.findall(
      r'(.*?)^end (-?\d+) (.*?)\n', done.stdout, flags=re.DOTALL | re.MULTILINE)
  assert [scenario for _, _, scenario in ends] == list(scenarios), done.stdout
  return {
      scenario: Ended(int(status), output) for output, status, scenario in ends
  }
