"""A report as text."""

from __future__ import annotations

import dataclasses

import aot_reports as make
from printed import assert_printed
import pytest
from torch_xla.shardy.aot.reporting import table, wording
from torch_xla.shardy.aot.report import AotReport

STEP = 'SyncTensorsGraph.52 (train.py:41 in step)'


def lines(report: AotReport) -> list[str]:
  return table.text(report).split('\n')


def paragraph(report: AotReport, start: str) -> str:
  """What begins so, up to an empty line."""
  [found] = [
      text for text in table.text(report).split('\n\n')
      if text.startswith(start)
  ]
  return found


def test_the_verdict_comes_first_then_the_devices() -> None:
  assert lines(make.report())[:7] == [
      f'fits: the largest peak is 9.50 GiB of 15.75 GiB (60.3 %), of {STEP}',
      '2 programs, none after warm-up, which took 1 step of 3; ended: stopped '
      'after 3 steps',
      '',
      'script: train.py --layers 24',
      'v5e:16x16: 256 chips of TPU v5 lite, one device a chip; 64 hosts, 1 '
      'slice; 15.75 GiB a device',
      'compiler: TPU 0.0.42',
      'mode shardy; process 0 of 64, and the script was told of 1; mesh '
      'data=16, model=16',
  ]


def test_each_program_has_a_row() -> None:
  header, start, step = lines(make.report())[8:11]
  cells = [' '.join(line.split()) for line in (header, start, step)]
  assert cells == [
      'program asked for at step compile runs partitioner arguments outputs '
      'aliases temporaries code beside peak of memory flops cycles',
      '1 SyncTensorsGraph.9 train.py:12 in <module> 0 12.5 s 1 shardy 8 bytes '
      '4.00 KiB 0 bytes 0 bytes 97.66 KiB 0 bytes 101.66 KiB 0.0 % - 900',
      '2 SyncTensorsGraph.52 train.py:41 in step 0 12.5 s 4 shardy 4.00 GiB '
      '4.00 GiB 3.00 GiB 4.00 GiB 512.00 MiB 0 bytes 9.50 GiB 60.3 % 1.50 P 2.50 M',
  ]


def test_one_step_is_told_of() -> None:
  assert_printed(
      paragraph(make.report(), 'one step'), '''\
one step after warm-up, on one device: SyncTensorsGraph.52 (train.py:41 in
    step); so ran 2 of 2 steps
  flops: 1,500,000,000,000,000
  cycles: 2,500,000
  collectives:
    all-gather  over model        12 x  1.50 GiB
    all-reduce  over data, model  3 x   4.00 KiB''')


def test_a_program_is_told_of_with_what_the_cycles_leave_out() -> None:
  assert_printed(
      paragraph(make.report(), 'program 2,'), '''\
program 2, SyncTensorsGraph.52
  asked for at: train.py:41 in step, from train.py:60 in main
  heaviest arguments and results:
    2.00 GiB  argument  bf16[8192,4096]  embed.weight
    1.00 GiB  result    f32[4096,4096]   result 7
  collectives:
    all-gather  over model        12 x  1.50 GiB
    all-reduce  over data, model  3 x   4.00 KiB
  cycles: 2,500,000, the compiler's own estimate of 120 operations; it tells
      none of 3 all-reduce, 1 sort: these count as nothing; 2 loops counted as
      run once: the program does not tell how often''')


def test_a_refused_program_is_told_of_in_the_compilers_words() -> None:
  words = f'{make.OUT_OF_MEMORY}\n\nProgram hbm requirement 40.25G:\n  x  1'
  text = table.text(make.report(make.start(), make.refused(error=words)))
  assert text.startswith(
      f'does not fit: the compiler refused 1 of 2 programs, {STEP} first: '
      f'{make.OUT_OF_MEMORY}\n')
  assert f'''
  refused, in the compiler's words:
    {make.OUT_OF_MEMORY}

    Program hbm requirement 40.25G:
      x  1
''' in text
  assert ' refused    -  ' in text


def test_notes_reads_traces_findings_and_the_cost() -> None:
  fallback = make.program(note='Shardy cannot be told: GSPMD compiled it')
  found = lines(make.report(fallback))
  assert '  note: Shardy cannot be told: GSPMD compiled it' in found
  assert any(' shardy (see note) ' in line for line in found)
  fallback = dataclasses.replace(fallback, partitioner='gspmd')
  assert ' gspmd (fallback) ' in table.text(make.report(fallback))
  assert ' gspmd (see note) ' in table.text(make.report(fallback, mode='v2'))
  assert found[-4:] == [
      'one device of 4 was asked for.',
      '17 values were read: all zeros, for nothing is computed',
      '4 lazy graphs cut, one per sync',
      "31.2 s, 12.5 s of them compiling; 3.00 GiB of this machine's memory",
  ]


def test_an_error_of_the_script_is_shown() -> None:
  found = lines(
      make.report(
          failed=True, ended='ValueError: no', traceback='Traceback\n  x\n'))
  assert found[0].startswith('not known whether it fits: the script failed '
                             'after 2 programs; the largest peak is 9.50 GiB')
  assert found[1].endswith('; ended: ValueError: no, the script failed')
  assert found[-2:] == ['    Traceback', '      x']


def test_a_script_that_compiled_nothing() -> None:
  found = lines(make.empty())
  assert found[:2] == [
      'not known whether it fits: no program was compiled',
      '0 programs, how many after warm-up is not known: no step ended, so '
      'nothing is known of one after warm-up: let the script take more steps; '
      'ended: stopped after 3 steps',
  ]


def test_many_programs_are_all_listed_and_the_heaviest_told_of() -> None:
  small = [
      make.program(
          f'small{i}', memory=dataclasses.replace(make.MEMORY, arguments=i))
      for i in range(30)
  ]
  refused = make.refused(name='no')
  found = lines(make.report(refused, *small, make.program('big')))
  told = [line.split()[-1] for line in found if line.startswith('program ')]
  assert told == ['no', *(f'small{i}' for i in range(20, 30)), 'big']
  assert 'and 20 programs that need less memory: see --json or --html' in found
  rows = [
      line for i in range(1, 33) for line in found
      if line.startswith(f'{i:<2}  ')
  ]
  assert len(rows) == 32


def test_awkward_names_can_be_printed() -> None:
  text = table.text(make.awkward())
  text.encode('utf-8')
  assert 'Grüße \u7f51 \\udc80' in text
  assert '5.00 EiB' in text and '1e+300' in text


@pytest.mark.parametrize('part, whole, text', [
    (1, 3, '33.3 %'),
    (2, 3, '66.6 %'),
    (99_999, 100_000, '99.9 %'),
    (100_000, 100_000, '100.0 %'),
    (100_001, 100_000, '100.1 %'),
    (1, 0, '0.0 %'),
])
def test_what_does_not_fit_is_never_a_hundred_percent(part, whole,
                                                      text) -> None:
  assert wording.share_text(part, whole) == text


@pytest.mark.parametrize('memory, programs, fits', [
    (10 * make.GIB, [make.program()], True),
    (19 * make.GIB // 2, [make.program()], True),
    (19 * make.GIB // 2 - 1, [make.program()], False),
    (9 * make.GIB, [make.program(), make.program(memory=None)], False),
    (10 * make.GIB, [make.program(), make.program(memory=None)], None),
    (10 * make.GIB, [make.program(), make.refused()], False),
])
def test_what_fits(memory, programs, fits) -> None:
  topology = dataclasses.replace(make.TOPOLOGY, memory=memory)
  assert make.report(*programs, topology=topology).fits is fits
