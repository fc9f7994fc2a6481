"""An audit as one HTML page that needs no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Optional

from torch_xla.shardy.layers import names_text
from torch_xla.shardy.web_page import document, figures, script, table, verdict

from . import advice, modules
from .folding import Cause, causes, Fold, folded
from .grid import Grid, grid_of, ranges
from .report import collective_totals, Report, Seen
from .table import (boundary_text, COUNT_TEXTS, heading, held_text,
                    priority_text, program_notes, program_rows, smallest_text)


def html(report: Report) -> str:
  """The whole page of an audit."""
  placements = _placements(report)
  tags = {sharding: _tag(i) for i, sharding in enumerate(placements)}
  body = [
      _verdict(report),
      *_differences(report),
      _totals(report),
      *_held(report),
      '<h2>Device grids</h2><p class="soft">Each box is a tile of the tensor '
      'with the devices that hold it: dimension 0 downwards, the others to the '
      'right. One colour is one tile.</p><div class="placements">',
      *(_placement(report, sharding, names, tags[sharding])
        for sharding, names in placements.items()),
      '</div>',
      *_tensors(report, tags),
      *_boundaries(report),
      *_programs(report),
      *_counts(report),
  ]
  return document('Sharding audit', body, (script(), heading(report)))


def _verdict(report: Report) -> str:
  return verdict(
      'No differences'
      if report.ok else f'{len(report.differences)} difference(s)', report.ok)


def _differences(report: Report) -> Iterator[str]:
  if not report.ok:
    yield '<h2>Differences, by cause</h2><ul class="differences">'
    for c in causes(report.differences):
      yield (f'<li><b>{escape(names_text(c.names))}</b> <span class="soft">'
             f'{escape(c.kind.value)}{_many(c)}</span><br>{escape(c.text)}'
             f'{_all_names(c.names)}</li>')
    yield '</ul>'


def _many(cause: Cause) -> str:
  many = f', {len(cause.names):,} in all' if len(cause.names) > 1 else ''
  return many + (f', {cause.nbytes:,} bytes' if cause.nbytes else '')


def _all_names(names: Sequence[str]) -> str:
  """The markup of more names than one, to be opened."""
  if len(names) < 2:
    return ''
  return ('<details><summary class="soft">all names</summary>'
          f'{escape(", ".join(names))}</details>')


def _totals(report: Report) -> str:
  t = report.totals
  return '<h2>Bytes</h2>' + figures(
      [(f'{t.nbytes:,}', 'in all tensors'),
       (f'{t.local_nbytes:,}', 'on each device'),
       (f'{t.replicated_nbytes:,}', f'replicated over all devices, {t.limit}')])


def _held(report: Report) -> Iterator[str]:
  yield '<h2>Living on the device</h2>'
  yield figures((f'{h.local_nbytes:,}', f'{h.sort}, {h.tensors:,} in all')
                for h in report.held)
  yield f'<p>{escape(held_text(report))}.</p>'
  header, *rows = modules.table(report)
  yield '<h2>Bytes on a device, by module</h2>' + table(
      [(head, 'num' if i else 'head') for i, head in enumerate(header)],
      ([(escape(cell), False) for cell in row] for row in rows))
  advised = advice.advise(report)
  if advised:
    yield '<h2>Could be split further</h2><ul>'
    yield from (f'<li>{escape(line)}</li>' for line in advised)
    yield '</ul>'


def _placements(report: Report) -> dict[str, list[str]]:
  """Every sharding that was seen anywhere, and what is stored so."""
  placements: dict[str, list[str]] = {}
  for row in report.tensors:
    for seen in (row.policy, row.annotation, row.stored, *row.compiled):
      if seen.sharding is not None:
        placements.setdefault(seen.sharding, [])
    if row.stored.sharding is not None:
      placements[row.stored.sharding].append(row.name)
  return placements


def _tag(number: int) -> str:
  """A to Z, then A1 to Z1, ..."""
  rounds, letter = divmod(number, 26)
  return chr(ord('A') + letter) + (str(rounds) if rounds else '')


def _placement(report: Report, sharding: str, names: Sequence[str],
               tag: str) -> str:
  grid = grid_of(sharding, report.devices)
  names_line = names_text(names)
  drawing = ('<p class="soft">Too many tiles to draw, or none of its own.</p>'
             if grid is None else _grid(grid))
  return (f'<section class="placement" id="placement-{tag}"><h3>'
          f'<span class="tag">{tag}</span> <code>{escape(sharding)}</code></h3>'
          f'{drawing}<p class="soft">{_tiles_text(grid)}</p>'
          f'<p>{escape(names_line) or "nothing is stored so"}</p></section>')


def _tiles_text(grid: Optional[Grid]) -> str:
  if grid is None:
    return ''
  if not grid.tiles:
    return 'whole on each of these devices'
  return ' x '.join(map(str, grid.tiles)) + ' tiles'


def _grid(grid: Grid) -> str:
  count = sum(map(len, grid.rows))
  cells = []
  for row in grid.rows:
    for cell in row:
      devices = ranges(cell.devices)
      if count == 1:
        cells.append(f'<div class="tile whole">{devices}</div>')
      else:
        # Neighbours get distant hues, by steps of about the golden angle.
        hue = cell.tile * 137.5 % 360 if count > 12 else cell.tile * 360 / count
        cells.append(f'<div class="tile" style="--hue:{hue:.0f}">{devices}'
                     '</div>')
  return ('<div class="scroll"><div class="grid" style="grid-template-columns:'
          f'repeat({len(grid.rows[0])},minmax(max-content,1fr))">'
          f'{"".join(cells)}</div></div>')


# (label, class)
_COLUMNS = (('tensor', 'head'), ('shape', 'plain'), ('on a device', 'plain'),
            ('dtype', 'plain'), ('bytes', 'num'), ('replicated', 'num'),
            ('policy', 'plain'), ('priority', 'plain'), ('marked', ''),
            ('stored', ''), ('compiled', ''), ('form', ''), ('partitioner', ''),
            ('unused axes', ''))


def _tensors(report: Report, tags: dict[str, str]) -> Iterator[str]:
  yield '<h2>Tensors</h2>' + (
      '<p class="soft">A letter is a placement, drawn above under that letter. '
      'A name with a number in brackets is one of that many layers, all alike.'
      '</p>') + table(_COLUMNS, (_cells(fold, tags) for fold in folded(report)),
                      'tensors')


def _cells(fold: Fold, tags: dict[str, str]) -> Iterator[tuple[str, bool]]:
  """The markup of each column, and whether what it shows is no good."""
  row = fold.row
  # A long name may break after its dots.
  yield escape(fold.name).replace('.', '.<wbr>') + _all_names(fold.names), False
  yield f'<span class="n">{list(row.shape)}</span>', False
  yield f'<span class="n">{list(row.local_shape)}</span>', False
  yield escape(row.dtype), False
  yield f'{row.nbytes:,}', False
  yield f'{row.replicated_nbytes:,}', False
  policy = f'<code>{escape(row.spec)}</code> ' if row.spec else ''
  yield policy + _seen((row.policy,), tags), row.policy.sharding is None
  yield escape(priority_text(row.policy.priority)), False
  for seen in ((row.annotation,), (row.stored,)):
    yield _seen(seen, tags), seen[0].sharding != row.policy.sharding
  yield _seen(row.compiled, tags), any(
      s.sharding not in (None, row.policy.sharding) for s in row.compiled)
  form = row.form
  if row.why_not_v2:
    form += f': {row.why_not_v2}'
  yield escape(form), False
  by = ', '.join((*row.partitioners, *row.fallbacks)) or '-'
  yield escape(by), bool(row.fallbacks)
  yield escape(', '.join(row.unused_axes) or '-'), False


def _seen(seen: Sequence[Seen], tags: dict[str, str]) -> str:
  parts = []
  for s in seen:
    if s.sharding is None:
      parts.append(f'<span class="soft">not known: {escape(s.unknown)}</span>')
    else:
      tag = tags[s.sharding]
      parts.append(f'<a class="tag" href="#placement-{tag}">{tag}</a>')
  return ' '.join(dict.fromkeys(parts))


def _boundaries(report: Report) -> Iterator[str]:
  if report.boundaries:
    yield '<h2>Boundary activations</h2>'
    for row in report.boundaries:
      yield f'<p>{escape(boundary_text(row))}</p>'


def _programs(report: Report) -> Iterator[str]:
  yield f'<h2>Programs compiled {report.since}</h2>'
  if report.programs is None:
    yield ('<p class="soft">Not known: the mode is off, and only the door sees '
           'programs.</p>')
    return
  totals = collective_totals(report)
  if totals:
    yield figures((f'{c.count} {c.kind}', f'{c.nbytes:,} bytes, the smallest '
                   f'{c.smallest:,}') for c in totals)
    smallest = ', '.join(smallest_text(report))
    yield f'<p>The smallest, by cause: {escape(smallest)}.</p>'
  header, *rows = program_rows(report)
  classes = ['head', 'plain', *['num'] * (len(header) - 2)]
  yield table(
      list(zip(header, classes, strict=True)),
      (((escape(cell), False) for cell in row) for row in rows), 'programs')
  for note in program_notes(report):
    yield f'<p>{escape(note)}</p>'


def _counts(report: Report) -> Iterator[str]:
  yield f'<h2>Compiles and traces {report.since}</h2>'
  yield figures(
      ('not known' if report.counts[name] is None else str(report.counts[name]),
       text) for name, text in COUNT_TEXTS.items())
