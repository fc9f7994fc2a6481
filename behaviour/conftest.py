"""Runs the tests in an environment that has some torch_xla, and judges it.

Loaded by pytest wherever these tests are run, by the command or by
`pytest --pyargs torch_xla_behaviour`; also in the children that run them.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Generator, Mapping
import json
import os
from pathlib import Path
import re
import sys
import textwrap

import pytest
from torch_xla_behaviour import features, lines
from torch_xla_behaviour.suites import name_of, Suite, suite_of, SUITES, TESTS

# pytest has put the folder that this package lies in before all others, and with
# it, maybe, another torch_xla than the one that is to be judged.
if sys.path[0] == str(TESTS.parents[1]) in sys.path[1:]:
  del sys.path[0]
sys.path.insert(0, str(TESTS))

import children
import kinds

# The series whose tests cannot be run, for the children.
_MISSING = 'TORCH_XLA_BEHAVIOUR_MISSING'
# The verb of a verdict by the kind of a failure.
_VERBS = {'lacks': 'lacks', 'differs': 'differs in', 'wrong': 'is wrong in'}
_EXPECTED = 'expected'
# What XLA and C++ say last, somewhere above the stack.
_FATAL = re.compile(r'.*(?:Check failed|terminate called|what\(\):|^F\d{4}).*',
                    re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
  group = parser.getgroup('behaviour')
  group.addoption(
      '--shard',
      metavar='I/N',
      type=lines.shard,
      help='run the I-th of N parts of the tests; which part a test is in '
      'depends on its name alone')
  # As torch-xla-conformance has it, and pytest as --junitxml.
  group.addoption('--junit', metavar='FILE', dest='xmlpath', type=_writable)
  group.addoption(
      '--expected-failures',
      metavar='FILE',
      type=_expected,
      help='of lines "PATTERN REASON"; what no longer fails is a finding')


def pytest_configure(config: pytest.Config) -> None:
  for mark in 'slow', 'nightly':
    config.addinivalue_line('markers', f'{mark}: takes long')
  children.configure(config, [], lambda node, seconds: None)
  if children.is_child():
    config.pluginmanager.register(_Setup(json.loads(os.environ[_MISSING])))
    return
  try:
    probed = features.probe()
  except features.BehaviourError as error:
    pytest.exit(f'error: {error}', returncode=4)
  patch = pytest.MonkeyPatch()
  config.add_cleanup(patch.undo)
  patch.setenv(_MISSING, json.dumps(probed.missing))
  config.pluginmanager.register(_Judge(config, probed))


class _Setup:
  """Fails each test of what is missing at once."""

  def __init__(self, missing: Mapping[str, str]):
    self._missing = missing

  @pytest.hookimpl(tryfirst=True)
  def pytest_runtest_setup(self, item: pytest.Item) -> None:
    suite = suite_of(name_of(item.path, item.nodeid))
    if suite.series in self._missing:
      item.user_properties.append(('kind', kinds.LACKS))
      pytest.fail(self._missing[suite.series], pytrace=False)


class _Judge(_Setup):
  """The session's side: chooses tests, and judges by their outcomes."""

  def __init__(self, config: pytest.Config, probed: features.ProbeResult):
    super().__init__(probed.missing)
    self._probed = probed
    self._shard = config.getoption('shard', None) or (1, 1)
    self._expected = config.getoption('expected_failures', None) or {}
    self._names: dict[str, str] = {}
    # The kind of a failure and its text, or two empty ones, by name.
    self._outcomes: dict[str, tuple[str, str]] = {}

  # Around -k and -m, which choose.
  @pytest.hookimpl(wrapper=True, tryfirst=True)
  def pytest_collection_modifyitems(
      self, config: pytest.Config,
      items: list[pytest.Item]) -> Generator[None, None, None]:
    self._names = {i.nodeid: name_of(i.path, i.nodeid) for i in items}
    yield
    left = [
        item for item in items
        if not lines.is_in_shard(self._names[item.nodeid], self._shard)
    ]
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)

  def pytest_exception_interact(self, node: pytest.Item | pytest.Collector,
                                call: pytest.CallInfo) -> None:
    """A file that cannot be imported is one test that fails."""
    if isinstance(node, pytest.Item):
      return
    error = call.excinfo.value.__cause__ or call.excinfo.value
    trace = error.__traceback__
    while trace.tb_next:
      trace = trace.tb_next
    kind = kinds.of(error, Path(trace.tb_frame.f_code.co_filename))
    self._outcomes[name_of(
        node.path, node.nodeid)] = kind, f'it cannot be imported: {error}'

  @pytest.hookimpl(tryfirst=True)
  def pytest_report_teststatus(
      self, report: pytest.TestReport) -> tuple[str, str, str] | None:
    """No letter in the progress for a test of what is missing."""
    name = self._names.get(report.nodeid)
    if name and report.failed and suite_of(name).series in self._missing:
      return 'error', '', 'LACKS'
    return None

  # Before the session counts its failures.
  @pytest.hookimpl(tryfirst=True)
  def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
    name = self._names[report.nodeid]
    pattern = next((p for p in self._expected if lines.matches(p, name)), '')
    if report.failed and pattern:
      report.outcome, report.wasxfail = 'skipped', self._expected[pattern]
      self._outcomes[name] = _EXPECTED, pattern
    elif report.failed:
      kind = dict(report.user_properties).get('kind', kinds.WRONG)
      self._outcomes[name] = kind, _reason(report)
    elif report.passed and report.when == 'call':
      self._outcomes.setdefault(name, ('', ''))

  def _stale(self) -> list[str]:
    """The expectations that ran whole and of which nothing failed."""
    held = {name for name, (kind, _) in self._outcomes.items() if not kind}
    return [
        pattern for pattern in self._expected
        if {n for n in self._names.values()
            if lines.matches(pattern, n)} <= held
    ]

  def pytest_sessionfinish(self, session: pytest.Session,
                           exitstatus: int) -> None:
    if exitstatus == 0 and self._stale():
      session.exitstatus = 1

  def pytest_terminal_summary(
      self, terminalreporter: pytest.TerminalReporter) -> None:
    say, facts = terminalreporter.line, self._probed.facts
    say(f'torch_xla {facts["version"]}, form {facts["form"]}; torch '
        f'{facts["torch"]}, Python {facts["python"]}\n  {facts["file"]}\n  '
        f'{facts["extension"]}')
    clauses = []
    for suite in SUITES:
      is_present, how = self._probed.features[suite.series]
      say(f'\n{suite.series}\n  {"found" if is_present else "not found"}: {how}'
         )
      by_reason: dict[tuple[str, str], list[str]] = {}
      for name, outcome in self._outcomes_in(suite).items():
        if outcome[0] in _VERBS:
          by_reason.setdefault(outcome, []).append(name)
      for (kind, reason), names in by_reason.items():
        # A feature that is not there is told once, not by each of its tests.
        if suite.series in self._missing:
          names = [f'{len(names)} tests of {suite.called}']
        for name in names:
          say(f'  {kind.upper()} {name}')
        say(textwrap.indent(reason, '    '))
      clauses.append(self._clause(suite))
    for pattern in self._stale():
      say(f'STALE {pattern}: nothing that it names fails; take the line out')
    say(f'\nverdict: {"; ".join(clauses)}')

  def _outcomes_in(self, suite: Suite) -> dict[str, tuple[str, str]]:
    return {n: o for n, o in self._outcomes.items() if suite_of(n) is suite}

  def _clause(self, suite: Suite) -> str:
    """What the outcomes of a suite say of the torch_xla."""
    count = collections.Counter(
        kind for kind, _ in self._outcomes_in(suite).values())
    ran, known = count.total(), count[_EXPECTED]
    if not ran:
      return f'no test of {suite.called} was run'
    if count['lacks'] == ran:
      return f'yours lacks {suite.called}'
    parts = [f'{_VERBS[kind]} {count[kind]}' for kind in _VERBS if count[kind]]
    but = f' but for {known} expected' if known else ''
    if parts:
      return f'{suite.called}: yours {", ".join(parts)} of {ran}{but}'
    return f'{suite.called}: all {ran} hold{but}'


def _writable(path: str) -> str:
  """The path of a report, which is tried before the tests are run."""
  try:
    with open(path, 'a', encoding='utf-8'):
      return path
  except OSError as error:
    raise argparse.ArgumentTypeError(
        f'{path} cannot be written: {error.strerror}') from error


def _expected(path: str) -> dict[str, str]:
  """The reasons of a file of expected failures, by pattern."""
  try:
    return {pattern: reason for _, pattern, reason in lines.read_expected(path)}
  except ValueError as error:
    raise argparse.ArgumentTypeError(str(error)) from error


def _reason(report: pytest.TestReport) -> str:
  """The first lines of a failure's text, without names that say nothing."""
  text = report.longreprtext
  crash = getattr(report.longrepr, 'reprcrash', None)
  if text.startswith(children.DIED):
    text = '\n'.join([text.splitlines()[0], *_FATAL.findall(text)[:1]])
  elif crash:
    text = crash.message
  else:
    text = text.strip().rpartition('\n')[2]
  text = re.sub(r'^(kinds\.WrongError|Failed): ', '', text.strip())
  shown = [line for line in text.splitlines() if line.strip()]
  return '\n'.join(
      textwrap.shorten(line, 160, placeholder='...') for line in shown[:4])
