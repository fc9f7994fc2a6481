"""Reports as one HTML page that needs no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from . import comparison, quantities, wording
from .comparison import Comparison
from ..report import CollectiveUse, AotReport
from .table import COLUMNS, program_cells, use_cells
from ...gate import sizes
from ...web_page import document, figures, table, verdict

_TITLE = 'Ahead of time'
# (label, class)
_WORDS = {'program': 'head', 'partitioner': 'plain'}
# Of a program's columns those that stand below it: no screen is so wide.
_BELOW = ('asked for at', 'outputs', 'aliases', 'code', 'beside')
_PROGRAMS = tuple(
    (name, _WORDS.get(name, 'num')) for name in COLUMNS if name not in _BELOW)
_TENSORS = (('tensor', 'head'), ('role', 'plain'), ('shape', 'plain'), ('bytes',
                                                                        'num'))
_COLLECTIVES = (('collective', 'head'), ('where', ''), ('count', 'num'),
                ('bytes', 'num'), ('of', ''))


def html(labelled: Sequence[tuple[str, AotReport]]) -> str:
  """The whole page of some reports.

  Args:
    labelled: (what it is called, report) of each. Several of them are compared
      before each is shown.
  """
  body: list[str] = []
  if len(labelled) > 1:
    body += _comparison(comparison.compare(labelled))
  for number, (name, report) in enumerate(labelled, 1):
    body += _report(name, report, f'report-{number}')
  reports = [report for _, report in labelled]
  return wording.printable(
      document(_TITLE, body,
               (*dict.fromkeys(' '.join(r.script) for r in reports),
                *dict.fromkeys(f'mode {r.mode}' for r in reports))))


def _comparison(compared: Comparison) -> Iterator[str]:
  yield '<h1>Side by side</h1><ul>' + ''.join(
      f'<li><a href="#report-{i}">{escape(name)}</a></li>'
      for i, name in enumerate(compared.labels, 1)) + '</ul>'
  for part in compared.parts:
    yield f'<h2>{escape(part.name)}</h2>'
    if part.differing:
      yield _rows(compared.labels, part.differing)
    if part.same:
      yield f'<p class="soft">The same: {escape(part.same)}</p>'
  if compared.unmatched:
    yield '<h2>Programs that not all have</h2><ul>' + ''.join(
        f'<li>{escape(text)}</li>' for text in compared.unmatched) + '</ul>'
  yield '<h2>Measured on the machine that compiled</h2>' + _rows(
      compared.labels, compared.measured)


def _rows(labels: Sequence[str], rows: Sequence[comparison.Row]) -> str:
  columns = (('', 'head'), *((name, '') for name in labels))
  return table(columns, ((row.name, *row.values) for row in rows))


def _report(name: str, report: AotReport, anchor: str) -> Iterator[str]:
  yield (f'<h1 id="{anchor}">{escape(name)}</h1>'
         f'<p><code>{escape(" ".join(report.script))}</code></p>')
  yield verdict(wording.verdict(report), report.fits is True)
  yield f'<p>{escape(wording.run_text(report))}</p>'
  for text in (wording.topology_text(report),
               f'compiler: {report.topology.compiler or "not told"}',
               wording.setting_text(report)):
    yield f'<p class="soft">{escape(text)}</p>'
  yield from _one_step(report)
  if report.programs:
    yield '<h2>Programs</h2>' + table(
        _PROGRAMS,
        (_program_row(report, i, anchor) for i in range(len(report.programs))))
  for number in range(len(report.programs)):
    yield from _details(report, number, anchor)
  yield '<h2>The run</h2>'
  yield from (f'<p>{escape(text)}</p>' for text in wording.remarks(report))
  if report.traceback:
    yield _words(report.traceback)


def _one_step(report: AotReport) -> Iterator[str]:
  yield '<h2>One step after warm-up, on one device</h2>'
  if report.unknown_step:
    yield f'<p class="soft">Not known: {escape(report.unknown_step)}</p>'
    return
  texts = []
  for name in ('flops', 'cycles'):
    measure = quantities.named(name).of_report(report)
    texts.append(('not known',
                  f'{name}: {measure.unknown}') if measure.value is None else (
                      sizes.number_text(measure.value), name))
  uses = wording.totals(report.step_programs)
  moved = sum(use.nbytes for use in uses)
  count = sum(use.count for use in uses)
  yield figures(
      [*texts, (sizes.text(moved), f'moved by {count:,} collectives')])
  yield (f'<p class="soft">{escape(wording.step_text(report))}</p>' +
         _collectives(uses))
  for line in wording.other_steps(report):
    yield f'<p class="soft">{escape(line)}</p>'


def _program_row(report: AotReport, number: int,
                 anchor: str) -> Iterator[tuple[str, bool]]:
  program = report.programs[number]
  too_large = bool(program.error) or (program.peak is not None and
                                      program.peak > report.topology.memory)
  bad = {
      'arguments': bool(program.error),  # Where it says refused.
      'of memory': too_large,
      'partitioner': report.is_fallback(program),
  }
  tag, *cells = program_cells(report, number)
  for name, text in zip(COLUMNS, cells, strict=True):
    if name in _BELOW:
      continue
    link = f'<a class="tag" href="#{anchor}-{tag}">{tag}</a> '
    yield (link if name == 'program' else '') + escape(text), bad.get(
        name, False)


def _details(report: AotReport, number: int, anchor: str) -> Iterator[str]:
  program = report.programs[number]
  tag, *cells = program_cells(report, number)
  yield (f'<h2 id="{anchor}-{tag}"><span class="tag">{tag}</span> '
         f'{escape(program.name)}</h2>')
  if program.called_from:
    places = ', from '.join(program.called_from)
    yield f'<p>asked for at <code>{escape(places)}</code></p>'
  if program.note:
    yield f'<p>{escape(program.note)}</p>'
  if program.error:
    yield '<p>Refused, in the compiler\'s words:</p>' + _words(program.error)
    return
  yield '<p>' + escape(', '.join(
      f'{name} {text}' for name, text in zip(COLUMNS, cells, strict=True)
      if name in _BELOW[1:])) + '</p>'
  if program.heaviest:
    yield '<h3>Heaviest arguments and results</h3>' + table(
        _TENSORS, ((t.name, t.role, t.shape, sizes.text(t.nbytes))
                   for t in program.heaviest))
  yield '<h3>Collectives</h3>' + _collectives(wording.totals([program]))
  yield f'<p>Cycles: {escape(wording.cycles_text(program.cycles))}</p>'


def _collectives(uses: Sequence[CollectiveUse]) -> str:
  if not uses:
    return '<p class="soft">No collectives.</p>'
  return table(_COLLECTIVES, map(use_cells, uses))


def _words(text: str) -> str:
  return f'<pre class="words">{escape(text)}</pre>'
