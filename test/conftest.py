"""Runs tests in processes with the environment that they ask for.

The XLA runtime, its device and its mode are fixed once per process. The tests
of a module that declares `ENVIRONMENT = {...}` are run by one child pytest with
those variables set. A test marked `environment(NAME='value', ...)` gets a child
of its own, with these variables in addition to its module's.

Children are forked from servers that have imported torch_xla (`fork_server`),
two at a time, or one beside the tests that need none, which come first. Their
reports are shown as this process's own. A child that dies or hangs fails the
tests that it did not report.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import sys
import tempfile
import threading
from typing import Any, Optional

import pytest

# Upstream's test/ is a package, so there pytest does not put it on the path.
sys.path.insert(0, os.path.dirname(__file__))

from budgets import Budgets
from cpu_seconds import CpuSeconds
from cpu_seconds import module_of
import fork_server
from fork_server import Place
import processes
import tiers

REPORTS_VARIABLE = 'SHARDY_TEST_REPORTS'
_CHILD_SECONDS = 1800
_CHILDREN_AT_A_TIME = 2
# All passed, or some failed and are reported.
_PYTESTS_STATUSES = (0, 1)
_KEY = pytest.StashKey['_Children']()
_CPU_KEY = pytest.StashKey[CpuSeconds]()


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption(
      '--cpu-seconds',
      metavar='FILE',
      help='where to write the CPU seconds of each module, as JSON')
  tiers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
  config.addinivalue_line(
      'markers', 'environment(**variables): runs in a process of its own, with '
      "these variables and its module's ENVIRONMENT")
  tiers.configure(config)
  path = os.environ.get(REPORTS_VARIABLE)
  if path:
    config.pluginmanager.register(_Reporter(config, path))
  else:
    counted = config.stash[_CPU_KEY] = CpuSeconds()
    children = config.stash[_KEY] = _Children(config)
    for plugin in (tiers, children, counted):
      config.pluginmanager.register(plugin)
    # By name, for `-p no:budgets`.
    config.pluginmanager.register(Budgets(config, counted), 'budgets')
    if config.getoption('--tier') == tiers.ALL:
      os.environ[fork_server.END_VARIABLE] = 'whole'


def pytest_unconfigure(config: pytest.Config) -> None:
  if _KEY in config.stash:
    config.stash[_KEY].close()
    processes.servers.close()
    if path := config.getoption('--cpu-seconds'):
      config.stash[_CPU_KEY].write(path)


class _Reporter:
  """The child's side: writes each report down."""

  def __init__(self, config: pytest.Config, path: str):
    self._config = config
    self._path = path

  def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
    data = self._config.hook.pytest_report_to_serializable(
        config=self._config, report=report)
    self._write(data)

  def pytest_sessionfinish(self) -> None:
    self._write({'cpu_seconds': processes.called_cpu_seconds()})

  def _write(self, data: dict[str, Any]) -> None:
    with open(self._path, 'a') as f:
      f.write(json.dumps(data) + '\n')


@dataclasses.dataclass(frozen=True)
class _Reports:
  """What a child reported.

  Attributes:
    by_node: reports by node id.
    end: how the child ended, for tests that it did not report.
  """
  by_node: dict[str, list[dict[str, Any]]]
  end: str


