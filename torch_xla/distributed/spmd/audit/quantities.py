"""The numbers of a report that may be required, by name."""

from __future__ import annotations

from collections.abc import Callable
import functools
from typing import Optional

from torch_xla.shardy.gate import quantity
from torch_xla.shardy.gate.quantity import Measure, Quantity, Unit
from torch_xla.shardy.hlo.compiled_program import COLLECTIVES

from .report import Report, collective_totals

_ALL = 'collective'


def named(name: str) -> Quantity:
  """The quantity called so: 'replicated bytes', 'all-gather count'.

  Raises:
    UnknownQuantityError: there is none; the message lists all.
  """
  return quantity.find(name, known(), {'memory': 'bytes per device'})


def known() -> dict[str, Quantity]:
  """All quantities; collectives are those of all programs, each once."""
  readers: list[tuple[str, Callable[[Report], Optional[int]]]] = [
      ('bytes', lambda r: r.totals.nbytes),
      ('bytes per device', lambda r: r.totals.local_nbytes),
      ('replicated bytes', lambda r: r.totals.replicated_nbytes),
      ('compiles', lambda r: r.counts['compiles']),
      ('living bytes per device',
       lambda r: sum(h.local_nbytes for h in r.held)),
      ('peak', lambda r: r.largest_program and r.largest_program.memory.peak),
      ('traces', _traces),
      ('programs', lambda r: None if r.programs is None else len(r.programs)),
      ('fallbacks', lambda r: None
       if r.programs is None else sum(p.fallback for p in r.programs)),
      *((f'{kind} {what}', functools.partial(_collectives, kind, field))
        for kind in (_ALL, *COLLECTIVES)
        for what, field in (('count', 'count'), ('bytes', 'nbytes'))),
  ]
  return {
      name:
          Quantity(name, Unit.BYTES if 'bytes' in name else Unit.COUNT,
                   functools.partial(_measure, read)) for name, read in readers
  }


def _traces(report: Report) -> Optional[int]:
  """Lazy graphs and graphs of torch.compile."""
  lazy, dynamo = (
      report.counts[name]
      for name in ('MarkStep', 'DynamoExtractCompiledGraph'))
  return None if lazy is None or dynamo is None else lazy + dynamo


def _measure(read: Callable[[Report], Optional[int]],
             report: Report) -> Measure:
  return Measure(
      read(report),
      unknown='the mode is off, the backend does not tell, or the counters '
      'were cleared')


def _collectives(kind: str, field: str, report: Report) -> Optional[int]:
  if report.programs is None or any(
      p.collectives is None for p in report.programs):
    return None
  return sum(
      getattr(row, field)
      for row in collective_totals(report)
      if kind in (_ALL, row.kind))
