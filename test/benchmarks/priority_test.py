"""The measurements of priorities run; here bytes count, and times do not."""

from benchmarks.priority import embedding
from benchmarks.processes import run_child
from benchmarks.variants import Wheels
import pytest


@pytest.fixture(name='wheels', scope='module')
def wheels_fixture() -> Wheels:
  return Wheels(print)


def test_the_right_priority_moves_half_of_the_bytes_or_less(wheels):
  moved = embedding(wheels, quick=True, rounds=1, say=print)['moved']
  assert moved['default'] >= 2 * moved['table first'] > 0


@pytest.mark.parametrize('way', ['lazy', 'dynamo'])
def test_steps_with_and_without_bindings_are_measured(way, wheels):
  report = run_child(
      'annotated_step', {
          'way': way,
          'layers': 2,
          'priority': True,
          'warm_up': 2,
          'steps': 2,
          'pairs': 2
      }, wheels.ours(XLA_USE_SHARDY='1'))
  # A step without bindings is a program that GSPMD partitions.
  assert report['partitioners'] == ['gspmd', 'shardy']
  assert report['ms'] > 0
  assert report['added_cpu_ms'] != 0
