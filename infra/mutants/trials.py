"""Runs tests on benches, with a fault each or with none, some at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
from multiprocessing import connection, process
import os
import re
import signal
import time
from typing import NamedTuple

from infra.errors import BuildError
from infra.mutants.bench import Bench
from infra.mutants.faults import Fault

_SECONDS = 900
_LAST = 3000  # Characters of what tests printed.
# Errors of a fault that does not run, rather than does something wrong.
_BROKEN = re.compile(r'\b(SyntaxError|IndentationError|ImportError|NameError|'
                     r'ModuleNotFoundError|UnboundLocalError)\b')


class Trial(NamedTuple):
  """Tests to run, and the fault to plant before."""
  tests: tuple[str, ...]
  fault: Fault | None = None

  @property
  def is_native(self) -> bool:
    """Whether it takes a build of C."""
    return any(test.startswith('test/csrc/') for test in self.tests)


class Ended(NamedTuple):
  """A trial that has come to its end.

  Attributes:
    status: pytest's; None if it came to none.
    passed: node ids.
    failed: node id, the phase that failed, and what was said of it.
    output: what was printed.
  """
  trial: Trial
  seconds: float
  status: int | None
  passed: list[str]
  failed: list[tuple[str, str, str]]
  output: str


class _Running(NamedTuple):
  bench: Bench
  trial: Trial
  process: process.BaseProcess
  start: float


def without_faults(faults: Iterable[Fault]) -> list[Trial]:
  """The trials of all tests as they are: those in C, and half of the others."""
  tests = sorted({fault.test for fault in faults})
  native = [test for test in tests if Trial((test,)).is_native]
  others = [test for test in tests if test not in native]
  modules = sorted({test.partition('::')[0] for test in others})
  half = [
      tuple(t
            for t in others
            if t.partition('::')[0] in modules[n::2])
      for n in range(2)
  ]
  return [Trial(tests) for tests in (tuple(native), *half) if tests]


def run(trials: Iterable[Trial], benches: Sequence[Bench]) -> Iterator[Ended]:
  """Runs trials, in the order in which they end.

  What takes a build of C runs on the first bench: only there it is built.

  Raises:
    BuildError: the file of a fault is not as the table says.
  """
  pending = sorted(trials, key=lambda trial: not trial.is_native)
  running: list[_Running] = []
  try:
    while pending or running:
      for bench in benches:
        trial = next(
            (t for t in pending if bench is benches[0] or not t.is_native),
            None)
        if trial is None or any(entry.bench is bench for entry in running):
          continue
        pending.remove(trial)
        if trial.fault:
          bench.plant(trial.fault)
        running.append(
            _Running(bench, trial,
                     bench.start(trial.tests, stops=trial.fault is not None),
                     time.monotonic()))
      connection.wait([entry.process.sentinel for entry in running], timeout=1)
      for entry in list(running):
        if entry.process.is_alive():
          if time.monotonic() - entry.start > _SECONDS:
            _end(entry)
          continue
        running.remove(entry)
        if entry.trial.fault:
          entry.bench.mend(entry.trial.fault)
        yield Ended(entry.trial,
                    time.monotonic() - entry.start, **entry.bench.result())
  finally:
    for entry in running:
      _end(entry)


def check_pass(ended: Ended) -> None:
  """Checks tests without a fault.

  Raises:
    BuildError: not all pass, or one is not run.
  """
  for node, _, text in ended.failed:
    raise BuildError(f'{node} fails without a fault:\n{text[-_LAST:]}')
  for test in ended.trial.tests:
    if not any(_is_of(node, test) for node in ended.passed):
      raise BuildError(f'{test} does not pass without a fault: it is skipped, '
                       f'or not there\n{ended.output[-_LAST:]}')


def survives(ended: Ended) -> bool:
  """Whether the test of a planted fault passed.

  Raises:
    BuildError: it failed for another reason than what it tests.
  """
  fault = ended.trial.fault
  if ended.status == 0:
    return True
  seen = [text for _, when, text in ended.failed if when == 'call']
  if ended.status == 1 and seen:
    if not any(_BROKEN.search(text) for text in seen):
      return False
  text = '\n'.join(text for _, _, text in ended.failed) or ended.output
  raise BuildError(f'{fault.name}: {fault.test} says nothing of the fault, '
                   f'status {ended.status}:\n{text[-_LAST:]}')


def _is_of(node: str, test: str) -> bool:
  """Whether a node is a test, or one of its cases or of its module."""
  return node == test or node.startswith((f'{test}[', f'{test}::'))


def _end(one: _Running) -> None:
  with contextlib.suppress(ProcessLookupError):
    os.killpg(one.process.pid, signal.SIGKILL)
  one.process.kill()
  one.process.join()
