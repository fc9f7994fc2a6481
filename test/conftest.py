"""Runs each test module that asks for it in a process of its own.

The XLA runtime, its device and its mode are fixed once per process. A module
that declares `ENVIRONMENT = {...}` is run by a child pytest with those
variables set, once, and the child's reports are shown as this process's own.
A child that dies or hangs fails the tests that it did not report.
"""

import json
import os
import subprocess
import sys
import tempfile
from typing import Dict, List

import pytest
from processes import clean_environment

_REPORTS_VARIABLE = 'SHARDY_TEST_REPORTS'
_CHILD_SECONDS = 300
_reports: Dict[str, Dict[str, List[dict]]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
  path = os.environ.get(_REPORTS_VARIABLE)
  if path:
    data = _config.hook.pytest_report_to_serializable(
        config=_config, report=report)
    with open(path, 'a') as f:
      f.write(json.dumps(data) + '\n')


def pytest_configure(config: pytest.Config) -> None:
  global _config
  _config = config


def _failure(item: pytest.Item, text: str) -> pytest.TestReport:
  return pytest.TestReport(
      nodeid=item.nodeid,
      location=item.location,
      keywords={},
      outcome='failed',
      longrepr=text,
      when='call')


def _run_child(item: pytest.Item) -> Dict[str, List[dict]]:
  """Runs the selected tests of item's module; reports by node id.

  What the child printed stands under the empty node id.
  """
  nodes = [i.nodeid for i in item.session.items if i.path == item.path]
  with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, 'reports')
    environment = clean_environment(**item.module.ENVIRONMENT,
                                    **{_REPORTS_VARIABLE: path})
    command = [sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', *nodes]
    try:
      child = subprocess.run(
          command,
          cwd=item.config.rootpath,
          env=environment,
          stdin=subprocess.DEVNULL,
          stdout=subprocess.PIPE,
          stderr=subprocess.STDOUT,
          timeout=_CHILD_SECONDS,
          check=False)
      output, status = child.stdout, f'exit status {child.returncode}'
    except subprocess.TimeoutExpired as e:
      output, status = e.stdout or b'', f'no end after {_CHILD_SECONDS} s'
    reports: Dict[str, List[dict]] = {}
    if os.path.exists(path):
      with open(path) as f:
        for line in f:
          data = json.loads(line)
          # JSON has no tuples, and a skip's place is one.
          if isinstance(data['longrepr'], list):
            data['longrepr'] = tuple(data['longrepr'])
          reports.setdefault(data['nodeid'], []).append(data)
  tail = output.decode(errors='replace')[-6000:]
  reports[''] = [{'text': f'the test process ended early ({status}):\n{tail}'}]
  return reports


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem) -> bool:
  """Replays the child's reports where item's module has an ENVIRONMENT."""
  module = getattr(item, 'module', None)
  if os.environ.get(_REPORTS_VARIABLE) or not hasattr(module, 'ENVIRONMENT'):
    return None
  hook = item.ihook
  hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
  if str(item.path) not in _reports:
    _reports[str(item.path)] = _run_child(item)
  reports = _reports[str(item.path)]
  for data in reports.get(item.nodeid, []):
    hook.pytest_runtest_logreport(
        report=hook.pytest_report_from_serializable(
            config=item.config, data=data))
  if not any(r['when'] == 'teardown' for r in reports.get(item.nodeid, [])):
    hook.pytest_runtest_logreport(report=_failure(item, reports[''][0]['text']))
  hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
  # What the item before set up may be of no use to the next.
  item.session._setupstate.teardown_exact(nextitem)
  return True
