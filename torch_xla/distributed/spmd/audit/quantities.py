"""The numbers of a report that may be required, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from torch_xla.shardy.gate.quantity import (Measure, nearest, Quantity, Unit,
                                            UnknownQuantityError)
from torch_xla.shardy.hlo.compiled_program import COLLECTIVES

from .report import AuditReport

_ALL = 'collective'
_OTHER_NAMES = {
    'memory': 'bytes per device',
    'recompiles': 'compiles',
    'replicated': 'replicated bytes',
}


def named(name: str) -> Quantity:
  """The quantity called so: 'replicated bytes', 'all-gather count'.

  Raises:
    UnknownQuantityError: there is none; the message lists all.
  """
  all_ = _quantities()
  words = ' '.join(name.split())
  if words in all_:
    return all_[words]
  near = nearest(words, {**{n: n for n in all_}, **_OTHER_NAMES})
  raise UnknownQuantityError(f'there is no quantity {words!r}' +
                             (f': did you mean {near!r}?' if near else '.') +
                             f' There are: {known()}')


def known() -> str:
  """The names of all quantities, in a line."""
  return ', '.join(_quantities())


def _quantities() -> dict[str, Quantity]:
  """By name; collectives are those of all programs, each as often as it says."""

  def of(name: str, unit: Unit, read: Callable[[AuditReport], Optional[int]],
         unknown: str) -> Quantity:
    return Quantity(name, unit,
                    lambda report: Measure(read(report), unknown=unknown))

  programs = 'the mode is off, and nobody sees programs'
  cleared = 'the counters were cleared'
  untold = 'the backend does not tell of all programs'
  found = [
      of('bytes', Unit.BYTES, lambda r: r.totals.nbytes, ''),
      of('bytes per device', Unit.BYTES, lambda r: r.totals.local_nbytes, ''),
      of('replicated bytes', Unit.BYTES, lambda r: r.totals.replicated_nbytes,
         ''),
      of('living bytes per device', Unit.BYTES,
         lambda r: sum(h.local_nbytes for h in r.held), ''),
      of('peak', Unit.BYTES, _peak, untold),
      of('traces', Unit.COUNT, _traces, cleared),
      of('compiles', Unit.COUNT, lambda r: r.counts['compiles'], cleared),
      of('programs', Unit.COUNT, lambda r: None
         if r.programs is None else len(r.programs), programs),
      of(
          'fallbacks', Unit.COUNT, lambda r: None
          if r.programs is None else sum(p.fallback for p in r.programs),
          programs),
  ]
  for kind in (_ALL, *COLLECTIVES):
    for what, unit in (('count', Unit.COUNT), ('bytes', Unit.BYTES)):
      found.append(of(f'{kind} {what}', unit, _collectives(kind, unit), untold))
  return {one.name: one for one in found}


def _peak(report: AuditReport) -> Optional[int]:
  program = report.largest_program
  return None if program is None or program.memory is None else (
      program.memory.peak)


def _traces(report: AuditReport) -> Optional[int]:
  """Lazy graphs and graphs of torch.compile."""
  lazy, dynamo = (
      report.counts[name]
      for name in ('MarkStep', 'DynamoExtractCompiledGraph'))
  return None if lazy is None or dynamo is None else lazy + dynamo


def _collectives(kind: str,
                 unit: Unit) -> Callable[[AuditReport], Optional[int]]:

  def read(report: AuditReport) -> Optional[int]:
    if report.programs is None or any(
        p.collectives is None for p in report.programs):
      return None
    return sum(row.nbytes if unit is Unit.BYTES else row.count
               for program in report.programs
               for row in program.collectives or ()
               if kind in (_ALL, row.kind))

  return read
