"""The shim before a plugin with faults, under valgrind and the sanitizers.

Each scenario of the C driver runs in a process of its own, once with the
library of the wheel under valgrind, once with one built with the address,
leak and undefined-behaviour sanitizers. Either makes the run fail at the first
wrong read or leaked byte.
"""

from __future__ import annotations

import subprocess

import pytest
from scenarios import argument, CANARIES, CHECKERS, Ended, run
from shim_build import Build

# Each struct version of PJRT_ExecuteOptions begins at one of these, and ends
# before another; 57 is the oldest that is taken, 105 the newest known.
MINORS = (57, 63, 64, 75, 76, 77, 78, 81, 96, 97, 105, 106, 116)
# One of each size.
SIZE_MINORS = (57, 64, 76, 81, 105, 106)
# Scenarios that run as they are.
PLAIN = (
    'version', 'open_errors', 'no_inner', 'open_by_environment', 'errors',
    'short_error_args', 'open_threads', 'attributes', 'device_kind',
    'compile_pass', 'compile_replaced', 'compile_short', 'compile_inner_error',
    'compile_twice', 'compile_format', 'compile_fail', 'compile_fail_messages',
    'compile_nothing', 'compiled_program', 'answer_given', 'answer_dropped',
    'answer_fail', 'answer_not_for_compile', 'answer_lifetime',
    'answer_of_another', 'answer_misuse', 'answer_inner_error',
    'answer_threads', 'cache_serialized', 'cache_loaded', 'cache_refused',
    'cache_replaced', 'cache_fail', 'cache_lent', 'callback_replaces_itself',
    'callback_threads', 'callback_awaited', 'execute_misuse',
    'execute_inner_error', 'execute_large_args', 'kept_reused', 'kept_in_use',
    'kept_other', 'kept_eviction', 'kept_deleted', 'kept_fail', 'kept_replaced',
    'kept_threads', 'readback_pass', 'readback_replaced', 'readback_short',
    'readback_inner_error', 'readback_fail', 'readback_bytes_only',
    'readback_small_buffer', 'readback_asked_again', 'readback_eviction',
    'readback_other_executable', 'readback_cleared', 'readback_not_for_compile',
    'readback_replaces_itself', 'readback_nested', 'readback_threads',
    'readback_swapped', 'readback_awaited')
# Scenarios that run with several versions of the plugin.
SKEWED = {
    'execute_skew': MINORS,
    'execute_dropped': SIZE_MINORS,
    'execute_odd_sizes': SIZE_MINORS,
}
# What is wrong with the plugin, and what must be said about it.
FAULTS = {
    'null': 'returned no table',
    'tiny': '16 bytes',
    'short': 'at least 488 are needed',
    'major': '1.81',
    'no_errors': 'lacks the error functions',
}


def _cases() -> list[tuple[str, dict[str, str]]]:
  cases = [(name, {}) for name in PLAIN]
  for name, minors in SKEWED.items():
    cases += [(name, {'FAKE_PLUGIN_MINOR': str(minor)}) for minor in minors]
  for minor in ('57', '98', '99', '116'):
    cases.append(('table', {'FAKE_PLUGIN_MINOR': minor}))
  for fault, text in FAULTS.items():
    cases.append(('refused', {'FAKE_PLUGIN_FAULT': fault, 'EXPECT_TEXT': text}))
  cases.append(('refused', {
      'FAKE_PLUGIN_MINOR': '56',
      'EXPECT_TEXT': 'older than 0.57'
  }))
  bare = {'FAKE_PLUGIN_FAULT': 'bare', 'FAKE_PLUGIN_MINOR': '99'}
  cases += [('bare_table', bare), ('compiled_program_missing', bare)]
  cases += [('answer_missing', bare), ('attributes_missing', bare)]
  for scenario, fault in (('attributes', 'long_values'), ('attributes_missing',
                                                          'untold'),
                          ('attributes_refused',
                           'secret'), ('device_kind_untold', 'untold'),
                          ('device_kind_refused',
                           'secret'), ('attributes_short', 'short_value')):
    cases.append((scenario, {'FAKE_PLUGIN_FAULT': fault}))
  cases += [('cache_missing', bare),
            ('cache_missing', {
                'FAKE_PLUGIN_FAULT': 'old'
            })]
  cases.append(('payloads', {'FAKE_PLUGIN_MINOR': '99'}))
  return cases


def _name(case: object) -> str:
  if isinstance(case, dict):
    return '-'.join(v.replace(' ', '_') for v in case.values()) or 'plain'
  return str(case)


@pytest.fixture(scope='module')
def ended(request: pytest.FixtureRequest, build: Build) -> dict[str, Ended]:
  """How each scenario ended under a checker, by the driver's argument."""
  command = [build.driver, build.library, build.fake]
  if request.param != 'valgrind':
    command = [
        build.sanitized_driver, build.sanitized_library, build.sanitized_fake
    ]
  # The faults first: they must be nobody else's.
  scenarios = [*CANARIES, *(argument(*case) for case in _cases())]
  return run(request.param, [*command, build.not_a_plugin], scenarios)


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('scenario, variables', _cases(), ids=_name)
def test_scenario(ended: dict[str, Ended], scenario: str,
                  variables: dict[str, str]) -> None:
  end = ended[argument(scenario, variables)]
  assert end == (0, f'ok {scenario}\n'), end.output


@pytest.mark.parametrize('ended', CHECKERS, indirect=True)
@pytest.mark.parametrize('canary', CANARIES)
def test_checker_sees_a_fault(ended: dict[str, Ended], canary: str) -> None:
  assert ended[canary].status not in (0, 2), ended[canary].output
  assert 'scenario.c' in ended[canary].output


def test_every_scenario_is_run(build: Build) -> None:
  listed = subprocess.run([build.driver, '--list'],
                          stdout=subprocess.PIPE,
                          text=True,
                          check=True).stdout.split()
  run = {scenario for scenario, _ in _cases()}
  assert sorted(listed) == sorted(run | set(CANARIES))
