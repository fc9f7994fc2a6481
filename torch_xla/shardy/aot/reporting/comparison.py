"""Several reports of one script side by side, what differs first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import dataclasses
import itertools
import re
from typing import Optional

from . import quantities, wording
from .measures import label
from .quantities import Quantity
from ..report import Program, AotReport
from .steady_step import steady_step
from ...gate import sizes
from ...layers import numbered
from ...gate.quantity import change_text, Measure, Number, Unit
from ...compile.record import columns

# Of a digest; enough to tell programs apart by eye.
_DIGITS = 8
_ABSENT = '-'
# More of a text is not shown in a column.
_WIDEST = 60
_LINE = re.compile(r':\d+(?= in |$)')

# The program of each report; None where it has none.
Match = tuple[Optional[Program], ...]


@dataclasses.dataclass(frozen=True)
class Row:
  """One quantity or fact in each report.

  Attributes:
    name: of the quantity.
    values: for people, one of each report; numbers that differ say by how much
      from the first.
    differs: whether they are not all the same, digit by digit.
  """
  name: str
  values: tuple[str, ...]
  differs: bool


@dataclasses.dataclass(frozen=True)
class Part:
  """The rows of one subject.

  Attributes:
    name: 'the script', 'one step after warm-up', or a program.
    rows: those that differ come first.
  """
  name: str
  rows: tuple[Row, ...]

  @property
  def differing(self) -> tuple[Row, ...]:
    return tuple(row for row in self.rows if row.differs)

  @property
  def same(self) -> tuple[Row, ...]:
    return tuple(row for row in self.rows if not row.differs)


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Reports side by side.

  Attributes:
    labels: of the reports.
    parts: the whole script, then the programs that all reports have.
    unmatched: programs that not all have, a sentence each.
    measured: what this machine took, which is compared with nothing.
  """
  labels: tuple[str, ...]
  parts: tuple[Part, ...]
  unmatched: tuple[str, ...]
  measured: tuple[Row, ...]


def compare(labelled: Sequence[tuple[str, AotReport]]) -> Comparison:
  """Reports side by side; programs are matched as `match` does.

  Args:
    labelled: (what it is called, report) of each, two or more.
  """
  labels = tuple(name for name, _ in labelled)
  reports = [report for _, report in labelled]
  matches = match(reports)
  whole = [m for m in matches if None not in m]
  return Comparison(labels,
                    (_part('the script', _of_script(reports)),
                     *(_part(_title(programs, i), _of_programs(programs))
                       for i, programs in enumerate(whole, 1))),
                    tuple(_unmatched(labels, m) for m in matches if None in m),
                    tuple(_measured(reports)))


def match(reports: Sequence[AotReport]) -> tuple[Match, ...]:
  """The programs of several reports of one script, side by side; each once."""
  named = [dict(zip(_names(r.programs), r.programs)) for r in reports]
  return tuple(
      tuple(programs.get(name)
            for programs in named)
      for name in dict.fromkeys(itertools.chain.from_iterable(named)))


def text(comparison: Comparison) -> str:
  """The comparison for a terminal."""
  header = ('', *comparison.labels)
  rows: list[Sequence[str]] = [header]
  for part in comparison.parts:
    if part.differing:
      rows.append((part.name, *('' for _ in comparison.labels)))
      rows += [(f'  {row.name}', *row.values) for row in part.differing]
  rows.append(('measured here', *('' for _ in comparison.labels)))
  rows += [(f'  {row.name}', *row.values) for row in comparison.measured]
  lines = columns(rows)
  if not any(part.differing for part in comparison.parts):
    lines.append('nothing differs')
  lines += comparison.unmatched
  lines += [
      f'the same in {part.name}: {same_text(part)}' for part in comparison.parts
      if part.same
  ]
  return wording.printable('\n'.join(lines))


def same_text(part: Part) -> str:
  """The rows that do not differ, in one line; those absent are left out."""
  return ', '.join(f'{row.name} {row.values[0]}' for row in part.same
                   if row.values[0] != _ABSENT) or 'nothing else'


def facts(report: AotReport) -> dict[str, str]:
  """The facts of a whole report that are words, by name."""
  topology = report.topology
  fits = {True: 'yes', False: 'no', None: 'not known'}[report.fits]
  return {
      'topology': topology.name,
      'device': topology.kind,
      'chips': f'{topology.chips:,}',
      'devices': f'{topology.devices:,}',
      'hosts': f'{topology.hosts:,}',
      'slices': f'{topology.slices:,}',
      'memory of a device': sizes.text(topology.memory),
      'mode': report.mode,
      'host': str(report.host),
      'processes': f'{report.processes:,}',
      'meshes': '; '.join(report.meshes) or _ABSENT,
      'ended': report.ended,
      'steps': f'{report.steps:,}',
      'fits': fits,
  }


