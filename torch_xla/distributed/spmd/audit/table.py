"""An audit as text for a terminal."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
import shutil
import textwrap
from typing import Optional

from torch_xla.shardy.compile.record import columns

from . import advice, modules
from .folding import causes, Fold, folded
from .report import (BoundaryRow, collective_causes, collective_totals,
                     ProgramRow, Report, Seen)

# How torch_xla's counters are to be read.
COUNT_TEXTS = {
    'compiles': 'programs compiled',
    'MarkStep': 'lazy graphs cut, one per sync',
    'DynamoExtractCompiledGraph': 'traces by torch.compile',
    'UncachedCompile': 'graphs that were new',
    'CachedCompile': 'graphs seen before',
}
SMALLEST_SHOWN = 3
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
  lines += ['', *_filled(totals(report)), '', 'living on the device']
  lines += [
      f'  {line}' for line in columns([(f'{h.tensors:,}', h.sort,
                                        f'{h.local_nbytes:,} bytes on a device',
                                        f'{h.nbytes:,} in all')
                                       for h in report.held])
  ]
  lines += _filled(held_text(report), '  ')
  lines += ['', 'bytes on a device, by module']
  lines += _aligned(modules.table(report), '  ')
  advised = advice.advise(report)
  if advised:
    lines += ['', 'could be split further']
    lines += [part for line in advised for part in _filled(line, '  ')]
  if report.boundaries:
    lines += ['', 'boundaries']
    for row in report.boundaries:
      lines += _filled(boundary_text(row), '  ')
  lines += ['', *_programs(report), '', *_counts(report), '']
  lines += verdict(report)
  return '\n'.join(lines)


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


def held_text(report: Report) -> str:
  """The bytes on each device in all, and those of the largest program."""
  total = sum(h.local_nbytes for h in report.held)
  text_ = f'together {total:,} bytes on a device. '
  program = report.largest_program
  if program is None or program.memory is None:
    return text_ + 'What programs take: the backend does not tell'
  rest = program.memory.arguments - total
  return (
      f'{text_}{program.name} takes most: {program.memory.peak:,} bytes. ' +
      (f'{rest:,} bytes of its arguments are none of these: inputs, constants'
       if rest >= 0 else f'{-rest:,} bytes of these it does not take'))


def priority_text(priority: Optional[Sequence[Optional[int]]]) -> str:
  return '-' if priority is None else str(tuple(priority))


def boundary_text(row: BoundaryRow) -> str:
  """The activations that a boundary marked."""
  where = row.module or '(the model)'
  output = '' if row.output is None else f' [{row.output}]'
  parts = []
  for activation in row.activations:
    what = ('traced by torch.compile' if activation.shape is None else
            f'{list(activation.shape)}, {list(activation.local_shape)} on a '
            f'device, {activation.local_nbytes:,} bytes')
    if activation.constrained is not None:
      what += f', {activation.constrained} constraint(s) in programs'
    parts.append(what)
  priority = '' if row.priority is None else f' priority {row.priority}'
  ran = '; '.join(parts) if parts else (
      'never ran' if row.hooked else 'no hook')
  return f'{where}{output}  {row.spec}{priority}  {ran}'


def program_rows(report: Report) -> list[tuple[str, ...]]:
  """A header, and each program with its shardings and bytes on a device.

  Those that are alike are a row; the name has their number in brackets.
  """
  rows: collections.Counter[tuple[str, ...]] = collections.Counter()
  for row in report.programs or ():
    m = row.memory
    nbytes = ('-',) * 5 if m is None else tuple(
        f'{n:,}' for n in (m.peak, m.arguments, m.outputs, m.aliases,
                           m.temporaries))
    rows[(row.name, row.partitioner, str(row.v2), str(row.v1), *nbytes)] += 1
  return [('program', 'by', 'V2', 'V1', 'bytes', 'arguments', 'results',
           'in place', 'temporaries'),
          *((name if count == 1 else f'{name} ({count})', *cells)
            for (name, *cells), count in rows.items())]


def program_notes(report: Report) -> list[str]:
  """Collectives and notes of programs; of those that are alike once."""
  names: dict[str, dict[str, None]] = {}
  for row in report.programs or ():
    notes = [f'collectives: {_collectives_text(row)}']
    if row.partitions != len(report.devices):
      notes.append(f'{row.partitions} partitions')
    if row.why_not_v2:
      notes.append('not V2: ' +
                   '; '.join(f'{n} x {why}' for why, n in row.why_not_v2))
    if row.note:
      notes.append(f'note: {row.note}')
    for note in notes:
      names.setdefault(note, {})[row.name] = None
  return [f'{", ".join(of)}  {note}' for note, of in names.items()]


def _collectives_text(row: ProgramRow) -> str:
  if row.collectives is None:
    return 'the backend does not tell'
  return ', '.join(f'{c.count} {c.kind} ({c.nbytes:,} bytes, the smallest '
                   f'{c.smallest:,})' for c in row.collectives) or 'none'


def smallest_text(report: Report) -> list[str]:
  """The smallest collectives, in words, by what they come from."""
  return [
      f'{count} {kind} by {cause}, {nbytes:,} bytes' for kind, cause, count,
      nbytes in collective_causes(report)[:SMALLEST_SHOWN]
  ]


def seen_text(seen: Sequence[Seen], policy: Seen) -> str:
  """Each sharding, or 'same' where it is what the policy says."""
  texts = [
      'same' if s.sharding == policy.sharding else s.sharding for s in seen
  ]
  return ' '.join(dict.fromkeys(t for t in texts if t is not None))


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
    why = [s.unknown for s in seen if s.sharding is None]
    numbers = ' '.join(_note(notes, f'not known: {w}') for w in why)
    return f'{seen_text(seen, row.policy)} {numbers}'.strip()

  policy = row.spec or known([row.policy])
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


def _programs(report: Report) -> Iterator[str]:
  yield f'compiled {report.since}'
  if report.programs is None:
    yield '  not known: the mode is off, and only the door sees programs'
    return
  yield from _aligned(program_rows(report), '  ')
  for note in program_notes(report):
    yield from _filled(note, '  ')
  for kind in collective_totals(report) if len(report.programs) > 1 else ():
    yield f'  in all: {kind.count} {kind.kind}, {kind.nbytes:,} bytes'
  smallest = smallest_text(report)
  if smallest:
    yield from _filled('the smallest, by cause: ' + ', '.join(smallest), '  ')


def _counts(report: Report) -> Iterator[str]:
  for name, text_ in COUNT_TEXTS.items():
    count = report.counts[name]
    yield (
        f'{"not known: the counters were cleared" if count is None else count}'
        f'  {text_}')


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
