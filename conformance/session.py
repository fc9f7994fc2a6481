"""A run of the suite: the capabilities first, then the cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import time
from typing import Any, Optional

from . import capabilities, expected_failures, suite, torch_modules
from .case import Case
from .result import NO_DEVICE, printable, ConformanceReport, Result, Status
from .running.run import Runner, Servers
from .subject import Subject


def judge(subject: Subject,
          chosen: Sequence[suite.Chosen],
          servers: Servers,
          jobs: int,
          timeout: Optional[float],
          say: Callable[[str], None],
          lines: Sequence[expected_failures.Line] = (),
          path: str = '') -> ConformanceReport:
  """Runs cases on a plugin.

  Args:
    servers: of the processes; an interrupt closes them.
    jobs: cases at a time.
    timeout: seconds of each part; None: as its case says.
    say: is told about progress, line by line.
    lines: of what is expected to fail.
    path: of the file that has them, for people.

  Raises:
    ConformanceError: see `Runner.run`.
  """
  start = time.monotonic()
  runner = Runner(subject, servers, timeout)
  facts: dict[str, Any] = {}
  results: list[Result] = []
  interrupted = False
  try:
    say('measuring what the plugin can do')
    case = capabilities.CASE
    # A process that takes the place of another gets what was found till then.
    for result in runner.run(case, case.parts, facts):
      if result.status is Status.PASSED:
        facts.update(_printable(json.loads(result.text)))
        result = dataclasses.replace(result, text='')
      results.append(result)
    runnable, skipped = _split(chosen, facts, results)
    results += skipped
    before, total = len(results), sum(len(parts) for _, parts in runnable)

    def on_case(case: Case) -> None:
      say(f'{len(results) - before} of {total} done; {case.name}')

    def on_result(result: Result) -> None:
      results.append(result)
      if result.status.is_finding:
        say(f'{result.status.value}: {result.name}: {result.text[:300]}')

    runner.run_all(runnable, facts, jobs, on_case, on_result)
  except KeyboardInterrupt:
    interrupted = True
    servers.close()
  order = {case.name: i for i, case in enumerate(suite.with_capabilities())}
  judged = expected_failures.judge(results, lines, suite.names, path)
  return ConformanceReport(
      subject=_title(subject, facts),
      capabilities=facts,
      # As the suite has its cases; parts stay in order.
      results=tuple(sorted(judged, key=lambda result: order[result.case])),
      means={case.name: case.means for case in suite.with_capabilities()},
      interrupted=interrupted,
      seconds=time.monotonic() - start,
      nightly=suite.nightly())


def _printable(value: Any) -> Any:
  """A value of JSON whose texts can be shown."""
  if isinstance(value, str):
    return printable(value)
  if isinstance(value, list):
    return [_printable(each) for each in value]
  if isinstance(value, dict):
    return {_printable(name): _printable(each) for name, each in value.items()}
  return value


def _split(
    chosen: Sequence[suite.Chosen], facts: Mapping[str, Any],
    measured: Sequence[Result]) -> tuple[list[suite.Chosen], list[Result]]:
  """The cases that can be run, and results of those that lack something."""
  runnable, skipped = [], []
  for case, parts in chosen:
    reason = _obstacle(case, facts, measured)
    if not reason:
      runnable.append((case, parts))
    skipped += [
        Result(case.name, part, Status.SKIPPED, reason, 0.)
        for part in parts
        if reason
    ]
  return runnable, skipped


def _obstacle(case: Case, facts: Mapping[str, Any],
              measured: Sequence[Result]) -> str:
  """Why a case cannot be run; empty if it can."""
  if lacking := torch_modules.missing(case.needs):
    return lacking
  failed = {
      result.part: result.text
      for result in measured
      if result.status.is_finding
  }
  if 'functions' not in facts:
    if 'start_error' in facts:
      return NO_DEVICE + facts['start_error']
    return f'the plugin could not be looked at: {failed.get("table")}'
  count = len(facts.get('devices', ()))
  if case.devices > count:
    if count:
      return f'it needs {case.devices} devices, and there are {count}'
    if 'devices' in failed:
      return f'the plugin starts no client: {failed["devices"]}'
    return NO_DEVICE + facts.get('start_error', 'it lists none')
  if case.devices and case.compiles and not facts.get('format'):
    words = failed.get('hlo') or facts.get('hlo')
    return f'the plugin compiles no program: {words}'
  return ''


def _title(subject: Subject, facts: Mapping[str, Any]) -> str:
  """The plugin, without the folder that it lies in."""
  library = str(facts.get('library') or subject.library)
  name = library.rsplit('/', 1)[-1]
  if not subject.library:
    name = f'{subject.device} ({name})' if name else subject.device
  options = ' '.join(f'{k}={v}' for k, v in subject.options.items())
  return ' '.join(part for part in (name, options) if part)
