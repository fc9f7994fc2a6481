"""The measurement of compile time by kind runs; attempts count, times do not."""

from benchmarks.compile_kinds import kind, row
from benchmarks.variants import QUICK, Wheels
import pytest


@pytest.mark.nightly
def test_odd_sizes_are_compiled_once():
  results = kind('odd sizes', Wheels(print, **QUICK), rounds=1, say=print)
  v2, *shardy = (reports[0] for reports in results['samples'].values())
  assert v2['attempts'] == v2['programs'] >= 2
  for sample in shardy:
    # All train the same model.
    assert sample['losses'] == pytest.approx(v2['losses'], rel=1e-3)
    # A question before a program that has one, and nothing twice.
    assert sample['programs'] <= sample['attempts'] <= 2 * sample['programs']
    assert not sample['notes'] and not sample['again']
  assert len(row('odd sizes', results)) == 6
