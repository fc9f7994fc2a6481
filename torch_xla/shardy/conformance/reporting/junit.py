"""A report as JUnit's XML, which CI systems read.

A case is a class, each of its parts a test. What was expected to fail is
skipped, with its reason.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ..result import ConformanceReport, Result, Status

# Not in XML 1.0, even if escaped.
_FORBIDDEN = re.compile(
    '[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


def text(report: ConformanceReport) -> str:
  findings = len(report.findings)
  crashes = report.count(Status.CRASHED) + report.count(Status.HUNG)
  suite = ElementTree.Element(
      'testsuite',
      name=_clean(report.subject),
      tests=str(len(report.results)),
      failures=str(findings - crashes),
      errors=str(crashes),
      skipped=str(report.count(Status.SKIPPED) + report.count(Status.EXPECTED)),
      time=f'{report.seconds:.3f}')
  for result in report.results:
    suite.append(_test(report, result))
  if report.interrupted:
    suite.set('errors', str(crashes + 1))
    suite.set('tests', str(len(report.results) + 1))
    rest = ElementTree.SubElement(
        suite, 'testcase', classname='conformance', name='interrupted')
    ElementTree.SubElement(
        rest, 'error', message='interrupted before the last case')
  ElementTree.indent(suite)
  return ('<?xml version="1.0" encoding="utf-8"?>\n' +
          ElementTree.tostring(suite, encoding='unicode') + '\n')


def _test(report: ConformanceReport, result: Result) -> ElementTree.Element:
  test = ElementTree.Element(
      'testcase',
      classname=f'conformance.{result.case}',
      name=_clean(result.part or result.case),
      time=f'{result.seconds:.3f}')
  words = _clean(result.text)
  if result.status in (Status.CRASHED, Status.HUNG):
    kind = 'error'
  elif result.status.is_finding:
    kind = 'failure'
  elif result.status is Status.PASSED:
    if words:
      ElementTree.SubElement(test, 'system-out').text = words
    return test
  else:
    kind = 'skipped'
  note = ElementTree.SubElement(test, kind, message=words)
  if result.status.is_finding:
    note.set('type', result.status.value)
    note.text = f'for a user: {_clean(report.means[result.case])}'
  return test


def _clean(words: str) -> str:
  return _FORBIDDEN.sub('?', words)
