"""The search for the largest value of an argument that fits."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses

import aot_reports
import numpy as np
import pytest
from torch_xla.shardy.aot.errors import AotError
from torch_xla.shardy.aot.report import AotReport
from torch_xla.shardy.aot.reporting import largest
from torch_xla.shardy.aot.reporting.largest import Range, RangeError
from torch_xla.shardy.door.memory import Memory


@dataclasses.dataclass
class Machine:
  """Runs that fit up to some value, as `launcher.run` would report them."""
  fits_up_to: int
  error: str = 'Ran out of memory on HBM'
  peak: Callable[[int], int] = int
  tried: list[int] = dataclasses.field(default_factory=list)

  def run(self, value: int) -> AotReport:
    self.tried.append(value)
    fits = value <= self.fits_up_to
    made = aot_reports.program(
        memory=Memory(self.peak(value), 0, 0, 0, 0),
        error='' if fits else
        f'{self.error}. Used {self.peak(value)} of {self.peak(self.fits_up_to)}'
    )
    report = aot_reports.report()
    return dataclasses.replace(
        report,
        topology=dataclasses.replace(
            report.topology, memory=self.peak(self.fits_up_to)),
        programs=(made,),
        usual_step=(),
        findings=())


def search(machine: Machine,
           wanted: Range,
           run: Callable[[int], AotReport] | None = None) -> tuple[str, ...]:
  lines: list[str] = []
  found = largest.search(wanted, run or machine.run, lines.append)
  is_open = ' ends the search: ' in found.findings[0]
  assert lines[len(machine.tried):] == [found.findings[0]] * is_open
  return found.findings


def test_two_tries_give_a_line():
  machine = Machine(1000, peak=lambda n: 500 + n)
  findings = search(machine, Range('n', 8, 4096))
  assert machine.tried == [8, 16, 1000, 1008]
  assert findings[0] == '--n=1000 is the largest that fits'
  assert findings[1].startswith('tried --n=8 fits: the largest peak is 508 by')
  assert len(findings) == 5


def test_a_model_whose_padding_bends_the_line():
  # Of a Llama: weights of 40 GiB, and a little more for each sequence than the
  # last; near the end the compiler recomputes.
  peak = lambda n: (40 << 30) + n * (200 << 20) - min(n, 200) * (n << 16)
  machine = Machine(277, peak=peak)
  assert search(machine, Range('n', 8, 1 << 23))[0].startswith('--n=272 is')
  assert len(machine.tried) <= 5


def test_a_part_in_a_hundred_is_enough():
  # Of a Llama for v5p:2x2x2, by libtpu: it recomputes more and more.
  peak = lambda n: int(n * (7.6e6 - 100 * n))
  machine = Machine(15800, peak=peak)
  finding = search(machine, Range('n', 8, 1 << 23))[0]
  assert ' is the largest that fits, to 1 %: --n=' in finding
  assert len(machine.tried) <= 5


def test_a_batch_is_not_searched_where_the_compiler_recomputes():
  # Of a Llama for v5p:2x2x2, by libtpu: 12,112 do not fit.
  measured = {8: 151, 5080: 62290, 7808: 84870, 9120: 94100, 11728: 95530}
  machine = Machine(
      11900, peak=lambda n: int(np.interp(n, *zip(*measured.items()))))
  finding = search(machine, largest.batch(('--batch=8',)))[0]
  assert finding.startswith('--batch=9') and ' fits, with 98.' in finding
  assert ': more may fit, but by recomputing.' in finding
  assert len(machine.tried) <= 5
  assert search(machine,
                Range('batch', 9120,
                      18240))[0].startswith('--batch=9120 is the largest')


@pytest.mark.parametrize('low, high, tried', [(1, 5, [1, 5]), (3, 11, [3, 9]),
                                              (4, 7, [4])])
def test_all_of_a_range_may_fit(low, high, tried):
  machine = Machine(1000)
  findings = search(machine, Range('n', low, high))
  assert machine.tried == tried
  assert findings[0] == f'--n={tried[-1]} is the largest that fits'


@pytest.mark.parametrize('peak', [
    lambda n: n, lambda n: 7, lambda n: n * n, lambda n: (n + 7) // 8 * 8,
    lambda n: n.bit_length(), lambda n: 50 + n + n // 3, lambda n: 1 << n
])
def test_every_answer_is_the_largest(peak):
  for high in (1, 2, 7, 32):
    for fits in range(1, 35, 3):
      machine = Machine(fits, peak=peak)
      findings = search(machine, Range('n', 1, high))
      assert findings[0].startswith(f'--n={min(fits, high)} is the largest')
      assert len(set(machine.tried)) == len(machine.tried) <= 13


def test_not_even_the_smallest_fits():
  assert search(Machine(7), Range('n', 8, 64))[0] == 'not even --n=8 fits'


def test_what_is_no_answer_ends_it():
  machine = Machine(20, 'INVALID_ARGUMENT: not even')
  assert search(machine, Range('n', 8, 64))[0] == (
      '--n=24 ends the search: --n=16 is the largest that fits so far')
  machine = Machine(20)

  def fails(value):
    return dataclasses.replace(
        machine.run(value), failed=True, ended='KeyError')

  assert search(machine, Range('n', 8, 64), fails)[:2] == (
      '--n=8 ends the search: nothing that fits was tried',
      'tried --n=8 not known whether it fits: the script failed after 1 '
      'program; the largest peak is 8 bytes of 20 bytes (40.0 %), of '
      'SyncTensorsGraph.52 (train.py:41 in step)')


@pytest.mark.parametrize('error', [KeyboardInterrupt, AotError])
def test_what_fits_is_said_of_a_search_that_is_ended(error):
  lines: list[str] = []

  def run(value):
    if value > 16:
      raise error
    return Machine(16).run(value)

  with pytest.raises(error):
    largest.search(Range('n', 8, 64), run, lines.append, is_quiet=True)
  assert lines == [
      '--n=24 ends the search: --n=16 is the largest that fits so far'
  ]


@pytest.mark.parametrize('arguments, made', [
    ((), ('--n=4',)),
    (('--n', '2', 'x'), ('--n', '4', 'x')),
    (('a', '--n=2', '--nn=3'), ('a', '--n=4', '--nn=3')),
])
def test_the_argument_is_put(arguments, made):
  assert Range('n', 1, 8).put(arguments, 4) == made


def test_ranges():
  assert largest.parse('batch-size=8..64') == Range('batch-size', 8, 64)
  assert largest.parse('--n=1..1') == Range('n', 1, 1)
  for text in ('n=0..4', 'n=5..4', 'n=5', '=1..2', 'n=1..x'):
    with pytest.raises(RangeError, match='write NAME=LOW..HIGH'):
      largest.parse(text)
  assert largest.batch(('-v', '--batch_size=4')).low == 4
  assert largest.batch(('--batch', '6')).name == 'batch'
  for arguments in ((), ('--batch-size',), ('--batch-size', 'x')):
    with pytest.raises(RangeError, match='given no batch size'):
      largest.batch(arguments)
