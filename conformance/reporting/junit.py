"""A report as JUnit's XML, which CI systems read.

A case is a class, each of its parts a test. What was expected to fail is
skipped, with its reason; how many are by an issue is a property.
"""

from __future__ import annotations

from ..shared.gate import junit
from ..result import ConformanceReport, counts_by_issue, Result


def text(report: ConformanceReport) -> str:
  tests = [_test(report, result) for result in report.results]
  if report.interrupted:
    tests.append(
        junit.Test('conformance', 'interrupted', 'error',
                   'interrupted before the last case'))
  issues = {
      f'expected to fail: {issue or "without an issue"}': str(n)
      for issue, n in counts_by_issue(report.results).items()
  }
  return junit.xml(report.subject, tests, report.seconds, issues)


def _test(report: ConformanceReport, result: Result) -> junit.Test:
  fails = result.status.is_finding
  return junit.Test(f'conformance.{result.case}', result.part or result.case,
                    result.status.junit_kind, result.text,
                    result.status.value if fails else '',
                    f'for a user: {report.means[result.case]}' if fails else '',
                    result.seconds)