def program_facts(program: Program) -> dict[str, str]:
  """The facts of a program that are words, by name."""
  return {
      'partitioner': program.partitioner,
      'partitions': f'{program.partitions:,}',
      'note': program.note or _ABSENT,
      'error': program.error or _ABSENT,
  }


def report_quantities(reports: Iterable[AotReport]) -> tuple[Quantity, ...]:
  """All that any of the reports has a value of."""
  return (*quantities.plain(), *quantities.of_uses(
      use for report in reports for program in steady_step(report).programs
      for use in program.collectives))


def program_quantities(programs: Iterable[Program]) -> tuple[Quantity, ...]:
  """All that any of the programs has a value of."""
  return (*(q for q in quantities.plain() if q.of_program is not None),
          *quantities.of_uses(
              use for program in programs for use in program.collectives))


def _names(programs: Sequence[Program]) -> list[str]:
  """Programs by where in the user's code they were asked for, without lines.

  Their own names tell nothing: torch_xla numbers them by what it traced before.
  Those of one place are numbered in their order.
  """
  return numbered(
      ', from '.join(_LINE.sub('', place)
                     for place in p.called_from) or 'program'
      for p in programs)


def _part(name: str, rows: Iterable[Row]) -> Part:
  return Part(name, tuple(sorted(rows, key=lambda row: not row.differs)))


def _of_script(reports: Sequence[AotReport]) -> Iterator[Row]:
  yield _words('script', [' '.join(report.script) for report in reports])
  yield from _facts_rows([facts(report) for report in reports])
  yield _words('compiler', [r.topology.compiler or _ABSENT for r in reports])
  for quantity in report_quantities(reports):
    yield _row(quantity, [quantity.of_report(report) for report in reports])


def _of_programs(programs: Sequence[Program]) -> Iterator[Row]:
  yield from _facts_rows([program_facts(program) for program in programs])
  for quantity in program_quantities(programs):
    assert quantity.of_program is not None
    yield _row(quantity, [quantity.of_program(p) for p in programs])
  digests = [p.sent for p in programs]
  short = tuple(digest[:_DIGITS] or _ABSENT for digest in digests)
  yield Row('program as sent', short, len(set(digests)) > 1)


def _facts_rows(found: Sequence[dict[str, str]]) -> Iterator[Row]:
  for name in found[0]:
    yield _words(name, [facts_[name] for facts_ in found])


def _words(name: str, values: Sequence[str]) -> Row:
  return Row(name, tuple(_shown(v) for v in values), len(set(values)) > 1)


def _shown(text_: str) -> str:
  words = ' '.join(text_.split())
  return words if len(words) <= _WIDEST else words[:_WIDEST] + '...'


def _row(quantity: Quantity, measures: Sequence[Measure]) -> Row:
  values = [measure.value for measure in measures]
  differs = len(set(values)) > 1
  return Row(
      quantity.name,
      tuple(
          _number(quantity.unit, value, values[0] if differs and i else None)
          for i, value in enumerate(values)), differs)


def _number(unit: Unit, value: Optional[Number],
            first: Optional[Number]) -> str:
  if value is None:
    return 'not known'
  shown = unit.short(value)
  if not first or value == first:
    return shown
  return f'{shown} ({change_text(first, value)})'


def _title(programs: Sequence[Program], number: int) -> str:
  place = programs[0].called_from
  names = ' / '.join(dict.fromkeys(p.name for p in programs))
  return f'program {number}, {names}' + (f' ({place[0]})' if place else '')


def _unmatched(labels: Sequence[str],
               programs: Sequence[Optional[Program]]) -> str:
  having = [(name, p) for name, p in zip(labels, programs) if p is not None]
  return (f'only in {", ".join(name for name, _ in having)}: '
          f'{label(having[0][1])}')


def _measured(reports: Sequence[AotReport]) -> Iterator[Row]:
  seconds = [sum(p.seconds for p in report.programs) for report in reports]
  for name, values in (
      ('compile seconds', [f'{s:,.1f}' for s in seconds]),
      ('seconds in all', [f'{report.seconds:,.1f}' for report in reports]),
      ('memory of the run', [sizes.text(r.host_memory) for r in reports]),
  ):
    yield Row(name, tuple(values), len(set(values)) > 1)
