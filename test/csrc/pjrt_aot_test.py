"""The compile-only plugin before one with faults, under checkers.

As pjrt_shardy_test does for the shim, whose scenarios say how they are run.
Threads are looked at by the thread sanitizer too; where memory ends, a variant
of the library finds none at each of its allocations in turn.
"""

from __future__ import annotations

import pytest
from scenarios import CANARIES, CASES, CHECKERS, Ended, listed, name_of, run
from shim_build import Build

AOT, THREADS, STARVED = (
    CASES[name] for name in ('AOT', 'AOT_THREADS', 'AOT_STARVED'))


@pytest.fixture(scope='module')
def ended(request: pytest.FixtureRequest, build: Build) -> dict[str, Ended]:
  """How each case ended under a checker."""
  if request.param == 'valgrind':
    library, fake, driver = (build.aot_library, build.aot_fake,
                             build.aot_driver)
  else:
    library, fake, driver = build.aot_sanitized['sanitized']
  return run(request.param, [driver, library, fake, build.not_a_plugin],
             [*CANARIES, *AOT])


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('case', AOT)
def test_scenario(ended: dict[str, Ended], case: str) -> None:
  assert ended[case] == (0, f'ok {name_of(case)}\n'), ended[case].output


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('canary', CANARIES)
def test_checker_sees_a_fault(ended: dict[str, Ended], canary: str) -> None:
  assert ended[canary].status not in (0, 2), ended[canary].output
  assert 'scenario.c' in ended[canary].output


def _run_variant(build: Build, variant: str, cases: list[str]) -> None:
  library, fake, driver = build.aot_sanitized[variant]
  ends = run(variant, [driver, library, fake, build.not_a_plugin], cases)
  for case, end in ends.items():
    assert end == (0, f'ok {case}\n'), end.output


def test_threads_do_not_race(build: Build) -> None:
  _run_variant(build, 'threads', THREADS)


def test_thread_sanitizer_sees_a_race(build: Build) -> None:
  library, fake, driver = build.aot_sanitized['threads']
  ends = run('threads', [driver, library, fake, build.not_a_plugin],
             ['canary_race'])
  assert ends['canary_race'].status == 99
  assert 'data race' in ends['canary_race'].output


def test_wherever_memory_ends(build: Build) -> None:
  _run_variant(build, 'starved', STARVED)


def test_every_scenario_is_run(build: Build) -> None:
  run_here = {name_of(case) for case in (*AOT, *STARVED)}
  assert listed(build.aot_driver) == sorted(
      {*run_here, *CANARIES, 'canary_race'})
