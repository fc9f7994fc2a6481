"""Runs the tests in an environment that has some torch_xla.

Loaded by pytest wherever these tests are run, by the command or by
`pytest --pyargs torch_xla_behaviour`; also in the children that run them.
"""

from __future__ import annotations

from pathlib import Path
import re
import sys
import tempfile
import textwrap

import pytest
from torch_xla_behaviour import judge
from torch_xla_behaviour.run import Asked, Outcome, Run
from torch_xla_behaviour.shared.result import Result, Status
from torch_xla_behaviour.suites import name_of, suite_of, TESTS

# pytest has put the folder that this package lies in before all others, and with
# it, maybe, another torch_xla than the one that is to be judged.
if sys.path[0] == str(TESTS.parents[1]) in sys.path[1:]:
  del sys.path[0]
sys.path.insert(0, str(TESTS))

import children
import kinds

_REASON_LINES, _REASON_WIDTH = 4, 160
# What XLA and C++ say last, somewhere above the stack.
_FATAL = re.compile(r'.*(?:Check failed|terminate called|what\(\):|^F\d{4}).*',
                    re.MULTILINE)


def pytest_configure(config: pytest.Config) -> None:
  for mark in 'slow', 'nightly':
    config.addinivalue_line('markers', f'{mark}: takes long')
  children.configure(config, [], lambda node, seconds: None)
  run = Run.current()
  if run is None:
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    run = Run(Path(folder.name))
    probe_result = judge.probe(run.folder)
    run.ask(Asked(judge.missing(probe_result.features)))
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name, text in run.variables.items():
      patch.setenv(name, text)
  config.pluginmanager.register(
      _Setup(run.asked()) if children.is_child() else _Session(run))


class _Setup:
  """The side of who runs the tests: those of what is missing fail at once."""

  def __init__(self, asked: Asked):
    self._missing = asked.missing

  @pytest.hookimpl(tryfirst=True)
  def pytest_runtest_setup(self, item: pytest.Item) -> None:
    suite = suite_of(name_of(item.path, item.nodeid))
    if suite.series in self._missing:
      kind, reason = self._missing[suite.series]
      item.user_properties.append(('kind', kind))
      pytest.fail(reason, pytrace=False)


class _Session(_Setup):
  """The side of the session: chooses tests, and writes down their outcomes."""

  def __init__(self, run: Run):
    self._run, self._asked = run, run.asked()
    self._names: dict[str, str] = {}
    super().__init__(self._asked)

  # After -k and -m have chosen.
  @pytest.hookimpl(trylast=True)
  def pytest_collection_modifyitems(self, config: pytest.Config,
                                    items: list[pytest.Item]) -> None:
    names = self._names = {i.nodeid: name_of(i.path, i.nodeid) for i in items}
    self._run.write_names(list(names.values()))
    chosen = [item for item in items if self._asked.runs(names[item.nodeid])]
    left = [item for item in items if not self._asked.runs(names[item.nodeid])]
    items[:] = chosen
    config.hook.pytest_deselected(items=left)

  def pytest_exception_interact(self, node: pytest.Item | pytest.Collector,
                                call: pytest.CallInfo,
                                report: pytest.CollectReport) -> None:
    """A file that cannot be imported is one test that fails."""
    if isinstance(node, pytest.Item):
      return
    name = name_of(node.path, node.nodeid)
    error = call.excinfo.value.__cause__ or call.excinfo.value
    trace = error.__traceback__
    while trace.tb_next:
      trace = trace.tb_next
    kind = kinds.of(error, Path(trace.tb_frame.f_code.co_filename))
    text = _reason(f'it cannot be imported: {error}')
    if self._asked.runs(name):
      self._run.write(Outcome(Result(name, '', Status.FAILED, text, 0.), kind))

  def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
    name = self._names[report.nodeid]
    seconds = getattr(report, 'duration', 0.)
    kind = ''
    if report.failed:
      text = report.longreprtext
      if text.startswith(children.DIED):
        status = Status.CRASHED if '(exit status' in text else Status.HUNG
        text = '\n'.join([text.splitlines()[0], *_FATAL.findall(text)[:1]])
      else:
        status, text = Status.FAILED, _failure_text(report)
      kind = dict(report.user_properties).get('kind', kinds.WRONG)
      text = _reason(text)
    elif report.skipped:
      status, text = Status.SKIPPED, _skip_text(report)
    elif report.when == 'call':
      status, text = Status.PASSED, ''
    else:
      return
    self._run.write(Outcome(Result(name, '', status, text, seconds), kind))


def _failure_text(report: pytest.TestReport) -> str:
  crash = getattr(report.longrepr, 'reprcrash', None)
  if crash:
    return crash.message
  lines = report.longreprtext.strip().splitlines()
  return lines[-1] if lines else ''


def _skip_text(report: pytest.TestReport) -> str:
  if isinstance(report.longrepr, tuple):
    return report.longrepr[2].removeprefix('Skipped: ')
  return _failure_text(report)


def _reason(text: str) -> str:
  """The first lines, without the names of exceptions that say nothing more."""
  text = re.sub(r'^(kinds\.WrongError|Failed): ', '', text.strip())
  lines = [line.rstrip() for line in text.splitlines() if line.strip()]
  return '\n'.join(
      textwrap.shorten(line, _REASON_WIDTH, placeholder='...')
      for line in lines[:_REASON_LINES])
