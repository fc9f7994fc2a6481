"""A report in each of its forms."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import browsing
from printed import assert_printed
import pytest
from torch_xla_conformance.reporting import (json_form, junit, page, table)
from torch_xla_conformance.result import (printable, ConformanceReport, Result,
                                          Status, Verdict)

_CAPABILITIES = {
    'library': 'libacme.so',
    'devices': list(range(16)),
    'hlo': True,
    'mlir': 'UNIMPLEMENTED: no <mlir>',
    'memory_statistics': False,
    'attributes': {
        'stablehlo_current_version': [1, 13, 3]
    },
}
_RESULTS = (
    Result('start.version', '', Status.PASSED, 'PJRT API 0.81', .04),
    Result('transfers.types', 'F32', Status.PASSED, '7 shapes', 1.),
    Result('transfers.types', 'F64', Status.SKIPPED, 'no F64', 0.),
    Result('donation.real', 'taken', Status.FAILED,
           'the argument <lives> on\x1b', 2.),
    Result('threads.together', '', Status.CRASHED, 'ended by SIGSEGV', 3.),
    Result('endurance.steps', '', Status.HUNG, 'no end after 9 s', 9.),
    Result('ahead.compile', 'v1', Status.EXPECTED, 'known (failed: x)', .1),
    Result('ahead.compile', 'ahead.*', Status.STALE, 'f:1: take it out', 0.),
)


def of(*results: Result,
       interrupted: bool = False,
       **capabilities) -> ConformanceReport:
  return ConformanceReport('libacme.so devices=16', {
      **_CAPABILITIES,
      **capabilities
  }, results, {result.case: f'{result.case} is wrong' for result in results},
                           interrupted, 15.25)


def with_all() -> ConformanceReport:
  """One with results of each status."""
  return of(*_RESULTS)


def with_issues() -> ConformanceReport:
  """One of failures that are expected, most of them by an issue."""
  issues = ('acme#17', 'https://acme.example/21', 'acme#17', '')
  return of(
      *_RESULTS[:1],
      *(Result('ahead.compile', str(n), Status.EXPECTED, 'known (failed: x)',
               .1, issue) for n, issue in enumerate(issues)))


def right() -> ConformanceReport:
  return of(*_RESULTS[:3])


def without_device() -> ConformanceReport:
  return of(
      Result('donation.real', 'taken', Status.SKIPPED, 'no device: none', 0.),
      devices=[],
      start_error='NOT_FOUND: none')


def test_table() -> None:
  assert_printed(
      table.text(with_all()).replace('\x1b', '<ESC>'), '''\
libacme.so devices=16

  library: libacme.so
  devices: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 4 more
  hlo: yes
  mlir: UNIMPLEMENTED: no <mlir>
  memory statistics: no
  attributes: stablehlo_current_version 1, 13, 3

  start.version                1 passed: PJRT API 0.81                     0.0 s
  transfers.types              1 passed, 1 skipped                         1.0 s
! donation.real                1 failed                                    2.0 s
! threads.together             1 crashed                                   3.0 s
! endurance.steps              1 hung                                      9.0 s
! ahead.compile                1 expected, 1 stale                         0.1 s

FAILED donation.real/taken
  for a user: donation.real is wrong
  the argument <lives> on<ESC>

CRASHED threads.together
  for a user: threads.together is wrong
  ended by SIGSEGV

HUNG endurance.steps
  for a user: endurance.steps is wrong
  no end after 9 s

STALE ahead.*
  f:1: take it out

4 finding(s) (2 passed, 1 failed, 1 crashed, 1 hung, 1 skipped, 1 expected, 1
    stale)''')


def test_table_without_a_device() -> None:
  told = table.text(without_device())
  assert told.endswith('''
  1 case(s) were not run: no device: none

no device: NOT_FOUND: none (1 skipped)''')


@pytest.mark.parametrize('report, verdict',
                         [(with_all(), Verdict.FINDINGS),
                          (right(), Verdict.CONFORMS),
                          (without_device(), Verdict.NO_DEVICE),
                          (of(interrupted=True), Verdict.INTERRUPTED)])
def test_verdicts(report: ConformanceReport, verdict: Verdict) -> None:
  assert report.verdict is verdict
  assert json.loads(json_form.text(report))['verdict'] == verdict.name.lower()


def test_what_is_skipped_alone_is_not_judged() -> None:
  measured = Result('capabilities', 'mlir', Status.PASSED, '', .1)
  skipped = Result('ahead.compile', 'v1', Status.SKIPPED, 'no topology', 0.)
  assert of(measured, skipped).verdict is Verdict.NOTHING
  assert of(measured).verdict is Verdict.NOTHING


def test_cases_that_were_not_run_are_not_praised() -> None:
  passed = Result('start.version', '', Status.PASSED, '', .1)
  skipped = Result('training.steps', '', Status.SKIPPED, 'no torch', 0.)
  report = of(passed, skipped)
  assert report.verdict is Verdict.CONFORMS
  told = table.text(report)
  assert told.endswith('\nconforms, as far as tried (1 passed, 1 skipped)')
  assert '<p class="verdict soft">conforms, as far' in page.text(report)


def test_words_that_would_steer_a_terminal() -> None:
  assert printable('a\x1b[2Jb\r\ud800\u202ec\n\td') == (
      'a\\x1b[2Jb\\r\\ud800\\u202ec\n        d')


def test_json_has_all_there_is() -> None:
  told = json.loads(json_form.text(with_all()))
  assert told['schema'] == 1
  assert told['capabilities']['mlir'] == 'UNIMPLEMENTED: no <mlir>'
  assert [r['status'] for r in told['results']] == [
      'passed', 'passed', 'skipped', 'failed', 'crashed', 'hung', 'expected',
      'stale'
  ]
  assert told['results'][3] == {
      'case': 'donation.real',
      'part': 'taken',
      'status': 'failed',
      'text': 'the argument <lives> on\x1b',
      'seconds': 2.0,
      'issue': '',
      'means': 'donation.real is wrong'
  }


def test_known_failures_are_counted_by_issue() -> None:
  report = with_issues()
  assert table.text(report).endswith('''
expected to fail: 4 (acme#17: 2, without an issue: 1, https://acme.example/21:
  1)

conforms (1 passed, 4 expected)''')
  told = json.loads(json_form.text(report))
  assert told['expected_by_issue'] == {
      'acme#17': 2,
      '': 1,
      'https://acme.example/21': 1
  }
  assert told['results'][1]['issue'] == 'acme#17'
  suite = ElementTree.fromstring(junit.text(report))
  assert {
      p.get('name'): p.get('value') for p in suite.iter('property')
  } == {
      'expected to fail: acme#17': '2',
      'expected to fail: without an issue': '1',
      'expected to fail: https://acme.example/21': '1'
  }
  html = page.text(report)
  assert '<a href="https://acme.example/21">' in html and 'acme#17' in html
  assert 'Expected to fail' not in page.text(right())
  assert ElementTree.fromstring(junit.text(right())).find('properties') is None


def test_junit() -> None:
  suite = ElementTree.fromstring(junit.text(with_all()))
  counts = {k: suite.get(k) for k in ('tests', 'failures', 'errors', 'skipped')}
  assert counts == {
      'tests': '8',
      'failures': '2',
      'errors': '2',
      'skipped': '2'
  }
  kinds = [[child.tag for child in test] for test in suite]
  assert kinds == [['system-out'], ['system-out'], ['skipped'], ['failure'],
                   ['error'], ['error'], ['skipped'], ['failure']]
  failed = suite[3]
  assert (failed.get('classname'),
          failed.get('name')) == ('conformance.donation.real', 'taken')
  # What XML cannot hold is left out, and the rest is escaped.
  assert failed[0].get('message') == 'the argument <lives> on?'
  assert suite[4].get('name') == 'threads.together'


def test_page(tmp_path: Path) -> None:
  path = tmp_path / 'conformance.html'
  path.write_text(page.text(with_all()), encoding='utf-8')
  seen = browsing.dump(browsing.find(), path).stdout
  for text in ('donation.real/taken', 'the argument &lt;lives&gt; on',
               'no end after 9 s', '4 finding(s)', 'no &lt;mlir&gt;'):
    assert text in seen
