"""The numbers of a report by name, as requirements and comparisons say them.

All are of one device. Memory is that of the program which needs the most of it.
Flops, cycles and what collectives move are those of one step after warm-up:
the sum over the programs that run in each (`AotReport.step_programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import dataclasses
import re
from typing import Optional

from ..report import CollectiveUse, Program, AotReport
from ...gate import quantity
from ...gate.quantity import Measure, Number, Unit
from ...hlo.compiled_program import COLLECTIVES

OfProgram = Callable[[Program], Measure]

ALL_COLLECTIVES = 'collective'
KINDS = (ALL_COLLECTIVES, *COLLECTIVES)
_COLLECTIVE = re.compile(f'(?P<kind>{"|".join(KINDS)}) (?P<what>bytes|count)')
# What else people call a quantity.
_OTHER_NAMES = {
    'compiles': 'programs',
    'recompiles': 'programs after warm-up',
    'retraces': 'programs after warm-up',
    'hbm': 'peak',
    'memory': 'peak',
    'flop': 'flops',
    'time': 'cycles',
    'inputs': 'arguments',
    'results': 'outputs',
    'errors': 'refused',
}


@dataclasses.dataclass(frozen=True)
class Quantity(quantity.Quantity):
  """A number that reports can be held to.

  Attributes:
    of_program: its value of one program; None where programs have none.
  """
  of_program: Optional[OfProgram] = None


def plain() -> tuple[Quantity, ...]:
  """All that are not of collectives."""
  return (
      _counted('programs', lambda report: len(report.programs)),
      Quantity('programs after warm-up', Unit.COUNT, _after_warm_up),
      _counted('refused',
               lambda report: sum(bool(p.error) for p in report.programs)),
      _counted('fallbacks',
               lambda report: sum(map(report.is_fallback, report.programs))),
      _counted('reads', lambda report: report.reads),
      _largest('peak', lambda p: p.peak),
      _largest('beside', lambda p: p.beside),
      _largest('arguments', lambda p: p.memory and p.memory.arguments),
      _largest('outputs', lambda p: p.memory and p.memory.outputs),
      _largest('aliases', lambda p: p.memory and p.memory.aliases),
      _largest('temporaries', lambda p: p.memory and p.memory.temporaries),
      _largest('code', lambda p: p.memory and p.memory.code),
      _over_step('flops', Unit.FLOPS, _flops, 'flops'),
      _over_step('cycles', Unit.CYCLES, lambda p: p.cycles and p.cycles.total,
                 'cycles'),
  )


def of_uses(uses: Iterable[CollectiveUse]) -> tuple[Quantity, ...]:
  """Bytes and count of all collectives together, and of each kind and axes."""
  keys = sorted({(u.kind, runs_over(u)) for u in uses})
  return tuple(
      _collective(kind, what, over)
      for kind, over in [(ALL_COLLECTIVES, None), *keys]
      for what in ('bytes', 'count'))


def named(name: str) -> Quantity:
  """The quantity called so: 'peak', 'all-gather bytes over data,model'.

  Raises:
    UnknownQuantityError: there is none; the message lists all.
  """
  base, over, axes_text = ' '.join(name.split()).partition(' over ')
  match = _COLLECTIVE.fullmatch(base)
  if not over or not match:
    both = (_collective(k, w, None) for k in KINDS for w in ('bytes', 'count'))
    return quantity.find(name, {q.name: q for q in (*plain(), *both)},
                         _OTHER_NAMES)
  axes = tuple(sorted({a.strip() for a in axes_text.split(',')}))
  over_axes = _collective(match['kind'], match['what'], axes)

  def of_report(report: AotReport) -> Measure:
    known = axes_of(report)
    for axis in axes:
      if axis not in known:
        return Measure(
            None,
            unknown=f'no mesh of the script has an axis {axis!r}; there are: '
            f'{", ".join(known) or "none"}')
    return over_axes.of_report(report)

  return dataclasses.replace(over_axes, of_report=of_report)


def known() -> str:
  """The names of all quantities, in a line."""
  return (', '.join(q.name for q in plain()) +
          '; and bytes or count, with or without "over AXIS,AXIS", of: ' +
          ', '.join(KINDS))


def axes_of(report: AotReport) -> tuple[str, ...]:
  """The axes of all meshes of a report, each once."""
  return tuple(
      dict.fromkeys(
          part.partition('=')[0].strip()
          for mesh in report.meshes
          for part in mesh.split(',')))


def runs_over(use: CollectiveUse) -> tuple[str, ...]:
  """The axes in alphabetical order, or the groups where no mesh has them."""
  return tuple(sorted(use.axes)) or (use.groups,)


def _counted(name: str, count: Callable[[AotReport], int]) -> Quantity:
  return Quantity(name, Unit.COUNT, lambda report: Measure(count(report)))


def _after_warm_up(report: AotReport) -> Measure:
  never = report.never_steady
  return Measure(None if never else len(report.programs_after_warm_up), '',
                 never)


def _flops(program: Program) -> Optional[Number]:
  flops = program.flops
  return flops if flops is None or flops % 1 else int(flops)


def _largest(name: str, read: Callable[[Program], Optional[int]]) -> Quantity:
  """Bytes, of the program that has most; not known if those of any are not."""
  of_program = _measured(read, 'memory')

  def of_report(report: AotReport) -> Measure:
    if not report.programs:
      return Measure(None, unknown='no program was compiled')
    measures = [
        dataclasses.replace(of_program(p), place=p.label)
        for p in report.programs
    ]
    unknown = [m for m in measures if m.value is None]
    # Of several the first; max does so, too.
    return unknown[0] if unknown else max(measures, key=lambda m: m.value)

  return Quantity(name, Unit.BYTES, of_report, of_program)


def _over_step(name: str, unit: Unit, read: Callable[[Program],
                                                     Optional[Number]],
               fact: str) -> Quantity:
  """The sum over one step after warm-up."""
  of_program = _measured(read, fact)

  def of_report(report: AotReport) -> Measure:
    if report.unknown_step:
      return Measure(None, unknown=report.unknown_step)
    measures = [of_program(p) for p in report.step_programs]
    unknown = [m for m in measures if m.value is None]
    return unknown[0] if unknown else Measure(sum(m.value for m in measures))

  return Quantity(name, unit, of_report, of_program)


def _collective(kind: str, amount: str, over: Optional[tuple[str,
                                                             ...]]) -> Quantity:
  """The sum over the collectives of one kind, or 'collective': of all.

  Args:
    over: as `runs_over` gives it; None: over whatever.
  """

  def read(program: Program) -> Optional[int]:
    return None if program.error else sum(
        use.nbytes if amount == 'bytes' else use.count
        for use in program.collectives
        if kind in (ALL_COLLECTIVES, use.kind) and over in (None,
                                                            runs_over(use)))

  return _over_step(
      f'{kind} {amount}' + (f' over {",".join(over)}' if over else ''),
      Unit.BYTES if amount == 'bytes' else Unit.COUNT, read, 'collectives')


def _measured(read: Callable[[Program], Optional[Number]],
              fact: str) -> OfProgram:

  def measure(program: Program) -> Measure:
    value = read(program)
    if value is not None:
      return Measure(value)
    why = ('it was refused'
           if program.error else f'the compiler does not tell of its {fact}')
    return Measure(None, unknown=f'{program.label}: {why}')

  return measure
