"""Measures what bindings cost: a step of a model with 300 annotated weights."""

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
_PAIRS = {'lazy': 120, 'dynamo': 900}
_LIMIT = 0.02


def bindings(wheels: Wheels, quick: bool, rounds: int, say: Say) -> Data:
  """Steps in each mode, and what bindings add to a step."""
  variants = [
      wheels.ours('off'),
      wheels.ours('V2', XLA_SHARDING_V2='1'),
      wheels.ours('Shardy', XLA_USE_SHARDY='1')
  ]
  results = {}
  for way in ('lazy', 'dynamo'):
    arguments = {
        'way': way,
        'layers': 4 if quick else 300,
        'warm_up': 3,
        'steps': 3 if quick else 40,
        'pairs': 2 if quick else _PAIRS[way]
    }
    samples = measure_in_turn('annotated_step', arguments, variants, rounds,
                              say)
    results[way] = {
        'ms': summary.medians(samples, 'ms'),
        'cpu_ms': summary.medians(samples, 'cpu_ms'),
        'added_ms': summary.medians(samples, 'added_ms'),
        'added_cpu_ms': summary.medians(samples, 'added_cpu_ms'),
        'over_off': summary.ratios(samples, 'ms', 'off'),
        'over_v2': summary.ratios(samples, 'ms', 'V2'),
    }
  return results


def text(results: Data) -> str:
  """The figures of `results`, by way, as one text."""
  lines = []
  for way, data in results.items():
    lines.append(f'bindings, {way}: ' + ', '.join(
        f'{name} {ms:.2f} ms' for name, ms in data['ms'].items()))
    for what, key in (('added', 'added_ms'), ('added, CPU of the thread',
                                              'added_cpu_ms')):
      part = data[key]['Shardy'] / data['ms']['off']
      lines.append(f'  {what}: {data[key]["Shardy"]:.3f} ms, {part:.1%} of the '
                   f'step with Shardy off (at most {_LIMIT:.0%})')
    for base in ('off', 'v2'):
      lines.append(f'  Shardy over {base}: '
                   f'{_spread(data["over_" + base]["Shardy"])}')
  return '\n'.join(lines)


def _spread(ratio: Dict[str, float]) -> str:
  return f'{ratio["ratio"]:.3f} ({ratio["lowest"]:.2f}-{ratio["highest"]:.2f})'


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.priority', description=__doc__)
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
    results = bindings(wheels, arguments.quick, arguments.rounds, say)
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print(text(results))
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + '\n')


if __name__ == '__main__':
  main()
