"""The compile-only plugin before one with faults, under checkers.

As pjrt_shardy_test does for the shim, whose scenarios say how they are run.
Threads are looked at by the thread sanitizer too; where memory ends, a variant
of the library finds none at each of its allocations in turn.
"""

from __future__ import annotations

import subprocess

import pytest
from scenarios import argument, CANARIES, CHECKERS, Ended, run
from shim_build import Build

PLAIN = ('closed', 'open_errors', 'open_fails', 'open_options', 'open_short',
         'devices', 'devices_without_attributes', 'client', 'client_errors',
         'other_topology', 'one_process', 'device_entries', 'memory_entries',
         'misuse', 'forwarded', 'forwarded_large', 'payloads', 'compile',
         'compile_short_stats', 'compile_untold', 'compile_fails',
         'compile_errors', 'optimized_malformed', 'optimized_given',
         'try_compile', 'assignment', 'assignment_errors', 'execute',
         'execute_kept', 'execute_errors', 'execute_unknown_arguments',
         'execute_tupled_arguments', 'execute_some_devices', 'execute_portable',
         'steps', 'steps_by_device', 'step_limit', 'step_limit_quiet', 'buffer',
         'buffer_errors', 'buffer_copies', 'reads', 'reads_refused', 'events')
THREADS = ('threads', 'open_threads', 'last_program')
STARVED = ('starved_open', 'starved_compile', 'starved_execute',
           'starved_buffers')
CASES = [
    *((name, {}) for name in (*PLAIN, *THREADS)),
    *(('memory_limit', {
        'LIMIT': limit
    }) for limit in ('0', '17179869184')),
]


@pytest.fixture(scope='module')
def ended(request: pytest.FixtureRequest, build: Build) -> dict[str, Ended]:
  """How each scenario ended under a checker, by the driver's argument."""
  if request.param == 'valgrind':
    library, fake, driver = (build.aot_library, build.aot_fake,
                             build.aot_driver)
  else:
    library, fake, driver = build.aot_sanitized['sanitized']
  return run(request.param, [driver, library, fake, build.not_a_plugin],
             [*CANARIES, *(argument(*case) for case in CASES)])


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize(
    'scenario, variables',
    CASES,
    ids=[argument(*case).replace(',', '-') for case in CASES])
def test_scenario(ended: dict[str, Ended], scenario: str,
                  variables: dict[str, str]) -> None:
  end = ended[argument(scenario, variables)]
  assert end == (0, f'ok {scenario}\n'), end.output


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('canary', CANARIES)
def test_checker_sees_a_fault(ended: dict[str, Ended], canary: str) -> None:
  assert ended[canary].status not in (0, 2), ended[canary].output
  assert 'scenario.c' in ended[canary].output


def _run_variant(build: Build, variant: str, scenarios: tuple[str,
                                                              ...]) -> None:
  library, fake, driver = build.aot_sanitized[variant]
  ends = run(variant, [driver, library, fake, build.not_a_plugin], scenarios)
  for scenario, end in ends.items():
    assert end == (0, f'ok {scenario}\n'), end.output


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
  listed = subprocess.run([build.aot_driver, '--list'],
                          stdout=subprocess.PIPE,
                          text=True,
                          check=True).stdout.split()
  run_here = {scenario for scenario, _ in CASES}
  assert sorted(listed) == sorted(run_here |
                                  {*CANARIES, *STARVED, 'canary_race'})
