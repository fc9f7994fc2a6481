"""The shim before a plugin with faults, under valgrind and the sanitizers.

Each scenario of the C driver runs in a process of its own, once with the
library of the wheel under valgrind, once with one built with the address,
leak and undefined-behaviour sanitizers. Either makes the run fail at the first
wrong read or leaked byte.
"""

from __future__ import annotations

import pytest
from scenarios import CANARIES, CASES, CHECKERS, Ended, listed, name_of, run
from shim_build import Build

SHIM = CASES['SHIM']


@pytest.fixture(scope='module')
def ended(request: pytest.FixtureRequest, build: Build) -> dict[str, Ended]:
  """How each case ended under a checker."""
  command = [build.driver, build.library, build.fake]
  if request.param != 'valgrind':
    command = [
        build.sanitized_driver, build.sanitized_library, build.sanitized_fake
    ]
  # The faults first: they must be nobody else's.
  return run(request.param, [*command, build.not_a_plugin], [*CANARIES, *SHIM])


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('case', SHIM)
def test_scenario(ended: dict[str, Ended], case: str) -> None:
  assert ended[case] == (0, f'ok {name_of(case)}\n'), ended[case].output


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('canary', CANARIES)
def test_checker_sees_a_fault(ended: dict[str, Ended], canary: str) -> None:
  assert ended[canary].status not in (0, 2), ended[canary].output
  assert 'scenario.c' in ended[canary].output


def test_every_scenario_is_run(build: Build) -> None:
  run_here = {name_of(case) for case in SHIM}
  assert listed(build.driver) == sorted(run_here | set(CANARIES))
