"""The numbers of a report by name, as requirements and comparisons say them.

All are of one device. Memory is that of the program which needs the most of it.
Flops, cycles and what collectives move are those of one step after warm-up:
the sum over the programs that run in each (`steady_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import dataclasses
import functools
import re
from typing import Optional

from . import measures
from .measures import OfProgram
from ...door.memory import Memory
from ..report import CollectiveUse, AotReport
from ...gate import quantity
from ...gate.quantity import Measure, Unit
from ...hlo.compiled_program import COLLECTIVES

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

  def counted(name: str, count: Callable[[AotReport], int]) -> Quantity:
    return Quantity(name, Unit.COUNT, lambda report: Measure(count(report)))

  def largest(name: str, of_program: OfProgram) -> Quantity:
    return Quantity(name, Unit.BYTES,
                    functools.partial(measures.largest, of_program), of_program)

  def memory(name: str, read: Callable[[Memory], int]) -> Quantity:
    return largest(name, functools.partial(measures.memory, read))

  return (
      counted('programs', lambda report: len(report.programs)),
      Quantity('programs after warm-up', Unit.COUNT, measures.after_warm_up),
      counted('refused',
              lambda report: sum(bool(p.error) for p in report.programs)),
      counted('fallbacks',
              lambda report: sum(map(report.is_fallback, report.programs))),
      counted('reads', lambda report: report.reads),
      largest('peak', measures.peak),
      largest('beside', measures.memory_beside),
      memory('arguments', lambda m: m.arguments),
      memory('outputs', lambda m: m.outputs),
      memory('aliases', lambda m: m.aliases),
      memory('temporaries', lambda m: m.temporaries),
      memory('code', lambda m: m.code),
      _over_step('flops', Unit.FLOPS, measures.flops),
      _over_step('cycles', Unit.CYCLES, measures.cycles),
  )


def of_uses(uses: Iterable[CollectiveUse]) -> tuple[Quantity, ...]:
  """Bytes and count of all collectives together, and of each kind and axes."""
  keys = sorted({(u.kind, measures.runs_over(u)) for u in uses})
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


def _over_step(name: str, unit: Unit, of_program: OfProgram) -> Quantity:
  return Quantity(name, unit, functools.partial(measures.over_step, of_program),
                  of_program)


def _collective(kind: str, quantity: str,
                over: Optional[tuple[str, ...]]) -> Quantity:
  name = f'{kind} {quantity}'
  if over is not None:
    name += f' over {",".join(over)}'
  return _over_step(
      name, Unit.BYTES if quantity == 'bytes' else Unit.COUNT,
      functools.partial(measures.collectives, kind, quantity, over))
