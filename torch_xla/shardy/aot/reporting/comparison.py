"""Several reports of one script side by side, what differs first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import itertools
import re
from typing import Any, NamedTuple, Optional, Union

from . import quantities, wording
from .quantities import Quantity
from ..report import Program, AotReport
from ...gate import sizes
from ...layers import numbered
from ...gate.quantity import change_text, Measure
from ...compile.record import columns

_ABSENT = '-'
# More of a text is not shown in a column.
_WIDEST = 60
_LINE = re.compile(r':\d+(?= in |$)')
# The facts of a script and of a program that are no quantities, by name.
_Facts = Mapping[str, Callable[[Any], Union[str, int]]]
_OF_SCRIPT: _Facts = {
    'script': lambda r: ' '.join(r.script),
    'topology': lambda r: r.topology.name,
    'device': lambda r: r.topology.kind,
    'chips': lambda r: r.topology.chips,
    'devices': lambda r: r.topology.devices,
    'hosts': lambda r: r.topology.hosts,
    'slices': lambda r: r.topology.slices,
    'memory of a device': lambda r: sizes.text(r.topology.memory),
    'mode': lambda r: r.mode,
    'host': lambda r: r.host,
    'processes': lambda r: r.processes,
    'meshes': lambda r: '; '.join(r.meshes),
    'ended': lambda r: r.ended,
    'steps': lambda r: r.steps,
    'fits': lambda r: {
        True: 'yes',
        False: 'no',
        None: 'not known'
    }[r.fits],
    'compiler': lambda r: r.topology.compiler,
}
_OF_PROGRAM: _Facts = {
    'partitioner': lambda p: p.partitioner,
    'partitions': lambda p: p.partitions,
    'note': lambda p: p.note,
    'error': lambda p: p.error,
}
# What this machine took, which is compared with nothing.
_MEASURED: _Facts = {
    'compile seconds': lambda r: f'{sum(p.seconds for p in r.programs):,.1f}',
    'seconds in all': lambda r: f'{r.seconds:,.1f}',
    'memory of the run': lambda r: sizes.text(r.host_memory),
}
# The program of each report; None where it has none.
Match = tuple[Optional[Program], ...]


class Row(NamedTuple):
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


class Part(NamedTuple):
  """The rows of 'the script' or of a program, those that differ first."""
  name: str
  rows: tuple[Row, ...]

  @property
  def differing(self) -> tuple[Row, ...]:
    return tuple(row for row in self.rows if row.differs)

  @property
  def same(self) -> str:
    """The other rows, in one line; those absent are left out."""
    same = [row for row in self.rows if not row.differs]
    shown = ', '.join(f'{row.name} {row.values[0]}' for row in same
                      if row.values[0] != _ABSENT)
    return shown or 'nothing else' * bool(same)


class Comparison(NamedTuple):
  """Reports side by side.

  Attributes:
    labels: of the reports.
    parts: the whole script, then the programs that all reports have.
    unmatched: programs that not all have, a sentence each.
    measured: what this machine took.
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
                    tuple(_facts(_MEASURED, reports)))


def match(reports: Sequence[AotReport]) -> tuple[Match, ...]:
  """The programs of several reports of one script, side by side; each once."""
  named = [dict(zip(_names(r.programs), r.programs)) for r in reports]
  return tuple(
      tuple(programs.get(name)
            for programs in named)
      for name in dict.fromkeys(itertools.chain.from_iterable(named)))


def text(comparison: Comparison) -> str:
  """The comparison for a terminal."""
  rows: list[Sequence[str]] = [('', *comparison.labels)]
  for name, some in (*(
      (part.name, part.differing) for part in comparison.parts),
                     ('measured here', comparison.measured)):
    if some:
      rows.append((name, *('' for _ in comparison.labels)))
      rows += [(f'  {row.name}', *row.values) for row in some]
  lines = columns(rows)
  if not any(part.differing for part in comparison.parts):
    lines.append('nothing differs')
  lines += comparison.unmatched
  lines += [
      f'the same in {part.name}: {part.same}' for part in comparison.parts
      if part.same
  ]
  return wording.printable('\n'.join(lines))


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
  yield from _facts(_OF_SCRIPT, reports)
  uses = quantities.of_uses(use for report in reports
                            for program in report.step_programs
                            for use in program.collectives)
  for quantity in (*quantities.plain(), *uses):
    yield _row(quantity, [quantity.of_report(report) for report in reports])


def _of_programs(programs: Sequence[Program]) -> Iterator[Row]:
  yield from _facts(_OF_PROGRAM, programs)
  uses = quantities.of_uses(
      use for program in programs for use in program.collectives)
  for quantity in (*quantities.plain(), *uses):
    if quantity.of_program is not None:
      yield _row(quantity, [quantity.of_program(p) for p in programs])
  # Eight digits are enough to tell programs apart by eye.
  yield Row('program as sent', tuple(p.sent[:8] or _ABSENT for p in programs),
            len({p.sent for p in programs}) > 1)


def _facts(facts: _Facts, subjects: Sequence[Any]) -> Iterator[Row]:
  for name, read in facts.items():
    values = [read(subject) for subject in subjects]
    yield Row(name, tuple(map(_shown, values)), len(set(values)) > 1)


def _shown(value: Union[str, int]) -> str:
  if isinstance(value, int):
    return f'{value:,}'
  words = ' '.join(value.split()) or _ABSENT
  return words if len(words) <= _WIDEST else words[:_WIDEST] + '...'


def _row(quantity: Quantity, measures: Sequence[Measure]) -> Row:
  first, *_ = values = [measure.value for measure in measures]

  def shown(value: Optional[float]) -> str:
    if value is None:
      return 'not known'
    change = ('' if not first or value == first else
              f' ({change_text(first, value)})')
    return quantity.unit.short(value) + change

  return Row(quantity.name, tuple(map(shown, values)), len(set(values)) > 1)


def _title(programs: Sequence[Program], number: int) -> str:
  place = programs[0].called_from
  names = ' / '.join(dict.fromkeys(p.name for p in programs))
  return f'program {number}, {names}' + (f' ({place[0]})' if place else '')


def _unmatched(labels: Sequence[str],
               programs: Sequence[Optional[Program]]) -> str:
  having = [(name, p) for name, p in zip(labels, programs) if p is not None]
  return (f'only in {", ".join(name for name, _ in having)}: '
          f'{having[0][1].label}')
