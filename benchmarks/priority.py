"""Measures what priorities cost and what they gain, with our wheel alone.

  bindings      a step of a model with 300 annotated weights, Shardy on and off
  partitioners  Shardy without priorities against GSPMD: step and compile time
  embedding     bytes that a training step moves, by the priorities given
"""

import argparse
import json
from pathlib import Path
import sys
import time
from typing import Any, Callable, Dict

from . import summary
from .errors import BenchmarkError
from .processes import measure_in_turn, run_child
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
        'priority': True,
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


def partitioners(wheels: Wheels, quick: bool, rounds: int, say: Say) -> Data:
  """The same models, no priorities; V2 is GSPMD on the same plugin."""
  variants = [
      wheels.ours('GSPMD', XLA_SHARDING_V2='1'),
      wheels.ours('Shardy', XLA_USE_SHARDY='1')
  ]
  models = {
      'transformer (examples/train_sharded.py)': ('demo_step', {
          'blocks': 1 if quick else 2,
          'warm_up': 3,
          'steps': 3 if quick else 40
      }),
      '24 linear layers, training': ('annotated_step', {
          'way': 'lazy',
          'layers': 2 if quick else 24,
          'priority': False,
          'warm_up': 3,
          'steps': 3 if quick else 60
      }),
      '24 linear layers, torch.compile': ('annotated_step', {
          'way': 'dynamo',
          'layers': 2 if quick else 24,
          'priority': False,
          'warm_up': 3,
          'steps': 3 if quick else 60
      }),
  }
  results = {}
  for title, (child, arguments) in models.items():
    samples = measure_in_turn(child, arguments, variants, rounds, say)
    results[title] = {
        'ms': summary.medians(samples, 'ms'),
        'step': summary.ratios(samples, 'ms', 'GSPMD')['Shardy'],
        'compile_s': summary.medians(samples, 'compile_s'),
        'compile': summary.ratios(samples, 'compile_s', 'GSPMD')['Shardy'],
    }
  return results


def embedding(wheels: Wheels, quick: bool, rounds: int, say: Say) -> Data:
  """Bytes are counted in the compiled program: one process tells."""
  del rounds
  say('embedding')
  sizes = {'vocabulary': 4096, 'features': 128, 'batch': 8, 'length': 16}
  if quick:
    sizes.update(vocabulary=64, features=16)
  return run_child('embedding', sizes,
                   wheels.ours('Shardy', XLA_USE_SHARDY='1'))


FIGURES = {
    'bindings': bindings,
    'partitioners': partitioners,
    'embedding': embedding
}


def text(results: Data) -> str:
  """The figures of `results`, by name, as one text."""
  lines = []
  for way, data in results.get('bindings', {}).items():
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
  for title, data in results.get('partitioners', {}).items():
    lines.append(f'{title}: step, Shardy over GSPMD {_spread(data["step"])}; '
                 f'compile {_spread(data["compile"])}')
  if 'embedding' in results:
    moved = results['embedding']['moved']
    best = min(moved, key=moved.get)
    lines.append('embedding, bytes moved per step and device: ' +
                 ', '.join(f'{title} {n:,}' for title, n in moved.items()))
    lines.append(f'  default over {best}: '
                 f'{moved["default"] / moved[best]:.1f} (at least 2)')
  return '\n'.join(lines)


def _spread(ratio: Dict[str, float]) -> str:
  return f'{ratio["ratio"]:.3f} ({ratio["lowest"]:.2f}-{ratio["highest"]:.2f})'


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.priority',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--quick', action='store_true', help='tiny sizes; times mean nothing')
  parser.add_argument('--only', choices=list(FIGURES), help='this figure only')
  parser.add_argument(
      '--rounds', type=int, default=3, metavar='N', help='processes per column')
  parser.add_argument('--json', type=Path, metavar='FILE')
  arguments = parser.parse_args()
  start = time.monotonic()

  def say(line: str) -> None:
    elapsed = time.monotonic() - start
    print(f'[{elapsed:5.0f} s] {line}', file=sys.stderr, flush=True)

  names = [arguments.only] if arguments.only else list(FIGURES)
  try:
    wheels = Wheels(say, **(QUICK if arguments.quick else {}))
    results = {
        name: FIGURES[name](wheels, arguments.quick, arguments.rounds, say)
        for name in names
    }
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print(text(results))
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + '\n')


if __name__ == '__main__':
  main()
