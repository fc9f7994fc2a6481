"""What happened to each test, written down in the process that runs them.

A plugin of pytest in the target's Python; it imports nothing of this project.

  AGAINST_RESULTS  gets a line of JSON for each test
  AGAINST_ABSENT   folders whose feature the torch_xla does not have: their
                   tests are counted and not run
"""

import json
import os
import re

import pytest

_REASON_LINES = 3
# How test/conftest.py begins what it says of a test whose process died.
_DIED = 'the test process ended early'
# What XLA and C++ say last, somewhere above the stack.
_FATAL = re.compile(r'.*(?:Check failed|terminate called|what\(\):|^F\d{4}).*',
                    re.MULTILINE)


def _write(**said):
  with open(os.environ['AGAINST_RESULTS'], 'a', encoding='utf-8') as file:
    file.write(json.dumps(said) + '\n')


# After -k and -m have chosen.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
  absent = tuple(filter(None, os.environ['AGAINST_ABSENT'].split(',')))
  left_out = [i for i in items if absent and i.nodeid.startswith(absent)]
  for item in left_out:
    _write(node=item.nodeid, outcome='absent')
  items[:] = [i for i in items if i not in left_out]
  config.hook.pytest_deselected(items=left_out)


def pytest_collectreport(report):
  if report.failed:
    _write(
        node=report.nodeid,
        outcome='failed',
        reason=_reason(f'it cannot be imported: {_last(report.longreprtext)}'))


def pytest_runtest_logreport(report):
  if report.failed:
    died = report.longreprtext.startswith(_DIED)
    _write(
        node=report.nodeid,
        outcome='died' if died else 'failed',
        reason=_of_death(report) if died else _of(report))
  elif report.skipped:
    _write(node=report.nodeid, outcome='skipped', reason=_of_skip(report))
  elif report.when == 'call':
    _write(node=report.nodeid, outcome='passed')


def _of(report):
  crash = getattr(report.longrepr, 'reprcrash', None)
  return _reason(crash.message if crash else _last(report.longreprtext))


def _of_death(report):
  text = report.longreprtext
  return _reason('\n'.join([text.splitlines()[0], *_FATAL.findall(text)[:1]]))


def _of_skip(report):
  if isinstance(report.longrepr, tuple):
    return report.longrepr[2]
  return _of(report)


def _last(text):
  lines = text.strip().splitlines()
  return lines[-1] if lines else ''


def _reason(text):
  return '\n'.join(text.strip().splitlines()[:_REASON_LINES])
