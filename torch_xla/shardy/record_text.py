"""Draws a program's record as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
import re

from .records import ProgramRecord, TensorRecord

_HEADER = ('tensor', 'shape', 'asked for', 'priority', 'told Shardy',
           'on a device')
_DIMS = re.compile(r'\[(?:[^\[\]])*\](?=>)')


def table(record: ProgramRecord) -> str:
  """The record in lines: how it was compiled, its tensors, its collectives.

  Tensors that nobody annotated and that every device holds whole are counted,
  not listed.
  """
  lines = [summary(record)]
  listed = [t for t in record.tensors if t.spec or not is_replicated(t)]
  rows = [_row(tensor) for tensor in listed]
  if rows:
    lines += [f'  {line}' for line in columns([_HEADER, *rows])]
  rest = len(record.tensors) - len(listed)
  if rest:
    lines.append(f'  and {rest} held whole on every device')
  lines.append(f'  collectives: {collectives(record)}')
  if record.note:
    lines.append(f'  note: {record.note}')
  if record.error:
    lines.append(f'  error: {record.error}')
  return '\n'.join(lines)


def summary(record: ProgramRecord) -> str:
  """One line: name, partitioner, partitions, shardings, seconds."""
  return (f'{record.name or "(StableHLO)"}  {record.partitioner.value}  '
          f'{record.options.num_partitions} partitions  '
          f'shardings: {record.shardings.v2} V2 {record.shardings.v1} V1  '
          f'compiled in {record.seconds:.2f} s')


def collectives(record: ProgramRecord) -> str:
  """The collectives by kind: '2 all-reduce (1,024 bytes)'."""
  if record.collectives is None:
    return 'the backend does not tell'
  if not record.collectives:
    return 'none'
  return ', '.join(
      f'{c.count} {c.kind} ({c.nbytes:,} bytes)' for c in record.collectives)


def is_replicated(tensor: TensorRecord) -> bool:
  return tensor.placement == '{replicated}'


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
  """Rows as lines of aligned columns."""
  widths = [max(map(len, column)) for column in zip(*rows)]
  return [
      '  '.join(cell.ljust(width)
                for cell, width in zip(row, widths)).rstrip()
      for row in rows
  ]


def _row(tensor: TensorRecord) -> tuple[str, ...]:
  what = (
      tensor.instruction
      if tensor.parameter is None else f'parameter {tensor.parameter}')
  dims = _DIMS.search(tensor.sdy)
  return (tensor.name or what, str(tensor.shape), tensor.spec or
          '-', '-' if tensor.priority is None else str(tensor.priority),
          dims.group() if dims else '-',
          '-' if tensor.local_shape is None else str(tensor.local_shape))
