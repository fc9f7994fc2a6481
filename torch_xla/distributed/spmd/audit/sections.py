"""The parts of an audit that the terminal and the page show alike."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
import math
from typing import NamedTuple, Optional

from torch_xla.shardy.layers import folded as folded_names, group_of

from .folding import Fold, folded
from .report import (BoundaryRow, collective_causes, collective_totals,
                     GRADIENT, Report, TensorRow)

# How torch_xla's counters are to be read.
_COUNT_TEXTS = {
    'compiles': 'programs compiled',
    'MarkStep': 'lazy graphs cut, one per sync',
    'DynamoExtractCompiledGraph': 'traces by torch.compile',
    'UncachedCompile': 'graphs that were new',
    'CachedCompile': 'graphs seen before',
}
_SMALLEST_SHOWN = 3
# How many tensors are shown that could be split, the largest first.
_ADVICE_SHOWN = 5
_MODULE_HEADER = ('module', 'weights', 'gradients', 'optimizer state',
                  'boundary activations')
_MODEL = '(the model)'


class Section(NamedTuple):
  """One part.

  Attributes:
    figures: (value, what it is) of each.
    rows: of a table, a header first.
    paragraphs: below them.
  """
  title: str
  figures: Sequence[tuple[str, str]] = ()
  rows: Sequence[tuple[str, ...]] = ()
  paragraphs: Sequence[str] = ()


def on_device(report: Report) -> Iterator[Section]:
  """The parts on what lives on the device, but for empty ones."""
  yield Section(
      'living on the device',
      [(f'{h.local_nbytes:,}', f'{h.sort}, {h.tensors:,} in all, {h.nbytes:,} '
        'bytes of one copy') for h in report.held],
      paragraphs=[_held_text(report)])
  yield Section('bytes on a device, by module', rows=by_module(report))
  advised = advise(report)
  if advised:
    yield Section('could be split further', paragraphs=advised)


def what_ran(report: Report) -> Iterator[Section]:
  """The parts on boundaries, programs and counts."""
  if report.boundaries:
    yield Section(
        'boundaries', paragraphs=[*map(_boundary_text, report.boundaries)])
  title = f'programs compiled {report.since}'
  if report.programs is None:
    yield Section(
        title,
        paragraphs=[
            'not known: the mode is off, and only the door sees programs'
        ])
  else:
    smallest = ', '.join(
        f'{count} {kind} by {cause}, {nbytes:,} bytes' for kind, cause, count,
        nbytes in collective_causes(report)[:_SMALLEST_SHOWN])
    yield Section(
        title, [(f'{c.count} {c.kind}', f'{c.nbytes:,} bytes, the smallest '
                 f'{c.smallest:,}') for c in collective_totals(report)],
        _program_rows(report), [
            *_program_notes(report),
            *([f'the smallest, by cause: {smallest}'] if smallest else [])
        ])
  yield Section(f'compiles and traces {report.since}',
                [(_count_text(report.counts[name]), text)
                 for name, text in _COUNT_TEXTS.items()])


def advise(report: Report) -> list[str]:
  """A line for each of the largest that axes of the mesh could split.

  What is smaller than a hundredth of all is left out.
  """
  savings = [(_saved(fold, parts), fold, parts)
             for fold in folded(report)
             for parts in (splits(fold.row, report.mesh),)
             if parts]
  least = report.totals.nbytes / 100
  savings.sort(key=lambda f: -f[0])
  return [
      f'{fold.name} {list(fold.row.shape)}: {_axes_text(parts)}, {saved:,} bytes '
      'less on each device'
      for saved, fold, parts in savings[:_ADVICE_SHOWN]
      if len(fold.names) * fold.row.nbytes >= least
  ]


def splits(row: TensorRow,
           mesh: Sequence[tuple[str, int]]) -> list[tuple[str, int, int]]:
  """The further splits of a tensor: (axis, its size, dimension).

  Axes that do not split it, the largest first, each on the dimension of which a
  device has most by then, where it divides that.
  """
  local_shape, extra_splits = list(row.local_shape), []
  for axis, size in sorted(mesh, key=lambda a: -a[1]):
    dims = [d for d, n in enumerate(local_shape) if n >= size and not n % size]
    if axis in row.unused_axes and dims:
      dim = max(dims, key=lambda d: local_shape[d])
      local_shape[dim] //= size
      extra_splits.append((axis, size, dim))
  return extra_splits


def _saved(fold: Fold, parts: Sequence[tuple[str, int, int]]) -> int:
  tiles = math.prod(size for _, size, _ in parts)
  local = fold.row.local_nbytes
  return len(fold.names) * (local - local // tiles)


def _axes_text(parts: Sequence[tuple[str, int, int]]) -> str:
  return ', '.join(f'{axis} ({size}) could split dimension {dim}'
                   for axis, size, dim in parts)


def by_module(report: Report) -> list[tuple[str, ...]]:
  """A header, a row for each module that owns a tensor or has a boundary, sums.
  """
  sums: dict[str, list[int]] = {}
  is_known = True
  for module, column, nbytes in _parts(report):
    is_known = is_known and nbytes is not None
    sums.setdefault(f'{module}.', [0] * 4)[column] += nbytes or 0
  alike = folded_names({name: tuple(row) for name, row in sums.items()})
  names: dict[str, list[str]] = {}
  for name in sums:
    names.setdefault(name if name in alike else group_of(name), []).append(name)
  rows = [(_title(group,
                  names[group]), *(f'{n * len(names[group]):,}' if n else '-'
                                   for n in row))
          for group, row in alike.items()]
  together = [f'{sum(column):,}' for column in zip([0] * 4, *sums.values())]
  if not is_known:
    together[-1] += ', without those that torch.compile traced'
  return [_MODULE_HEADER, *rows, ('together', *together)]


def _title(group: str, names: Sequence[str]) -> str:
  title = group if len(names) > 1 else names[0]
  return title[:-1] + f' ({len(names)})' * (len(names) > 1) or _MODEL


def _parts(report: Report) -> Iterator[tuple[str, int, Optional[int]]]:
  """The bytes on a device of each tensor, by its module and column.

  As (module, column after its name, bytes; None: not known).
  """
  for row in report.tensors:
    module = row.name.rpartition('.')[0]
    yield module, 0, row.local_nbytes
    for state in row.beside:
      yield module, 1 if state.role == GRADIENT else 2, state.local_nbytes
  for boundary in report.boundaries:
    for activation in boundary.activations:
      yield boundary.module, 3, activation.local_nbytes


def _count_text(count: Optional[int]) -> str:
  return 'not known: the counters were cleared' if count is None else str(count)


def _held_text(report: Report) -> str:
  """The bytes on each device in all, and those of the largest program."""
  total = sum(h.local_nbytes for h in report.held)
  text = f'together {total:,} bytes on a device. '
  program = report.largest_program
  if program is None or program.memory is None:
    return text + 'What programs take: the backend does not tell'
  rest = program.memory.arguments - total
  return (
      f'{text}{program.name} takes most: {program.memory.peak:,} bytes. ' +
      (f'{rest:,} bytes of its arguments are none of these: inputs, constants'
       if rest >= 0 else f'{-rest:,} bytes of these it does not take'))


def _boundary_text(row: BoundaryRow) -> str:
  """The activations that a boundary marked."""
  where = row.module or _MODEL
  output = '' if row.output is None else f' [{row.output}]'
  parts = []
  for activation in row.activations:
    part = ('traced by torch.compile' if activation.shape is None else
            f'{list(activation.shape)}, {list(activation.local_shape)} on a '
            f'device, {activation.local_nbytes:,} bytes')
    if activation.constrained is not None:
      part += f', {activation.constrained} constraint(s) in programs'
    parts.append(part)
  priority = '' if row.priority is None else f' priority {row.priority}'
  ran = '; '.join(parts) if parts else (
      'never ran' if row.hooked else 'no hook')
  return f'{where}{output}  {row.spec}{priority}  {ran}'


def _program_rows(report: Report) -> list[tuple[str, ...]]:
  """A header, and each program with its shardings and bytes on a device.

  Those that are alike are a row; the name has their number in brackets.
  """
  rows: collections.Counter[tuple[str, ...]] = collections.Counter()
  for row in report.programs or ():
    m = row.memory
    nbytes = ('-',) * 5 if m is None else tuple(
        f'{n:,}' for n in (m.peak, m.arguments, m.outputs, m.aliases,
                           m.temporaries))
    key = (row.name, row.partitioner, str(row.v2), str(row.v1), *nbytes)
    rows[key] += 1
  return [('program', 'by', 'V2', 'V1', 'bytes', 'arguments', 'results',
           'in place', 'temporaries'),
          *((name if count == 1 else f'{name} ({count})', *cells)
            for (name, *cells), count in rows.items())]


def _program_notes(report: Report) -> Iterator[str]:
  """Collectives and notes of programs; of those that are alike once."""
  names: dict[str, dict[str, None]] = {}
  for row in report.programs or ():
    moved = ('the backend does not tell' if row.collectives is None else
             ', '.join(f'{c.count} {c.kind} ({c.nbytes:,} bytes, the smallest '
                       f'{c.smallest:,})' for c in row.collectives) or 'none')
    notes = [f'collectives: {moved}']
    if row.partitions != len(report.devices):
      notes.append(f'{row.partitions} partitions')
    if row.why_not_v2:
      notes.append('not V2: ' +
                   '; '.join(f'{n} x {why}' for why, n in row.why_not_v2))
    if row.note:
      notes.append(f'note: {row.note}')
    for note in notes:
      names.setdefault(note, {})[row.name] = None
  for note, of in names.items():
    yield f'{", ".join(of)}  {note}'
