"""Priorities on TPU pods, judged by the TPU's own compiler.

Needs no TPU: `torch-xla-shardy aot` compiles scripts of `benchmarks/scripts`
ahead of time, for v5p and v6e at 8, 64 and 256 chips. Each runs under GSPMD,
under Shardy without priorities, and with each of two assignments; nothing else
in it changes.

  lookup      the model of examples/priority.py
  experts     a mixture of experts
  small ...   the same with less weights beside the tokens, at 8 chips

Of one training step and one chip: the bytes that collectives move, the
compiler's own estimate of its cycles, which leaves collectives out, and the
memory that it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
import concurrent.futures
import dataclasses
import sys
import time

# First, for the environment that torch_xla is imported in.
from . import ahead_of_time
from .errors import BenchmarkError
from .table_text import print_table
from torch_xla.shardy.aot import topologies
from torch_xla.shardy.aot.report import AotReport
from torch_xla.shardy.aot.reporting import quantities

Say = Callable[[str], None]
_SMALLEST = ('v5p:2x2x2', 'v6e:2x4')
_ALL = (*_SMALLEST, 'v5p:4x4x4', 'v6e:8x8', 'v5p:4x8x8', 'v6e:16x16')
_SECONDS = 1800
# What a compile takes is mostly on one core.
_AT_A_TIME = 2


@dataclasses.dataclass(frozen=True)
class Column:
  """A way to run a script.

  Attributes:
    title: of the column.
    shardy: whether Shardy partitions, or GSPMD.
    first: whose priority is higher, as the script says it.
  """
  title: str
  shardy: bool
  first: str = 'none'


@dataclasses.dataclass(frozen=True)
class Case:
  """A script with its sizes.

  Attributes:
    name: for people.
    script: in `benchmarks/scripts`, without its ending.
    assignments: of priorities, as the script calls them.
    arguments: of the script.
    topologies: that it is compiled for.
  """
  name: str
  script: str
  assignments: tuple[str, str]
  arguments: tuple[str, ...] = ()
  topologies: tuple[str, ...] = _ALL

  def columns(self) -> tuple[Column, ...]:
    return (Column('GSPMD', False), Column('no priorities', True),
            *(Column(f'{a} first', True, a) for a in self.assignments))


CASES = (
    Case('lookup', 'lookup', ('table', 'tokens')),
    Case('experts', 'experts', ('experts', 'tokens')),
    Case('small experts', 'experts', ('experts', 'tokens'), ('--hidden', '256'),
         _SMALLEST),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """One training step on one chip.

  Attributes:
    moved: bytes by collectives.
    by_kind: the same by kind.
    cycles: as the compiler estimates them, without collectives.
    peak: bytes of memory.
  """
  moved: int
  by_kind: dict[str, int]
  cycles: int
  peak: int


Outcomes = dict[tuple[str, str], dict[str, Outcome]]


def outcome_of(report: AotReport, shardy: bool) -> Outcome:
  """Returns the outcome of one step.

  Args:
    shardy: whether Shardy should have partitioned, or GSPMD.

  Raises:
    BenchmarkError: the script failed, the other partitioner was at work, or no
      step after warm-up is known.
  """
  where = f'{" ".join(report.script)} on {report.topology.name}'
  if report.failed:
    raise BenchmarkError(f'{where}: {report.ended}\n{report.traceback}')
  wanted = 'shardy' if shardy else 'gspmd'
  for program in report.programs:
    if program.partitioner != wanted:
      raise BenchmarkError(f'{where}: {program.name} was partitioned by '
                           f'{program.partitioner}: {program.note}')

  def value(name: str) -> int:
    measure = quantities.named(name).of_report(report)
    if measure.value is None:
      raise BenchmarkError(f'{where}: {name}: {measure.unknown}')
    return int(measure.value)

  kinds = sorted({
      use.kind
      for program in report.step_programs
      for use in program.collectives
  })
  return Outcome(
      value('collective bytes'),
      {kind: value(f'{kind} bytes') for kind in kinds}, value('cycles'),
      value('peak'))


def measure(cases: Sequence[Case], say: Say) -> Outcomes:
  """Compiles each case in each of its columns.

  Returns:
    By name of the case and topology, the outcomes by column.

  Raises:
    BenchmarkError: a script could not be run.
  """
  runs = [(case, column) for case in cases for column in case.columns()]

  def compile_one(run: tuple[Case, Column]) -> tuple[AotReport, ...]:
    case, column = run
    say(f'{case.name}: {column.title}')
    return ahead_of_time.run(ahead_of_time.SCRIPTS / f'{case.script}.py',
                             (*case.arguments, '--first', column.first),
                             case.topologies, column.shardy, _SECONDS)

  outcomes: Outcomes = {}
  with concurrent.futures.ThreadPoolExecutor(_AT_A_TIME) as pool:
    for (case, column), reports in zip(runs, pool.map(compile_one, runs)):
      for report in reports:
        row = outcomes.setdefault((case.name, report.topology.name), {})
        row[column.title] = outcome_of(report, column.shardy)
  return outcomes


def print_outcomes(case: Case, outcomes: Outcomes) -> None:
  """A table of one case, a row for each topology."""
  titles = [column.title for column in case.columns()]
  rows = []
  for name in sorted(case.topologies, key=_order):
    row = [outcomes[case.name, name][title] for title in titles]
    head = [name, topologies.parse(name).chips]
    for what, cell in _CELLS.items():
      rows.append([*head, what, *map(cell, row)])
      head = ['', '']
  print_table(case.name, ['topology', 'chips', '', *titles], rows)


def _order(name: str) -> tuple[str, int]:
  topology = topologies.parse(name)
  return topology.generation.name, topology.chips


def _kinds(outcome: Outcome) -> str:
  """The kinds of collectives that move most."""
  parts = sorted(outcome.by_kind.items(), key=lambda part: -part[1])
  return ', '.join(f'{kind} {nbytes / max(outcome.moved, 1):.0%}'
                   for kind, nbytes in parts[:3]) or '-'


_CELLS: dict[str, Callable[[Outcome], str]] = {
    'bytes moved': lambda outcome: f'{outcome.moved:,}',
    'by': _kinds,
    'cycles': lambda outcome: f'{outcome.cycles:,}',
    'peak, MiB': lambda outcome: f'{outcome.peak / 2**20:,.1f}',
}


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.priority_tpu',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--only', choices=[case.name for case in CASES], help='this case only')
  arguments = parser.parse_args()
  start = time.monotonic()

  def say(line: str) -> None:
    elapsed = time.monotonic() - start
    print(f'[{elapsed:5.0f} s] {line}', file=sys.stderr, flush=True)

  cases = [c for c in CASES if arguments.only in (None, c.name)]
  try:
    outcomes = measure(cases, say)
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  for case in cases:
    print_outcomes(case, outcomes)


if __name__ == '__main__':
  main()
