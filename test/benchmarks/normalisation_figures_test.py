"""The measurement of normalisations runs; bytes count, and times do not."""

from benchmarks.normalisation import step, text
from benchmarks.variants import QUICK, Wheels
import pytest


@pytest.mark.nightly
def test_normalisations_written_out_move_fewer_bytes():
  results = step(Wheels(print, **QUICK), quick=True, rounds=1, say=print)
  samples = {name: reports[0] for name, reports in results['samples'].items()}
  gspmd, kept, written_out = samples.values()
  assert [s['partitioner'] for s in samples.values()
         ] == ['gspmd', 'shardy', 'shardy']
  # All train the same model.
  for sample in kept, written_out:
    assert sample['losses'] == pytest.approx(gspmd['losses'], rel=1e-3)
  assert 0 < written_out['moved'] < min(gspmd['moved'], kept['moved'])
  assert text(results).count(' bytes by collectives') == 3
