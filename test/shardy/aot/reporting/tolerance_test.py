"""A report held to a golden one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import aot_reports as make
import pytest
from torch_xla.shardy.aot.reporting import golden, quantities
from torch_xla.shardy.gate import golden as golden_file
from torch_xla.shardy.gate import requirements
from torch_xla.shardy.gate.requirements import RequirementError


def parse(text: str) -> requirements.Tolerance:
  return requirements.parse_tolerance(text, quantities.named)


def tolerances(*texts: str) -> list[requirements.Tolerance]:
  return [parse(text) for text in texts]


def differences_from(was, now, allowed) -> tuple[str, ...]:
  """Without the name of the topology."""
  found = golden.changes(
      golden.of_reports([was]), golden.of_reports([now]), allowed)
  return tuple(str(c).removeprefix('v5e:16x16: ') for c in found)


def of_step(**changes):
  return make.report(make.start(), make.program(**changes))


def with_cycles(total: int):
  return of_step(cycles=make.Cycles(total, 120))


STEP = 'train.py in step, from train.py in main #1'
GOLDEN = make.report()


def test_the_same_after_a_file(tmp_path: Path) -> None:
  path = tmp_path / 'golden.json'
  for report in make.report(), make.awkward(), make.empty():
    now = golden.of_reports([report])
    golden_file.update(path, now, golden_file.SECTIONS)
    kept = golden_file.read(path, 'aot')
    assert golden.changes(kept, now, []) == ()


def test_more_steps_are_the_same_but_for_counts() -> None:
  more = make.report(
      make.start(),
      make.program(executions=6),
      steps=5,
      reads=29,
      ended='stopped after 5 steps')
  now = golden.of_reports([more])
  was = golden.of_reports([GOLDEN])
  assert golden.changes(was.only(golden_file.DEFAULT), now, []) == ()
  assert {c.section for c in golden.changes(was, now, [])} == {'counts'}


def test_what_this_machine_took_and_names_are_not_compared() -> None:
  other = make.report(
      make.start(seconds=99.0, name='SyncTensorsGraph.11', sent='1'),
      make.program(called_from=('train.py:44 in step', 'train.py:63 in main')),
      seconds=1e6,
      host_memory=1,
      script=('elsewhere/train.py',),
      findings=('another',),
      topology=dataclasses.replace(make.TOPOLOGY, compiler='TPU 0.0.43'))
  assert differences_from(GOLDEN, other, []) == ()


def test_another_compiler_is_told_where_something_differs() -> None:
  other = dataclasses.replace(
      with_cycles(2_500_001),
      topology=dataclasses.replace(make.TOPOLOGY, compiler=''))
  assert differences_from(GOLDEN, other, [])[-1] == (
      'made by: it was TPU 0.0.42, and is not told: that alone can make a '
      'difference')


def test_without_a_tolerance_each_digit_counts() -> None:
  more = dataclasses.replace(make.MEMORY, code=make.MEMORY.code + 1)
  assert differences_from(GOLDEN, of_step(memory=more), []) == tuple(
      f'{whose}{text}' for whose in ('', f'{STEP}: ')
      for text in ('peak: it was 9.50 GiB (10,200,547,328 bytes), and is 9.50 '
                   'GiB (10,200,547,329 bytes), +1e-08 %',
                   'code: it was 512.00 MiB (536,870,912 bytes), and is 512.00 '
                   'MiB (536,870,913 bytes), +2e-07 %'))


@pytest.mark.parametrize('total, tolerance, allowed', [
    (2_625_000, 'cycles=5%', True),
    (2_625_001, 'cycles=5%', False),
    (2_375_000, 'cycles=5%', True),
    (2_374_999, 'cycles=5%', False),
    (2_500_100, 'cycles=100', True),
    (2_500_101, 'cycles=100', False),
    (2_500_001, 'cycles = 0.1 %', True),
    (2_500_001, 'peak=50%', False),
])
def test_within_a_tolerance(total: int, tolerance: str, allowed: bool) -> None:
  found = differences_from(GOLDEN, with_cycles(total), tolerances(tolerance))
  assert (found == ()) is allowed


def moved(nbytes: int):
  return of_step(
      collectives=(dataclasses.replace(make.GATHER, nbytes=nbytes),
                   make.REDUCE))


@pytest.mark.parametrize('texts, left', [
    ([], {'collective bytes', 'all-gather bytes over model'}),
    (['collective bytes=3%'], set()),
    (['all-gather bytes=3%'], {'collective bytes'}),
    (['all-gather bytes over model=3%'], {'collective bytes'}),
    (['collective bytes=3%', 'all-gather bytes=1%'
     ], {'all-gather bytes over model'}),
    (['all-reduce bytes=3%', 'all-gather count=3%'
     ], {'collective bytes', 'all-gather bytes over model'}),
    (['collective bytes=3%', 'collective bytes=1%'
     ], {'collective bytes', 'all-gather bytes over model'}),
])
def test_the_narrowest_tolerance_counts(texts: list, left: set) -> None:
  found = differences_from(GOLDEN, moved(make.GATHER.nbytes * 102 // 100),
                           tolerances(*texts))
  assert {
      name for text in found
      for name in text.partition(': it was')[0].split(': ')[-1].split(', ')
  } == left


def test_words_that_differ() -> None:
  other = make.report(
      make.start(),
      make.program(partitioner='gspmd', note='Shardy cannot be told'),
      mode='v2',
      ended='finished')
  assert differences_from(GOLDEN, other, tolerances('fallbacks=1')) == (
      'mode: it was shardy, and is v2',
      f'{STEP}: partitioner: it was shardy, and is gspmd',
      f'{STEP}: note: it was -, and is Shardy cannot be told',
      'ended: it was stopped after 3 steps, and is finished')


def test_programs_that_one_has_alone() -> None:
  more = make.report(make.start(), make.program(),
                     make.start(name='extra', called_from=('eval.py:3 in f',)))
  assert differences_from(GOLDEN, more,
                          []) == ('programs: it was 2, and is 3, +50.0 %',
                                  f'eval.py in f #1: {golden_file.NEW}')
  assert differences_from(more, GOLDEN,
                          []) == ('programs: it was 3, and is 2, -33.3 %',
                                  f'eval.py in f #1: {golden_file.GONE}')
  assert differences_from(GOLDEN, more, tolerances('programs=1')) == ()
  assert differences_from(GOLDEN, more, tolerances('programs=50%')) == ()


def test_a_refusal() -> None:
  found = differences_from(GOLDEN, make.report(make.start(), make.refused()),
                           [])
  assert 'fits: it was yes, and is no' in found
  assert 'refused: it was 0, and is 1' in found
  assert any(
      text.startswith(f'{STEP}: error: it was -, and is RESOURCE')
      for text in found)


def test_several_reports_are_held_to_those_of_their_topologies() -> None:

  def of(name: str, report):
    topology = dataclasses.replace(make.TOPOLOGY, name=name)
    return dataclasses.replace(report, topology=topology)

  def changes(was, now, *allowed):
    return [
        str(c) for c in golden.changes(
            golden.of_reports(was), golden.of_reports(now), tolerances(
                *allowed))
    ]

  kept = [of('a', make.report()), of('b', make.report())]
  assert changes(kept, kept[::-1]) == []
  now = [of('b', with_cycles(2_500_001)), of('c', make.report())]
  found = changes(kept, now, 'cycles=0.01%')
  assert found[:3] == [
      f'a: {golden_file.GONE}', f'c: {golden_file.NEW}',
      f'a: train.py in <module> #1: {golden_file.GONE}'
  ]
  assert not any(text.startswith('b: ') for text in found)
  assert changes(
      kept[1:],
      now[:1])[0] == ('b: cycles: it was 2,500,000, and is 2,500,001, +4e-05 %')


@pytest.mark.parametrize('text, why', [
    ('', 'write QUANTITY=AMOUNT'),
    ('peak', 'write QUANTITY=AMOUNT'),
    ('=2%', 'write QUANTITY=AMOUNT'),
    ('peak=', 'write QUANTITY=AMOUNT'),
    ('peek=2%', "did you mean 'peak'?"),
    ('peak=-2%', 'is no number of bytes'),
    ('peak=2%%', 'is no number of bytes'),
    ('programs=1MiB', 'is no number'),
    ('programs==1', 'is no number'),
])
def test_what_is_no_tolerance(text: str, why: str) -> None:
  with pytest.raises(RequirementError) as e:
    parse(text)
  assert str(e.value).startswith(f'tolerance {text!r}: ')
  assert why in str(e.value)
