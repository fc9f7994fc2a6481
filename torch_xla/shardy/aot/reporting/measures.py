"""Measures one program, or a whole report: how much, and whose, or why not."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Optional

from ...door.memory import Memory
from ..report import CollectiveUse, Program, AotReport
from ...gate.quantity import Measure
from .steady_step import never_steady, steady_step

OfProgram = Callable[[Program], Measure]


def label(program: Program) -> str:
  """A program for people: its name, and where it was asked for."""
  if not program.called_from:
    return program.name
  return f'{program.name} ({program.called_from[0]})'


def largest(of_program: OfProgram, report: AotReport) -> Measure:
  """The largest over all programs; not known if that of any is not."""
  if not report.programs:
    return Measure(None, unknown='no program was compiled')
  measures = [
      dataclasses.replace(of_program(p), place=label(p))
      for p in report.programs
  ]
  unknown = [m for m in measures if m.value is None]
  # Of several the first; max does so, too.
  return unknown[0] if unknown else max(measures, key=lambda m: m.value)


def over_step(of_program: OfProgram, report: AotReport) -> Measure:
  """The sum over one step after warm-up."""
  step = steady_step(report)
  if step.unknown:
    return Measure(None, unknown=step.unknown)
  measures = [of_program(p) for p in step.programs]
  unknown = [m for m in measures if m.value is None]
  return unknown[0] if unknown else Measure(sum(m.value for m in measures))


def memory(read: Callable[[Memory], int], program: Program) -> Measure:
  """The measure that `read` gives of a program's memory."""
  if program.memory is None:
    return _untold(program, 'of its memory')
  return Measure(read(program.memory))


def peak(program: Program) -> Measure:
  """All that is on a device while the program runs."""
  if program.peak is None:
    return _untold(program, 'of its memory')
  return Measure(program.peak)


def memory_beside(program: Program) -> Measure:
  """The memory that is none of the program's."""
  return Measure(program.beside)


def flops(program: Program) -> Measure:
  if program.flops is None:
    return _untold(program, 'of its flops')
  exact = float(program.flops).is_integer()
  return Measure(int(program.flops) if exact else program.flops)


def cycles(program: Program) -> Measure:
  if program.cycles is None:
    return _untold(program, 'of its cycles')
  return Measure(program.cycles.total)


def collectives(kind: str, quantity: str, over: Optional[tuple[str, ...]],
                program: Program) -> Measure:
  """The sum over the collectives of one kind.

  Args:
    kind: 'all-gather', or 'collective' for all of them.
    what: 'bytes' or 'count'.
    over: as `runs_over` gives it; None: over whatever.
  """
  if program.error:
    return _untold(program, 'of its collectives')
  found = [
      use for use in program.collectives
      if kind in ('collective', use.kind) and over in (None, runs_over(use))
  ]
  return Measure(
      sum(u.nbytes if quantity == 'bytes' else u.count for u in found))


def runs_over(use: CollectiveUse) -> tuple[str, ...]:
  """The axes in alphabetical order, or the groups where no mesh has them."""
  return tuple(sorted(use.axes)) or (use.groups,)


def after_warm_up(report: AotReport) -> Measure:
  """Programs that were compiled after warm-up."""
  never = never_steady(report)
  if never:
    return Measure(None, unknown=never)
  return Measure(len(report.programs_after_warm_up))


def _untold(program: Program, what: str) -> Measure:
  why = 'it was refused' if program.error else f'the compiler does not tell {what}'
  return Measure(None, unknown=f'{label(program)}: {why}')
