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


def test_figures_as_lines():
  ratio = {'ratio': .5, 'lowest': .25, 'highest': 1.}
  assert text({
      'ms': {
          'kept': 12.34
      },
      'over_gspmd': {
          'kept': ratio
      },
      'cpu_over_gspmd': {
          'kept': ratio
      },
      'moved': {
          'kept': 4096
      },
  }) == ('kept: 12.3 ms, over GSPMD 0.500 (0.25-1.00); CPU 0.500 (0.25-1.00); '
         '4,096 bytes by collectives')
