"""A report as a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..shared import web_page
from ..result import ConformanceReport, counts, counts_by_issue, Verdict
from . import table


def text(report: ConformanceReport) -> str:
  return web_page.document(f'Conformance of {report.subject}', _body(report))


def _body(report: ConformanceReport) -> Iterator[str]:
  yield '<h1>Conformance</h1>'
  yield f'<p class="soft"><code>{escape(report.subject)}</code></p>'
  yield web_page.verdict(
      report.verdict_text(), report.verdict is Verdict.CONFORMS and
      (report.is_whole or None))
  yield web_page.figures(
      (str(n), status.value) for status, n in counts(report.results).items())
  if report.findings:
    yield '<h2>Findings</h2><ul class="differences">'
    for result in report.findings:
      yield (f'<li><b>{escape(result.name)}</b> {result.status.value}'
             f'<p>{escape(result.text)}</p><p class="soft">for a user: '
             f'{escape(report.means[result.case])}</p></li>')
    yield '</ul>'
  if known := counts_by_issue(report.results):
    yield '<h2>Expected to fail</h2>'
    yield web_page.table([('issue', 'head'), ('failures', 'num')],
                         [[(_linked(issue), False), (str(n), False)]
                          for issue, n in known.items()])
  yield '<h2>Capabilities</h2>'
  yield web_page.table([('capability', 'head'), ('measured', '')],
                       [[(escape(name.replace('_', ' ')), False),
                         (escape(table.value_text(value)), False)]
                        for name, value in report.capabilities.items()])
  yield '<h2>Cases</h2>'
  yield web_page.table([('case', 'head'), ('found', 'plain'), ('what', ''),
                        ('seconds', 'num')],
                       [[(escape(result.name), False),
                         (result.status.value, result.status.is_finding),
                         (escape(result.text), False),
                         (f'{result.seconds:.1f}', False)]
                        for result in report.results])


def _linked(issue: str) -> str:
  """The markup of an issue, which may be an address."""
  markup = escape(issue or 'without an issue')
  return f'<a href="{markup}">{markup}</a>' if '://' in issue else markup
