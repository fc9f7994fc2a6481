"""A report as JSON, for programs."""

from __future__ import annotations

import dataclasses
import json

from ..result import ConformanceReport, counts_by_issue, Result

SCHEMA = 1


def text(report: ConformanceReport) -> str:
  return json.dumps(
      {
          'schema': SCHEMA,
          'subject': report.subject,
          'verdict': report.verdict.name.lower(),
          'seconds': round(report.seconds, 3),
          'expected_by_issue': counts_by_issue(report.results),
          'capabilities': report.capabilities,
          'results': [_result(report, result) for result in report.results],
      },
      indent=2) + '\n'


def _result(report: ConformanceReport, result: Result) -> dict[str, object]:
  return {
      **dataclasses.asdict(result),
      'status': result.status.value,
      'seconds': round(result.seconds, 3),
      'means': report.means[result.case],
  }
