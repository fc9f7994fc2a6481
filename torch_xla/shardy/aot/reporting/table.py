"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import quantities, wording
from ...gate import sizes
from ..report import CollectiveUse, Program, AotReport
from ...compile.record import columns

# More of a program's tensors are in the JSON and on the page.
_TENSORS_SHOWN = 5
# Of those that compiled, the ones compiled otherwise than asked come first, then
# those that need the most memory.
_PROGRAMS_SHOWN = 12
COLUMNS = ('program', 'asked for at', 'step', 'compile', 'runs', 'partitioner',
           'arguments', 'outputs', 'aliases', 'temporaries', 'code', 'beside',
           'peak', 'of memory', 'flops', 'cycles')
_UNKNOWN = '-'


def text(report: AotReport) -> str:
  """The whole report, what matters most first."""
  lines = [
      wording.verdict(report),
      wording.run_text(report), '', f'script: {" ".join(report.script)}',
      wording.topology_text(report),
      f'compiler: {report.topology.compiler or "not told"}',
      wording.setting_text(report)
  ]
  if report.programs:
    rows = [program_cells(report, i) for i in range(len(report.programs))]
    lines += ['', *columns([('', *COLUMNS), *rows])]
  lines += ['', *_one_step(report)]
  for number in _shown(report):
    lines += ['', *_details(report.programs[number], number)]
  left = len(report.programs) - len(_shown(report))
  if left:
    lines += [
        '', f'and {wording.counted(left, "program")} that need less memory: '
        'see --json or --html'
    ]
  lines += ['', *wording.remarks(report)]
  if report.traceback:
    lines += ['', *_indented(report.traceback)]
  return wording.printable('\n'.join(lines))


def program_cells(report: AotReport, number: int) -> tuple[str, ...]:
  """A program's row, as text: its number, name, place, ..., cycles."""
  p = report.programs[number]
  m = p.memory
  if m is None:
    of_memory = ('refused' if p.error else _UNKNOWN, *[_UNKNOWN] * 7)
  else:
    of_memory = (*map(sizes.text, (m.arguments, m.outputs, m.aliases,
                                   m.temporaries, m.code, p.beside, p.peak)),
                 wording.share_text(p.peak, report.topology.memory))
  cells = (str(number +
               1), p.name, p.called_from[0] if p.called_from else _UNKNOWN,
           str(p.step), f'{p.seconds:,.1f} s', f'{p.executions:,}',
           p.partitioner + (' (fallback)' if report.is_fallback(p) else
                            ' (see note)' if p.note else ''), *of_memory,
           _UNKNOWN if p.flops is None else sizes.number_text(p.flops),
           _UNKNOWN if p.cycles is None else sizes.number_text(p.cycles.total))
  return tuple(' '.join(cell.split()) for cell in cells)


def use_cells(use: CollectiveUse) -> tuple[str, ...]:
  """A row of collectives: kind, over what, count, bytes, modules."""
  return (use.kind, wording.over_text(use), f'{use.count:,} x',
          sizes.text(use.nbytes), wording.modules_text(use))


def _one_step(report: AotReport) -> Iterator[str]:
  if report.unknown_step:
    yield f'one step after warm-up: not known: {report.unknown_step}'
    return
  yield ('one step after warm-up, on one device: '
         f'{wording.step_text(report)}')
  for name in ('flops', 'cycles'):
    measure = quantities.named(name).of_report(report)
    yield (f'  {name}: not known: {measure.unknown}'
           if measure.value is None else f'  {name}: {measure.value:,}')
  yield from _collectives(wording.totals(report.step_programs))
  for line in wording.other_steps(report):
    yield f'  {line}'


def _shown(report: AotReport) -> Sequence[int]:
  """The programs that are told of in full, by number."""

  def weight(number: int) -> tuple[bool, bool, int]:
    p = report.programs[number]
    return bool(p.error), bool(p.note), p.peak or 0

  numbers = sorted(range(len(report.programs)), key=weight, reverse=True)
  refused = [i for i in numbers if report.programs[i].error]
  return sorted({*refused, *numbers[:_PROGRAMS_SHOWN]})


def _details(program: Program, number: int) -> Iterator[str]:
  yield f'program {number + 1}, {program.name}'
  if program.called_from:
    yield f'  asked for at: {", from ".join(program.called_from)}'
  if program.note:
    yield f'  note: {program.note}'
  if program.error:
    yield '  refused, in the compiler\'s words:'
    yield from _indented(program.error)
    return
  if program.heaviest:
    yield '  heaviest arguments and results:'
    yield from (f'    {line}' for line in columns([(
        sizes.text(t.nbytes), t.role, t.shape,
        ' '.join(t.name.split())) for t in program.heaviest[:_TENSORS_SHOWN]]))
  yield from _collectives(wording.totals([program]))
  yield f'  cycles: {wording.cycles_text(program.cycles)}'


def _collectives(uses: Sequence[CollectiveUse]) -> Iterator[str]:
  if not uses:
    yield '  collectives: none'
    return
  yield '  collectives:'
  yield from (f'    {line}' for line in columns([*map(use_cells, uses)]))


def _indented(text_: str) -> Iterator[str]:
  return (f'    {line}'.rstrip() for line in text_.strip('\n').split('\n'))
