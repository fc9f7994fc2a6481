"""Measures what it gains that normalisations are written out for Shardy.

A training step of examples/train_sharded.py's transformer, with a LayerNorm
before each attention, each MLP and the head, over eight CPU devices that share
the batch. GSPMD from V2 shardings, as the official wheel partitions, and Shardy
with its normalisations left as torch_xla traces them, are what it is held
against; all on the same plugin.
"""

import argparse
import json
from pathlib import Path
import sys
import time
from typing import Any, Callable, Dict

from . import summary
from .errors import BenchmarkError
from .processes import measure_in_turn
from .variants import QUICK, Wheels

Say = Callable[[str], None]
Data = Dict[str, Any]
_SIZES = {'width': 256, 'length': 64, 'batch': 32, 'blocks': 2}
_QUICK_SIZES = {'width': 32, 'length': 16, 'batch': 8, 'blocks': 1}
_KEPT = 'Shardy, normalisations as traced'
_WRITTEN_OUT = 'Shardy'


def step(wheels: Wheels, quick: bool, rounds: int, say: Say) -> Data:
  """Time, CPU time and bytes moved by a step."""
  variants = [
      wheels.ours('GSPMD', XLA_SHARDING_V2='1'),
      wheels.ours(_KEPT, XLA_USE_SHARDY='1', BENCHMARK_KEEPS_NORMALISATION='1'),
      wheels.ours(_WRITTEN_OUT, XLA_USE_SHARDY='1')
  ]
  arguments = {
      **(_QUICK_SIZES if quick else _SIZES), 'warm_up': 3,
      'steps': 3 if quick else 20
  }
  samples = measure_in_turn('norm_step', arguments, variants, rounds, say)
  return {
      'ms': summary.medians(samples, 'ms'),
      'cpu_ms': summary.medians(samples, 'cpu_ms'),
      'moved': summary.medians(samples, 'moved'),
      'over_gspmd': summary.ratios(samples, 'ms', 'GSPMD'),
      'cpu_over_gspmd': summary.ratios(samples, 'cpu_ms', 'GSPMD'),
      'samples': samples,
  }


def text(results: Data) -> str:
  """The figures as lines, one for each variant."""
  return '\n'.join(f'{name}: {results["ms"][name]:.1f} ms, over GSPMD '
                   f'{_spread(results["over_gspmd"][name])}; CPU '
                   f'{_spread(results["cpu_over_gspmd"][name])}; '
                   f'{results["moved"][name]:,.0f} bytes by collectives'
                   for name in results['ms'])


def _spread(ratio: Dict[str, float]) -> str:
  return f'{ratio["ratio"]:.3f} ({ratio["lowest"]:.2f}-{ratio["highest"]:.2f})'


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.normalisation',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--quick', action='store_true', help='tiny sizes; times mean nothing')
  parser.add_argument(
      '--rounds', type=int, default=3, metavar='N', help='processes per column')
  parser.add_argument('--json', type=Path, metavar='FILE')
  arguments = parser.parse_args()
  start = time.monotonic()

  def say(line: str) -> None:
    elapsed = time.monotonic() - start
    print(f'[{elapsed:5.0f} s] {line}', file=sys.stderr, flush=True)

  try:
    wheels = Wheels(say, **(QUICK if arguments.quick else {}))
    results = step(wheels, arguments.quick, arguments.rounds, say)
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print(text(results))
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + '\n')


if __name__ == '__main__':
  main()
