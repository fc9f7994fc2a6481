"""Reports as the sections of a golden file, held to it within tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import comparison, matching, quantities
from .quantities import Quantity
from ..report import AotReport
from ...gate import golden
from ...gate.golden import Golden
from ...gate.quantity import Measure, Unit
from ...gate.requirements import Tolerance
from ...layers import many_text

TOOL = 'aot'
# Facts and quantities that go by how many steps a script took.
_COUNTS = ('steps', 'ended', 'reads')
_OF_PROGRAMS = ('fits', 'partitioner', 'partitions', 'note', 'error')


def of_reports(reports: Sequence[AotReport]) -> Golden:
  """The contents of a golden file of these reports.

  A subject is a topology, or a program there. Its name is where in the user's
  code it was asked for, without lines: names of programs tell nothing, for
  torch_xla numbers them by what it traced before. Left out is what this machine
  took (seconds, its memory), digests, and the names of tensors.
  """
  sections: dict[str, dict[str, dict[str, Any]]] = {
      name: {} for name in golden.SECTIONS
  }

  def add(subject: str, facts: Mapping[str, str],
          measured: Mapping[Quantity, Measure]) -> None:
    for name, text in facts.items():
      section = ('counts' if name in _COUNTS else
                 'programs' if name in _OF_PROGRAMS else 'placements')
      sections[section].setdefault(subject, {})[name] = golden.steady(text)
    for quantity, measure in measured.items():
      sections[_section(quantity)].setdefault(
          subject, {})[quantity.name] = ('not known' if measure.value is None
                                         else measure.value)

  for report in reports:
    topology = report.topology.name
    add(topology, comparison.facts(report),
        {q: q.of_report(report) for q in comparison.report_quantities([report])})
    for name, program in zip(matching.names(report.programs), report.programs):
      add(f'{topology}: {name}', comparison.program_facts(program), {
          q: q.of_program(program)
          for q in comparison.program_quantities([program])
      })
  return Golden(TOOL, sections,
                ', '.join(dict.fromkeys(r.topology.compiler for r in reports)))


def title(subjects: Sequence[str]) -> str:
  """The name of a topology, its programs, or both together."""
  topology, *programs = subjects
  if programs and all(p.startswith(f'{topology}: ') for p in programs):
    return f'{topology} and {len(programs)} of its programs'
  return many_text(subjects)


def changes(was: Golden, now: Golden,
            tolerances: Sequence[Tolerance]) -> tuple[golden.Change, ...]:
  """The differences from the golden file beyond tolerances.

  Better than that is a change too, or the golden file would go stale.

  Args:
    tolerances: of what has none, every digit counts. Of several for one
      quantity, the last. One of 'all-gather bytes' also holds for 'all-gather
      bytes over model', one of 'collective bytes' for all collectives, where
      they have none of their own; one of 'programs' for programs that one has
      alone.
  """
  allowed = {t.name: t for t in tolerances}

  def tolerance(name: str) -> Tolerance:
    for wider in quantities.wider_names(name):
      if wider in allowed:
        return allowed[wider]
    return Tolerance(name)

  all_changes = golden.changes(was, now, tolerance)

  def is_allowed(change: golden.Change) -> bool:
    topology, colon, _ = change.subject.partition(': ')
    if not colon or change.text not in (golden.GONE, golden.NEW):
      return False
    programs = sum(
        subject.startswith(f'{topology}: ')
        for subject in was.sections[change.section])
    alike = sum(c.text == change.text and c.subject.startswith(f'{topology}: ')
                for c in all_changes)
    return tolerance('programs').allows(programs, programs + alike)

  return tuple(change for change in all_changes if not is_allowed(change))


def _section(quantity: Quantity) -> str:
  if quantity.name in _COUNTS:
    return 'counts'
  base, _, _ = quantity.name.partition(' over ')
  if base.rpartition(' ')[0] in quantities.KINDS:
    return 'collectives'
  return 'memory' if quantity.unit is Unit.BYTES else 'programs'
