"""The sentences of a report, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
import math
import re
from typing import Optional

from . import quantities
from ..report import AotReport, CollectiveUse, Cycles, INTERRUPTED, Program
from ...gate import sizes

_OUT_OF_MEMORY = re.compile(
    r'out of memory|RESOURCE_EXHAUSTED|exceeds available', re.IGNORECASE)

_OTHER_STEPS_SHOWN = 5
_MODULES_SHOWN = 3


def is_out_of_memory(report: AotReport) -> bool:
  """Tests whether it does not fit, and not for another reason."""
  errors = [p.error for p in report.programs if p.error]
  return report.fits is False and (not errors or
                                   any(map(_OUT_OF_MEMORY.search, errors)))


def verdict(report: AotReport) -> str:
  """The answer whether it fits, in one line."""
  refused = [p for p in report.programs if p.error]
  if refused:
    what = 'does not fit' if is_out_of_memory(report) else 'does not compile'
    return (f'{what}: the compiler refused {len(refused)} of '
            f'{counted(len(report.programs), "program")}, {refused[0].label} '
            f'first: {first_line(refused[0].error)}')
  peak = quantities.named('peak').of_report(report)
  unknown = peak.unknown
  if report.failed and report.fits is None:
    how = INTERRUPTED if report.ended == INTERRUPTED else 'the script failed'
    unknown = f'{how} after {counted(len(report.programs), "program")}'
  peak_text = '' if peak.value is None else (
      f'the largest peak is {sizes.text(int(peak.value))} of '
      f'{sizes.text(report.topology.memory)} '
      f'({share_text(peak.value, report.topology.memory)}), of {peak.place}')
  if unknown:
    return '; '.join([
        f'not known whether it fits: {unknown}', *[peak_text] * bool(peak_text)
    ])
  return f'{"fits" if report.fits else "does not fit"}: {peak_text}'


def run_text(report: AotReport) -> str:
  """How many programs, how many steps, and how it ended, in one line."""
  late = (
      f'how many after warm-up is not known: {report.never_steady}'
      if report.never_steady else
      f'{len(report.programs_after_warm_up) or "none"} after warm-up, which '
      f'took {counted(report.warm_up, "step")} of {report.steps:,}')
  failed = ', the script failed' if report.failed else ''
  return (f'{counted(len(report.programs), "program")}, {late}; ended: '
          f'{report.ended}{failed}')


def topology_text(report: AotReport) -> str:
  """The devices, in one line."""
  t = report.topology
  each = t.devices / t.chips if t.chips else 0
  devices = ('one device a chip' if each == 1 else
             f'{t.devices:,} devices, {each:g} a chip: memory, flops and '
             'cycles are those of a device')
  return (f'{t.name}: {counted(t.chips, "chip")} of {t.kind}, {devices}; '
          f'{counted(t.hosts, "host")}, {counted(t.slices, "slice")}; '
          f'{sizes.text(t.memory)} a device')


def setting_text(report: AotReport) -> str:
  """Mode, part and meshes of the script, in one line."""
  return (f'mode {report.mode}; process {report.host} of '
          f'{report.topology.hosts:,}, and the script was told of '
          f'{report.processes:,}; ' + (f'mesh {" and ".join(report.meshes)}' if
                                       report.meshes else 'no mesh was made'))


def step_text(report: AotReport) -> str:
  """The programs that stand for one step after warm-up, in one line."""
  names = ', '.join(p.label for p in report.step_programs)
  after = report.steps - report.warm_up
  return (f'{names}; so ran {report.usual_steps:,} of '
          f'{counted(after, "step")}')


def other_steps(report: AotReport) -> Iterator[str]:
  """The steps of other kinds than that one, a line each."""
  for positions, count in report.other_steps[:_OTHER_STEPS_SHOWN]:
    names = ', '.join(report.programs[i].label for i in positions)
    yield f'{counted(count, "step")} of another kind: {names}'
  more = report.other_steps[_OTHER_STEPS_SHOWN:]
  if more:
    yield (f'{counted(sum(count for _, count in more), "step")} of '
           f'{counted(len(more), "further kind")}')


def cycles_text(cycles: Optional[Cycles]) -> str:
  """The estimate, and what it leaves out."""
  if cycles is None:
    return 'the compiler does not tell'
  text = (f'{cycles.total:,}, the compiler\'s own estimate of '
          f'{counted(cycles.operations, "operation")}')
  if cycles.left_out:
    left_out = ', '.join(f'{n:,} {opcode}' for opcode, n in cycles.left_out)
    text += f'; it tells none of {left_out}: these count as nothing'
  if cycles.loops_counted_once:
    text += (f'; {counted(cycles.loops_counted_once, "loop")} counted as run '
             'once: the program does not tell how often')
  return text


def over_text(use: CollectiveUse) -> str:
  """The mesh axes that a collective runs over."""
  if use.axes:
    return f'over {", ".join(use.axes)}'
  # Groups along a part of an axis say so themselves.
  return f'over {use.groups}' + ('' if ' along ' in use.groups else
                                 ', along no mesh axes')


def modules_text(use: CollectiveUse) -> str:
  """The modules that a collective comes from: 'blocks.*.up and 3 more'."""
  shown = ', '.join(use.modules[:_MODULES_SHOWN])
  more = len(use.modules) - _MODULES_SHOWN
  return shown + (f' and {more} more' if more > 0 else '')


def totals(programs: Sequence[Program]) -> tuple[CollectiveUse, ...]:
  """The collectives of all these programs, by kind and axes, most first."""
  by_kind: dict[tuple[str, ...], CollectiveUse] = {}
  for use in (use for program in programs for use in program.collectives):
    key = (use.kind, *quantities.runs_over(use))
    so_far = by_kind.get(key)
    by_kind[key] = use if so_far is None else CollectiveUse(
        use.kind, use.axes, use.groups, so_far.count +
        use.count, so_far.nbytes +
        use.nbytes, tuple(dict.fromkeys((*so_far.modules, *use.modules))))
  return tuple(sorted(by_kind.values(), key=lambda u: (-u.nbytes, u.kind)))


def remarks(report: AotReport) -> Iterator[str]:
  """Other facts of the run, a line each."""
  yield from report.findings
  if report.reads:
    read = ('1 value was read: a zero' if report.reads == 1 else
            f'{report.reads:,} values were read: all zeros')
    yield f'{read}, for nothing is computed'
  for name, count in report.traces:
    yield f'{count:,} {name}'
  yield (f'{report.seconds:,.1f} s, '
         f'{sum(p.seconds for p in report.programs):,.1f} s of them compiling; '
         f'{sizes.text(report.host_memory)} of this machine\'s memory')


def share_text(part: float, whole: float) -> str:
  """A share as text: '78.1 %'.

  Only the whole is '100.0 %': less is rounded down, more up.
  """
  tenths = Fraction(part) / Fraction(whole) * 1000 if whole else Fraction(0)
  rounded = math.ceil(tenths) if part > whole else math.floor(tenths)
  return f'{rounded / 10:,.1f} %'


def counted(number: int, noun: str) -> str:
  return f'{number:,} {noun}{"" if number == 1 else "s"}'


def first_line(text: str) -> str:
  return text.strip().partition('\n')[0]


def printable(text: str) -> str:
  """The text with what UTF-8 cannot write escaped."""
  return text.encode('utf-8', 'backslashreplace').decode('utf-8')
