"""Runs tests in processes with the environment that they ask for.

The XLA runtime, its device and its mode are fixed once per process. The tests
of a module that declares `ENVIRONMENT = {...}` are run by one process with
those variables set. A test marked `environment(NAME='value', ...)` gets a
process of its own, with these variables in addition to its module's.

Children are forked from servers that have imported torch_xla (`fork_server`),
three at a time, as some wait, or two beside the tests that need none, which come
first. A child is a pytest that collects a module and forks a process for it, and
one for each test that has its own: what a module imports is seen by no other.
Their reports are shown as this process's own. A process that dies fails the test
that it was running, and another one runs those behind it; one that hangs fails
all that its child did not report.
"""

from __future__ import annotations

from collections.abc import Callable
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import tempfile
import threading
from typing import Any, Optional

import fork_server
from fork_server import Place
import processes
import pytest

_REPORTS_VARIABLE = 'SHARDY_TEST_REPORTS'
_CHILD_SECONDS = 1800
_CHILDREN_AT_A_TIME = 3
_PROCESSES_OF_A_CHILD = 8
# All passed, or some failed and are reported.
_PYTESTS_STATUSES = (0, 1)
# How the text of a test begins whose process did not come to its end.
DIED = 'the test process ended early'


def is_child() -> bool:
  """Whether this process runs tests for another one."""
  return _REPORTS_VARIABLE in os.environ


def configure(config: pytest.Config, options: list[str],
              count: Callable[[str, float], None]) -> None:
  """Has a session's tests run where they ask to be run.

  Args:
    options: those of this session that hold for its children.
    count: is told a test's node id and the CPU seconds of its child.
  """
  config.addinivalue_line(
      'markers', 'environment(**variables): runs in a process of its own, with '
      "these variables and its module's ENVIRONMENT")
  plugin = (
      _Reporter(config, os.environ[_REPORTS_VARIABLE])
      if is_child() else _Children(config, options, count))
  config.pluginmanager.register(plugin)


class _Reporter:
  """The child's side: writes each report down."""

  def __init__(self, config: pytest.Config, path: str):
    self._config = config
    self._path = path
    self._keys: dict[str, str] = {}

  def pytest_collection_finish(self, session: pytest.Session) -> None:
    self._keys = {item.nodeid: _key(item) for item in session.items}

  @pytest.hookimpl(tryfirst=True)
  def pytest_runtestloop(self, session: pytest.Session) -> Optional[bool]:
    """Forks a process for the module and for each test that has its own."""
    for items in _by_process(session.items):
      pid = os.fork()
      if not pid:
        session.items[:] = items
        return None  # It runs these, and ends as any child does.
      _, status, usage = os.wait4(pid, 0)
      self._write({
          'ran': [_key(item) for item in items],
          'status': os.waitstatus_to_exitcode(status),
          'cpu_seconds': usage.ru_utime + usage.ru_stime
      })
    return True

  def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
    data = self._config.hook.pytest_report_to_serializable(
        config=self._config, report=report)
    self._write(data | {'key': self._keys[report.nodeid]})

  def pytest_sessionfinish(self) -> None:
    self._write({'called': processes.called_cpu_seconds()})

  def _write(self, data: dict[str, Any]) -> None:
    with open(self._path, 'a') as f:
      f.write(json.dumps(data) + '\n')


@dataclasses.dataclass(frozen=True)
class _Ran:
  """A process that ran tests: their keys, its exit status, and its cost."""
  keys: list[str]
  status: int
  cpu_seconds: float


@dataclasses.dataclass
class _Reports:
  """What children reported.

  Attributes:
    by_key: reports by `_key`.
    ends: how the child ended, by the key of each test that it did not report to
      its end.
  """
  by_key: dict[str, list[dict[str, Any]]]
  ends: dict[str, str]