class _Children:
  """Runs the tests that need an environment, in the order of the session."""

  def __init__(self, config: pytest.Config):
    self._config = config
    self._pool = concurrent.futures.ThreadPoolExecutor(_CHILDREN_AT_A_TIME)
    # One core less, until this process has nothing to do but to wait.
    self._slots = threading.Semaphore(_CHILDREN_AT_A_TIME - 1)
    self._has_waited = False
    self._futures: Optional[dict[str, concurrent.futures.Future]] = None

  @pytest.hookimpl(trylast=True)
  def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
    """Puts what needs no child first: children run beside it."""
    items.sort(key=lambda item: _environment_of(item) is not None)

  def start(self, session: pytest.Session) -> None:
    """Starts the children, unless that was done."""
    if self._futures is not None:
      return
    self._futures = {}
    groups: dict[tuple, list[pytest.Item]] = {}
    for item in session.items:
      environment = _environment_of(item)
      if environment is not None:
        own = item.nodeid if item.get_closest_marker('environment') else ''
        key = (item.path, own, *sorted(environment.items()))
        groups.setdefault(key, []).append(item)
    # As it is now: by a child's turn a test may have changed it for itself.
    place = Place.here()
    for items in groups.values():
      environment = processes.clean_environment(**_environment_of(items[0]))
      future = self._pool.submit(self._run, [i.nodeid for i in items],
                                 environment, place)
      self._futures.update((i.nodeid, future) for i in items)

  def reports_of(self, item: pytest.Item) -> _Reports:
    """Waits for the child that runs `item`."""
    if not self._has_waited:
      self._has_waited = True
      self._slots.release()
    return self._futures[item.nodeid].result()

  def close(self) -> None:
    self._pool.shutdown(cancel_futures=True)

  def _run(self, nodes: list[str], environment: dict[str, str],
           place: Place) -> _Reports:
    with tempfile.TemporaryDirectory() as directory:
      path = os.path.join(directory, 'reports')
      job = functools.partial(
          processes.run_pytest, str(self._config.rootpath),
          [*_arguments(self._config), *nodes], {
              REPORTS_VARIABLE: path,
              fork_server.FOLDER_VARIABLE: processes.servers.folder()
          })
      try:
        with self._slots:
          ended = processes.servers.run(job, environment, _CHILD_SECONDS, place)
      except (RuntimeError, ValueError, OSError) as e:
        return _Reports({}, f'the test process could not be started: {e}')
      reports, of_its_children = _read(path)
      self._config.stash[_CPU_KEY].add(
          module_of(nodes[0]), ended.cpu_seconds + of_its_children)
      if ended.status not in _PYTESTS_STATUSES:
        # Whatever its tests said: what comes at its end is theirs, too.
        reports.get(nodes[-1], []).clear()
    status = (f'no end after {_CHILD_SECONDS} s'
              if ended.status is None else f'exit status {ended.status}')
    tail = (ended.stdout + ended.stderr).decode(errors='replace')[-6000:]
    return _Reports(reports,
                    f'the test process ended early ({status}):\n{tail}')


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


def _arguments(config: pytest.Config) -> list[str]:
  """The options of this session that hold for its children."""
  tier = config.getoption('--tier')
  return [f'--tier={tier}'] if tier else []


def _read(path: str) -> tuple[dict[str, list[dict[str, Any]]], float]:
  """The reports by node, and the CPU seconds of the children of the child."""
  reports: dict[str, list[dict[str, Any]]] = {}
  cpu_seconds = 0.
  with contextlib.suppress(FileNotFoundError), open(path) as f:
    for line in f:
      data = json.loads(line)
      if 'cpu_seconds' in data:
        cpu_seconds = data['cpu_seconds']
        continue
      # JSON has no tuples, and a skip's place is one.
      if isinstance(data['longrepr'], list):
        data['longrepr'] = tuple(data['longrepr'])
      reports.setdefault(data['nodeid'], []).append(data)
  return reports, cpu_seconds


def _failure(item: pytest.Item, text: str) -> pytest.TestReport:
  return pytest.TestReport(
      nodeid=item.nodeid,
      location=item.location,
      keywords={},
      outcome='failed',
      longrepr=text,
      when='call')


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem) -> Optional[bool]:
  """Replays the child's reports where a test asks for an environment."""
  if _KEY not in item.config.stash:
    return None
  item.config.stash[_KEY].start(item.session)
  if _environment_of(item) is None:
    return None
  hook = item.ihook
  hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
  reports = item.config.stash[_KEY].reports_of(item)
  of_item = reports.by_node.get(item.nodeid, [])
  for data in of_item:
    hook.pytest_runtest_logreport(
        report=hook.pytest_report_from_serializable(
            config=item.config, data=data))
  if not any(r['when'] == 'teardown' for r in of_item):
    hook.pytest_runtest_logreport(report=_failure(item, reports.end))
  hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
  # What the item before set up may be of no use to the next.
  item.session._setupstate.teardown_exact(nextitem)
  return True
