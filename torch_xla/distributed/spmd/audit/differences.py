"""Everything that makes an audit fail, found in its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import dataclasses
import fractions
from typing import Any, Optional, Union

from torch_xla.distributed.spmd.policy.held import untied_text
from torch_xla.shardy.compile.record import lost_text
from torch_xla.shardy.gate import sizes

from .placement import PENDING
from .report import (Report, BoundaryRow, Difference, GRADIENT, Kind,
                     ProgramRow, Seen, TensorRow, UNMARKED, WHOLE)


def find(report: Report, problems: Sequence[Any],
         untied: Sequence[tuple[str, str]]) -> tuple[Difference, ...]:
  """All differences, in the order of the report.

  Args:
    problems: where the policy does not fit the model.
    untied: pairs of names of what was one weight.
  """
  differences = [
      Difference(Kind.POLICY, problem.name or '(the model)', problem.text)
      for problem in problems
  ]
  differences += _nothing_ran(report)
  differences += _nothing_marked(report)
  differences += (Difference(Kind.UNTIED, name, untied_text(name, other))
                  for name, other in untied)
  for row in report.tensors:
    differences += (
        dataclasses.replace(d, nbytes=row.nbytes)
        for d in (*_of_tensor(row, report.policy), *_of_state(row)))
  differences += _held_twice(report)
  for boundary in report.boundaries:
    differences += _of_boundary(boundary, report.since)
  for program in report.programs or ():
    differences += _of_program(program)
  differences += _of_totals(report)
  return tuple(differences)


def allowed(tolerance: Union[int, str, None], nbytes: int) -> Optional[int]:
  """The bytes that may be copies: 512, '16MiB', or '2%' of all bytes."""
  if tolerance is None:
    return None
  text = str(tolerance)
  try:
    if text.endswith('%') and '-' not in text:
      return int(nbytes * fractions.Fraction(text[:-1]) / 100)
    return sizes.parse(text)
  except (ValueError, ZeroDivisionError) as e:
    raise ValueError(
        f'tolerance {tolerance!r} is neither a number of bytes, 0 or more, nor '
        "a percentage of all bytes, as '2%'") from e


def _nothing_ran(report: Report) -> Iterator[Difference]:
  compiles = report.counts['compiles']
  if report.programs == () or (report.programs is None and compiles == 0):
    yield Difference(
        Kind.NOTHING_RAN, 'programs',
        f'none was compiled {report.since}, so nothing is known of what runs: '
        'audit after a step. A graph that this process compiled before, or '
        'that a persistent compilation cache has, does not count')


def _nothing_marked(report: Report) -> Iterator[Difference]:
  if report.policy == 'captured' and report.mode == 'shardy' and all(
      row.annotation.sharding is None for row in report.tensors):
    yield Difference(
        Kind.NEVER_ANNOTATED, '(the model)',
        'nothing of it is marked: mark its weights, or apply a policy')


def _of_tensor(row: TensorRow, origin: str) -> Iterator[Difference]:
  is_unmarked = row.annotation.sharding is None
  if is_unmarked and origin == 'applied':
    yield Difference(
        Kind.NEVER_ANNOTATED, row.name,
        f'{row.kind} {list(row.shape)}: no mark on it is known: it was made, '
        'replaced or cleared after the policy was applied')
  if row.policy == UNMARKED and _placement(row.stored) != WHOLE:
    yield Difference(
        Kind.NEVER_ANNOTATED, row.name,
        'nobody marked it, and the compiler split it: mark it as it is stored, '
        'or replicated')
  if row.policy.sharding is None:
    return  # Among the problems of the policy, or left to the compiler.
  if is_unmarked and (origin == 'captured' or origin == 'given' and
                      row.rule == 'default' and row.stored.sharding is None):
    return  # Left to the compiler, and whole where that has not placed it.
  if not is_unmarked:
    yield from _differs(row, Kind.ANNOTATION, row.annotation, 'it is marked')
  if row.stored.sharding is None:
    yield Difference(Kind.STORED, row.name, f'not known: {row.stored.unknown}')
  else:
    yield from _differs(row, Kind.STORED, row.stored, 'it is stored')
  for seen in row.compiled:
    if seen.programs:
      yield from _differs(row, Kind.COMPILED, seen,
                          f'{", ".join(seen.programs)} takes it')


def _of_state(row: TensorRow) -> Iterator[Difference]:
  """An optimizer's state as large as its weight that lies otherwise.

  What takes less is split on purpose, as ZeRO's first stage does.
  """
  for state in row.beside:
    if (state.role != GRADIENT and state.shape == row.shape and
        state.stored.unknown != PENDING and
        _placement(state.stored) != _placement(row.stored) and
        state.local_nbytes * row.nbytes >= row.local_nbytes * state.nbytes):
      yield Difference(
          Kind.STATE, row.name,
          f'{state.role} does not follow its weight, stored as '
          f'{_placement(row.stored)}: it is stored as '
          f'{_placement(state.stored)}, {state.local_nbytes:,} bytes on each '
          'device. Make the optimizer after the weights are marked, or mark '
          'its state as they are')


def _held_twice(report: Report) -> Iterator[Difference]:
  whole = {
      (other.shape, other.dtype): other
      for other in report.others
      if _placement(other.stored) == WHOLE and len(other.shape) > 1
  }
  for row in report.tensors:
    other = whole.get((row.shape, row.dtype))
    if other is not None and row.local_nbytes < row.nbytes:
      yield Difference(
          Kind.HELD_TWICE, row.name,
          f'it is split, and {other.count} other tensor(s) of its shape '
          f'{list(row.shape)} and type {row.dtype} live whole on each device, '
          f'{other.local_nbytes:,} bytes each: a copy without its mark? Mark '
          'it as the weight is, or drop it', row.nbytes)


def _placement(seen: Seen) -> str:
  """What nobody placed is whole on each device."""
  return seen.sharding or WHOLE


def _differs(row: TensorRow, kind: Kind, observed: Seen,
             place: str) -> Iterator[Difference]:
  if observed.sharding is None:
    yield Difference(kind, row.name, f'not known: {observed.unknown}')
  elif observed.sharding != row.policy.sharding:
    yield Difference(
        kind, row.name, f'the policy says {row.spec}, {row.policy.sharding}, '
        f'and {place} as {observed.sharding}')
  if kind is not Kind.STORED and observed.priority != row.policy.priority:
    yield Difference(
        kind, row.name, f'the policy says priority {row.policy.priority}, and '
        f'{place} with priority {observed.priority}')


def _of_boundary(row: BoundaryRow, since: str) -> Iterator[Difference]:
  name = row.module or '(the model)'
  if not row.hooked:
    yield Difference(
        Kind.BOUNDARY, name,
        f'the policy marks its result {row.spec}, and no hook does so: it was '
        'applied otherwise, or removed')
  for activation in row.activations:
    place = ('its result' if activation.shape is None else
             f'its result {list(activation.shape)}')
    for dim, tiles in activation.uneven:
      yield Difference(
          Kind.BOUNDARY, name,
          f'dimension {dim} of {place} does not divide into {tiles}, as '
          f'{row.spec} asks')
    if activation.constrained == 0:
      yield Difference(
          Kind.BOUNDARY, name,
          f'no program that was compiled {since} constrains {place} to '
          f'{row.spec}, priority {row.priority}')


def _of_program(row: ProgramRow) -> Iterator[Difference]:
  if row.fallback:
    yield Difference(Kind.FALLBACK, row.name,
                     f'partitioned by {row.partitioner}: {row.note}')
  if row.lost:
    yield Difference(Kind.ANNOTATION, row.name, lost_text(row.lost))


def _of_totals(report: Report) -> Iterator[Difference]:
  totals = report.totals
  if (totals.tolerance is not None and
      totals.replicated_nbytes > totals.tolerance):
    largest = max(report.tensors, key=lambda row: row.replicated_nbytes)
    yield Difference(
        Kind.REPLICATED_BYTES, 'all tensors',
        f'{totals.replicated_nbytes:,} bytes are copies, and '
        f'{totals.tolerance:,} are allowed; the most, '
        f'{largest.replicated_nbytes:,}, are of {largest.name}')
