"""An audit as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import shutil
import textwrap
from typing import Optional

from torch_xla.shardy.compile.record import columns

from .folding import causes, Fold, folded
from .report import Report, Seen, UNMARKED
from .sections import on_device, Section, what_ran

# Where it is no terminal that is written to.
_WIDTH = 100
_STAGES = 'marked, stored, compiled'
_HEADER = ('tensor', 'shape', 'on a device', 'dtype', 'bytes', 'replicated',
           'policy', 'priority', _STAGES, 'form', 'by', 'unused axes')
# Columns that say the same of most models' tensors.
_SAID_ONCE = frozenset(
    map(_HEADER.index,
        ('dtype', 'priority', _STAGES, 'form', 'by', 'unused axes')))


def text(report: Report) -> str:
  """The whole report; why something is not known, or not V2, is in notes."""
  notes: list[str] = []
  lines = [heading(report), '']
  lines += _table([_row(fold, notes) for fold in folded(report)])
  for i, note in enumerate(notes, 1):
    lines += _filled(f'({i}) {note}')
  lines += ['', *_filled(totals(report))]
  for section in (*on_device(report), *what_ran(report)):
    lines += ['', *_section(section)]
  return '\n'.join([*lines, '', *verdict(report)])


def heading(report: Report) -> str:
  """The mode and the mesh in one line."""
  axes = ', '.join(f'{name}={size}' for name, size in report.mesh)
  return (f'mode {report.mode}, mesh {axes} of {len(report.devices)} devices, '
          f'{report.totals.tensors} tensors')


def totals(report: Report) -> str:
  """Bytes of all tensors, and the tolerance."""
  t = report.totals
  return (f'{t.nbytes:,} bytes, {t.local_nbytes:,} on each device, '
          f'{t.replicated_nbytes:,} replicated over all devices ({t.limit})')


def _section(section: Section) -> Iterator[str]:
  yield section.title
  yield from (f'  {line}' for line in columns(section.figures))
  if section.rows:
    yield from _aligned(section.rows, '  ')
  for paragraph in section.paragraphs:
    yield from _filled(paragraph, '  ')


def priority_text(priority: Optional[Sequence[Optional[int]]]) -> str:
  return '-' if priority is None else str(tuple(priority))


def seen_text(seen: Sequence[Seen], policy: Seen) -> str:
  """Each sharding, or 'same' where it is what the policy says."""
  texts = ('same' if s.sharding == policy.sharding else s.sharding
           for s in seen
           if s.sharding is not None)
  return ' '.join(dict.fromkeys(texts))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
  """Aligned columns; what all rows say is said once."""
  if not rows:
    return
  same = [
      i for i, cells in enumerate(zip(*rows, strict=True))
      if i in _SAID_ONCE and len(rows) > 1 and len(set(cells)) == 1
  ]
  kept = [[cell
           for i, cell in enumerate(row)
           if i not in same]
          for row in (_HEADER, *rows)]
  yield from _aligned(kept)
  if same:
    yield from _filled('of all: ' +
                       '; '.join(f'{_HEADER[i]} {rows[0][i]}' for i in same))


def _aligned(rows: Sequence[Sequence[str]], indent: str = '') -> list[str]:
  """Columns, a header first; some lines a row where a terminal is narrower."""
  lines = [f'{indent}{line}' for line in columns(rows)]
  if max(map(len, lines)) <= _width():
    return lines
  header, *rest = rows
  return [
      line for name, *cells in rest for line in (f'{indent}{name}', *_filled(
          ';  '.join(
              cell if head == _STAGES and cell != 'same' else f'{head} {cell}'
              for head, cell in zip(header[1:], cells, strict=True)
              if cell != '-'), f'{indent}    '))
  ]


def _width() -> int:
  return shutil.get_terminal_size((_WIDTH, 0)).columns


def _filled(line: str, indent: str = '') -> list[str]:
  return textwrap.wrap(
      line,
      _width(),
      initial_indent=indent,
      subsequent_indent=indent + '  ',
      break_long_words=False,
      break_on_hyphens=False)


def _row(fold: Fold, notes: list[str]) -> tuple[str, ...]:
  row = fold.row

  def known(seen: Sequence[Seen]) -> str:
    why = [s for s in seen if s.sharding is None]
    numbers = ' '.join('by nobody' if s ==
                       UNMARKED else _note(notes, f'not known: {s.unknown}')
                       for s in why)
    return f'{seen_text(seen, row.policy)} {numbers}'.strip()

  policy = row.spec or ('-' if row.policy == UNMARKED else known([row.policy]))
  stages = [known([row.annotation]), known([row.stored]), known(row.compiled)]
  by = ' '.join(row.partitioners) or '-'
  return (fold.name, _shape(row.shape), _shape(row.local_shape), row.dtype,
          f'{row.nbytes:,}', f'{row.replicated_nbytes:,}', policy,
          priority_text(row.policy.priority), ', '.join(
              f'{stage} {told}'
              for stage, told in zip(_STAGES.split(', '), stages, strict=True)
              if told != 'same') or
          'same', row.form + (f' {_note(notes, f"not V2: {row.why_not_v2}")}'
                              if row.why_not_v2 else ''),
          by + (' (fallback)' if row.fallbacks else ''),
          ' '.join(row.unused_axes) or '-')


def _shape(dims: Sequence[int]) -> str:
  return f'[{",".join(map(str, dims))}]'


def _note(notes: list[str], text_: str) -> str:
  if text_ not in notes:
    notes.append(text_)
  return f'({notes.index(text_) + 1})'


def verdict(report: Report) -> Iterator[str]:
  """The differences, by cause."""
  if report.ok:
    yield 'no differences'
    return
  found = causes(report.differences)
  by = '' if len(found) == len(
      report.differences) else (f', by {len(found)} cause(s)')
  yield f'{len(report.differences)} difference(s){by}'
  for cause in found:
    yield from _filled(str(cause), '  ')
