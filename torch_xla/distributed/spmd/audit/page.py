"""An audit as one HTML page that needs no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Optional

from torch_xla.shardy.layers import names_text
from torch_xla.shardy.web_page import (Cell, document, figures, script, table,
                                       verdict)

from .folding import Cause, causes, Fold, folded
from .grid import Grid, grid_of, ranges
from .report import Report, Seen, UNMARKED, WHOLE
from .sections import on_device, Section, what_ran
from .table import heading, priority_text


def html(report: Report) -> str:
  """The whole page of an audit."""
  placements = _placements(report)
  tags = {sharding: _tag(i) for i, sharding in enumerate(placements)}
  body = [
      _verdict(report),
      *_differences(report),
      _totals(report),
      *(part for section in on_device(report) for part in _section(section)),
      '<h2>Device grids</h2><p class="soft">Each box is a tile of the tensor '
      'with the devices that hold it: dimension 0 downwards, the others to the '
      'right. One colour is one tile.</p><div class="placements">',
      *(_placement(report, sharding, names, tags[sharding])
        for sharding, names in placements.items()),
      '</div>',
      *_tensors(report, tags),
      *(part for section in what_ran(report) for part in _section(section)),
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


def _section(section: Section) -> Iterator[str]:
  yield f'<h2>{escape(section.title[0].upper() + section.title[1:])}</h2>'
  if section.figures:
    yield figures(section.figures)
  if section.rows:
    header, *rows = section.rows
    kinds = ('head',
             *('plain' if head == 'by' else 'num' for head in header[1:]))
    yield table([*zip(header, kinds)], rows, f'{header[0]}s')
  yield from (f'<p>{escape(text)}</p>' for text in section.paragraphs)


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
  tiles = [ranges(devices) for row in grid.rows for devices in row]
  # Neighbours get distant hues, by steps of about the golden angle.
  angle = 137.5 if len(tiles) > 12 else 360 / len(tiles)
  hues = [f'--hue:{tile * angle % 360:.0f}' for tile in range(len(tiles))]
  cells = [
      f'<div class="tile" style="{hue}">{devices}</div>'
      for hue, devices in zip(hues, tiles)
  ] if len(tiles) > 1 else [f'<div class="tile whole">{tiles[0]}</div>']
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


def _cells(fold: Fold, tags: dict[str, str]) -> Iterator[Cell]:
  """The cells of the columns."""
  row = fold.row
  # A long name may break after its dots.
  yield escape(fold.name).replace('.', '.<wbr>') + _all_names(fold.names), False
  yield f'<span class="n">{list(row.shape)}</span>', False
  yield f'<span class="n">{list(row.local_shape)}</span>', False
  yield row.dtype
  yield f'{row.nbytes:,}'
  yield f'{row.replicated_nbytes:,}'
  policy = f'<code>{escape(row.spec)}</code> ' if row.spec else ''
  is_free = row.policy == UNMARKED
  expected = WHOLE if is_free else row.policy.sharding
  if not is_free:
    policy += _seen((row.policy,), tags)
  yield policy or '-', expected is None
  yield priority_text(row.policy.priority)
  for seen in ((row.annotation,), (row.stored,)):
    yield _seen(
        seen,
        tags), not (is_free and
                    seen[0].sharding is None) and seen[0].sharding != expected
  yield _seen(row.compiled, tags), any(
      s.sharding not in (None, expected) for s in row.compiled)
  yield row.form + (f': {row.why_not_v2}' if row.why_not_v2 else '')
  by = ', '.join((*row.partitioners, *row.fallbacks)) or '-'
  yield escape(by), bool(row.fallbacks)
  yield ', '.join(row.unused_axes) or '-'


def _seen(seen: Sequence[Seen], tags: dict[str, str]) -> str:
  parts = []
  for s in seen:
    if s.sharding is None:
      why = 'by nobody' if s == UNMARKED else f'not known: {escape(s.unknown)}'
      parts.append(f'<span class="soft">{why}</span>')
    else:
      tag = tags[s.sharding]
      parts.append(f'<a class="tag" href="#placement-{tag}">{tag}</a>')
  return ' '.join(dict.fromkeys(parts))
