"""A report as JSON, as JUnit's XML and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
import json

from .report import KINDS, Report
from .shared import web_page
from .shared.gate import junit
from .shared.result import Result, Status

SCHEMA = 1


def as_json(report: Report) -> str:
  """The report for programs."""
  return json.dumps(
      {
          'schema':
              SCHEMA,
          'torch_xla':
              dict(report.probe_result.facts),
          'verdict':
              report.verdict,
          'exit_status':
              report.exit_status,
          'seconds':
              round(report.seconds, 3),
          'series': {
              s.suite.series: {
                  'found': s.feature.is_present,
                  'how': s.feature.how,
                  'ran': s.ran,
                  **{
                      kind: len(s.failing(kind)) for kind in KINDS
                  }
              } for s in report.standings
          },
          'tests': [{
              'name': result.name,
              'status': result.status.value,
              'kind': report.kinds.get(result.case, ''),
              'text': result.text,
              'seconds': round(result.seconds, 3)
          } for result in report.results],
      },
      indent=2) + '\n'


def as_junit(report: Report) -> str:
  """The report as CI systems read it; what was expected to fail is skipped."""
  return junit.xml(report.subject, [_test(report, r) for r in report.results],
                   report.seconds)


def _test(report: Report, result: Result) -> junit.Test:
  file, _, test = result.name.partition('::')
  text = report.kind_of(result) if result.status.is_finding else ''
  return junit.Test(
      f'behaviour.{file}',
      test or file,
      result.status.junit_kind,
      result.text,
      type=text,
      seconds=result.seconds)


def as_page(report: Report) -> str:
  """The report as a page that needs nothing else."""
  return web_page.document(f'Behaviour of {report.subject}', _body(report))


def _body(report: Report) -> Iterator[str]:
  yield '<h1>Behaviour</h1>'
  yield f'<p class="soft">{escape(report.subject)}<br>'
  yield f'<code>{escape(report.probe_result.facts["file"])}</code></p>'
  yield web_page.verdict(report.verdict, not report.exit_status)
  yield web_page.figures(
      (str(count), label) for label, count in _counts(report).items())
  yield '<h2>Series</h2>'
  yield web_page.table(
      [('series', 'head'), ('feature', ''), *((kind, 'num') for kind in KINDS),
       ('tests', 'num')],
      [[(escape(s.suite.series), False),
        (escape(s.feature.how), not s.feature.usable),
        *((str(len(s.failing(kind))), bool(s.failing(kind)))
          for kind in KINDS), (str(s.ran), False)]
       for s in report.standings])
  yield '<h2>Tests</h2>'
  # Findings first, the worst of them before others.
  order = (*reversed(KINDS), Status.STALE.value)
  yield web_page.table([('test', 'head'), ('found', 'plain'), ('what', ''),
                        ('seconds', 'num')],
                       [[(escape(result.name), False),
                         (report.kind_of(result), result.status.is_finding),
                         (escape(result.text), False),
                         (f'{result.seconds:.1f}', False)] for result in sorted(
                             report.results,
                             key=lambda r: order.index(report.kind_of(r))
                             if r.status.is_finding else len(order))],
                       filtered='tests')


def _counts(report: Report) -> dict[str, int]:
  counts: dict[str, int] = {}
  for result in report.results:
    kind = report.kind_of(result)
    counts[kind] = counts.get(kind, 0) + 1
  return counts