class _Children:
  """Runs the tests that need an environment, in the order of the session."""

  def __init__(self, config: pytest.Config, options: list[str],
               count: Callable[[str, float], None]):
    self._config = config
    # What a project's settings add to a session is not for its children.
    self._options = [
        f'--rootdir={config.rootpath}', '-c',
        str(config.inipath or
            os.devnull), '-o', 'addopts=', '-p', 'no:cacheprovider', '-p',
        'no:unraisableexception', '--continue-on-collection-errors', *options
    ]
    self._count = count
    self._pool = concurrent.futures.ThreadPoolExecutor(_CHILDREN_AT_A_TIME)
    # One core less, until this process has nothing to do but to wait.
    self._slots = threading.Semaphore(_CHILDREN_AT_A_TIME - 1)
    self._has_waited = False
    self._futures: Optional[dict[str, concurrent.futures.Future]] = None

  @pytest.hookimpl(trylast=True)
  def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
    """Puts what needs no child first: children run beside it."""
    items.sort(key=lambda item: _environment_of(item) is not None)

  @pytest.hookimpl(tryfirst=True)
  def pytest_runtest_protocol(self, item: pytest.Item,
                              nextitem) -> Optional[bool]:
    """Replays the child's reports where a test asks for an environment."""
    self._start(item.session)
    if _environment_of(item) is None:
      return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = self._reports_of(item)
    for data in reports.by_key.get(_key(item), []):
      hook.pytest_runtest_logreport(
          report=hook.pytest_report_from_serializable(
              config=item.config, data=data | {'nodeid': item.nodeid}))
    if end := reports.ends.get(_key(item)):
      hook.pytest_runtest_logreport(report=_failure(item, end))
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # What the item before set up may be of no use to the next.
    item.session._setupstate.teardown_exact(nextitem)
    return True

  def pytest_unconfigure(self) -> None:
    self._pool.shutdown(cancel_futures=True)
    processes.servers.close()

  def _start(self, session: pytest.Session) -> None:
    """Starts the children, unless that was done."""
    if self._futures is not None:
      return
    self._futures = {}
    groups: dict[tuple, list[pytest.Item]] = {}
    for item in session.items:
      environment = _environment_of(item)
      if environment is not None:
        key = (item.path, *sorted(environment.items()))
        groups.setdefault(key, []).append(item)
    # As it is now: by a child's turn a test may have changed it for itself.
    place = Place.here()
    for group in groups.values():
      environment = processes.clean_environment(**_environment_of(group[0]))
      ran = _by_process(group)
      while ran:
        batch = list(itertools.chain(*ran[:_PROCESSES_OF_A_CHILD]))
        ran = ran[_PROCESSES_OF_A_CHILD:]
        nodes = {_key(item): item.nodeid for item in batch}
        future = self._pool.submit(self._run_all, nodes, environment, place)
        self._futures.update((i.nodeid, future) for i in batch)

  def _reports_of(self, item: pytest.Item) -> _Reports:
    """Waits for the child that runs `item`."""
    if not self._has_waited:
      self._has_waited = True
      self._slots.release()
    return self._futures[item.nodeid].result()

  def _run_all(self, nodes: dict[str, str], environment: dict[str, str],
               place: Place) -> _Reports:
    """Runs tests by one child, or by more where a process dies.

    Args:
      nodes: the tests' node ids by key.
    """
    told = _Reports({}, {})
    keys = list(nodes)
    while keys:
      reports, ended, end, tail = self._run(keys, environment, place)
      again: list[str] = []
      for ran in ended:
        self._count(nodes[ran.keys[0]], ran.cpu_seconds)
        keys = [key for key in keys if key not in ran.keys]
        died = ran.status not in _PYTESTS_STATUSES
        if died:
          # Whatever its tests said: what comes at its end is theirs, too.
          reports.get(ran.keys[-1], []).clear()
        left = _not_ended(ran.keys, reports)
        told.ends |= dict.fromkeys(left[:1] if died else left,
                                   f'{DIED} (exit status {ran.status}):{tail}')
        again += left[1:] if died else []
      told.by_key |= reports
      told.ends |= dict.fromkeys(_not_ended(keys, reports), end + tail)
      keys = again
    return told

  def _run(
      self, keys: list[str], environment: dict[str, str], place: Place
  ) -> tuple[dict[str, list[dict[str, Any]]], list[_Ran], str, str]:
    """Runs tests by one child.

    Returns:
      Reports by key; the processes that ended; how the child ended, for the
      tests of others; and the last that it printed.
    """
    with tempfile.TemporaryDirectory() as directory:
      path = os.path.join(directory, 'reports')
      job = functools.partial(
          processes.run_pytest, str(self._config.rootpath),
          [*self._options, *keys], {
              _REPORTS_VARIABLE: path,
              fork_server.FOLDER_VARIABLE: processes.servers.folder()
          })
      try:
        with self._slots:
          ended = processes.servers.run(job, environment, _CHILD_SECONDS, place)
      except (RuntimeError, ValueError, OSError) as e:
        return {}, [], 'the test process could not be started: ', str(e)
      reports, ran = _read(path)
    status = (f'no end after {_CHILD_SECONDS} s'
              if ended.status is None else f'exit status {ended.status}')
    tail = (ended.stdout + ended.stderr).decode(errors='replace')[-6000:]
    return reports, ran, f'{DIED} ({status}):', '\n' + tail


def _by_process(items: list[pytest.Item]) -> list[list[pytest.Item]]:
  """Tests of one environment, in the processes that run them."""
  groups: dict[tuple, list[pytest.Item]] = {}
  for item in items:
    own = item.nodeid if item.get_closest_marker('environment') else ''
    groups.setdefault((item.path, own), []).append(item)
  return list(groups.values())


def _not_ended(keys: list[str],
               reports: dict[str, list[dict[str, Any]]]) -> list[str]:
  return [
      key for key in keys
      if not any(r['when'] == 'teardown' for r in reports.get(key, []))
  ]


def _key(item: pytest.Item) -> str:
  """What finds a test in any process; its node id depends on the arguments."""
  return '::'.join([str(item.path), *item.nodeid.split('::')[1:]])


def _environment_of(item: pytest.Item) -> Optional[dict[str, str]]:
  """The variables that a test asks for; None if it asks for none."""
  of_module = getattr(getattr(item, 'module', None), 'ENVIRONMENT', None)
  marks = list(item.iter_markers('environment'))
  if of_module is None and not marks:
    return None
  variables = dict(of_module or {})
  for mark in reversed(marks):  # The closest one counts.
    variables.update(mark.kwargs)
  return variables


def _read(path: str) -> tuple[dict[str, list[dict[str, Any]]], list[_Ran]]:
  """The reports by key, and the processes, with what their children cost."""
  reports: dict[str, list[dict[str, Any]]] = {}
  ended: list[_Ran] = []
  called = 0.
  with contextlib.suppress(FileNotFoundError), open(path) as f:
    for line in f:
      data = json.loads(line)
      if 'called' in data:
        called = data['called']
        continue
      if 'status' in data:
        ended.append(
            _Ran(data['ran'], data['status'], data['cpu_seconds'] + called))
        called = 0.
        continue
      # JSON has no tuples, and a skip's place is one.
      if isinstance(data['longrepr'], list):
        data['longrepr'] = tuple(data['longrepr'])
      reports.setdefault(data.pop('key'), []).append(data)
  return reports, ended


def _failure(item: pytest.Item, text: str) -> pytest.TestReport:
  return pytest.TestReport(
      nodeid=item.nodeid,
      location=item.location,
      keywords={},
      outcome='failed',
      longrepr=text,
      when='call')
