"""The demo's start with a warm compilation cache against a cold one.

Each round runs the first steps of examples/train_sharded.py, with which all of
its programs are compiled, in three fresh processes: without a cache, with an
empty one, and with the one that this filled. Measures the torch_xla that this
Python imports.
"""

import argparse
import json
import os
from pathlib import Path
import statistics
import sys
import tempfile
import time
from typing import Any, Dict, List

from .errors import BenchmarkError
from .processes import run_process

_EXAMPLES = Path(__file__).resolve().parent.parent / 'examples'
_SECONDS = 600
_STEPS = 3
_DROPPED = ('PJRT_', 'XLA_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_', 'NPROC',
            'TPU_', 'PT_XLA_', 'TF_CPP_')
_MODES = {'v2': 'XLA_SHARDING_V2', 'shardy': 'XLA_USE_SHARDY'}
# The three kinds of process.
_NO_CACHE, _COLD, _WARM = 'no cache', 'cold', 'warm'
_CHILD = f'''
import json, sys, time
import train_sharded
import torch_xla
from torch_xla.shardy import cache
root = sys.argv[1]
used = cache.use(root) if root else None
sys.argv[1:] = ['--steps', '{_STEPS}']
start = time.perf_counter()
train_sharded.main()
report = used.report() if used else cache.CacheReport()
print(json.dumps(dict(
    main=time.perf_counter() - start,
    compile=sum(p.seconds for p in torch_xla.shardy.programs()),
    programs=len(torch_xla.shardy.programs()),
    loaded=report.loaded, stored=report.stored, damaged=len(report.damaged))))
'''
_FIGURES = {
    'compile': 'compiling, or loading, all programs',
    'main': f'the demo with {_STEPS} steps, after its imports',
    'process': 'the whole process',
}


def start_demo(root: str, mode: str) -> Dict[str, Any]:
  """What one process says of itself, and its seconds; root '': no cache.

  Raises:
    BenchmarkError: it failed or hung.
  """
  inherited = {
      n: v for n, v in os.environ.items() if not n.startswith(_DROPPED)
  }
  path = os.pathsep.join(
      filter(None, [str(_EXAMPLES), inherited.get('PYTHONPATH')]))
  settings = {
      # The demo itself asks for Shardy unless told.
      **dict.fromkeys(_MODES.values(), '0'),
      _MODES[mode]: '1',
      'PYTHONPATH': path,
      'TF_CPP_MIN_LOG_LEVEL': '2',
  }
  start = time.perf_counter()
  lines = run_process([sys.executable, '-c', _CHILD, root], {
      **inherited,
      **settings
  }, 'the demo', _SECONDS)
  seconds = time.perf_counter() - start
  return {**json.loads(lines[-1]), 'process': seconds, 'losses': lines[-2]}


def measure(rounds: int, mode: str, say) -> Dict[str, List[Dict[str, Any]]]:
  """What the processes said, by kind and in order of the rounds.

  Raises:
    BenchmarkError: a process failed, the cache did not serve, or the losses
      differ.
  """
  samples: Dict[str, List[Dict[str, Any]]] = {
      _NO_CACHE: [],
      _COLD: [],
      _WARM: []
  }
  for number in range(rounds):
    with tempfile.TemporaryDirectory() as root:
      for kind, its_root in ((_NO_CACHE, ''), (_COLD, root), (_WARM, root)):
        said = start_demo(its_root, mode)
        samples[kind].append(said)
        say(f'round {number + 1} of {rounds}, {kind}: {said}')
    cold, warm = samples[_COLD][-1], samples[_WARM][-1]
    if cold['loaded'] or warm['stored'] or warm['damaged'] or (
        warm['loaded'] != cold['stored']) or not warm['loaded']:
      raise BenchmarkError(f'the cache did not serve: {cold}, then {warm}')
    if len({samples[kind][-1]['losses'] for kind in samples}) != 1:
      raise BenchmarkError(f'the losses differ: {samples}')
  return samples


def text(samples: Dict[str, List[Dict[str, Any]]]) -> str:
  """The table: medians, and the ratio of medians with its range by rounds."""
  lines = []
  for figure, what in _FIGURES.items():
    values = {k: [s[figure] for s in samples[k]] for k in samples}
    medians = {k: statistics.median(v) for k, v in values.items()}
    ratios = [w / c for w, c in zip(values[_WARM], values[_COLD])]
    lines.append(f'{what}: ' +
                 ', '.join(f'{k} {m:.2f} s' for k, m in medians.items()) +
                 f'; warm over cold {medians[_WARM] / medians[_COLD]:.3f} '
                 f'(rounds {min(ratios):.3f} to {max(ratios):.3f})')
  programs = samples[_WARM][0]['loaded']
  return '\n'.join([f'{programs} programs loaded, none compiled', *lines])


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.cache_warm', description=__doc__)
  parser.add_argument('--rounds', type=int, default=3, metavar='N')
  parser.add_argument('--mode', choices=list(_MODES), default='shardy')
  options = parser.parse_args()
  if options.rounds < 1:
    parser.error('at least 1 round')
  start = time.monotonic()

  def say(line: str) -> None:
    print(
        f'[{time.monotonic() - start:5.0f} s] {line}',
        file=sys.stderr,
        flush=True)

  try:
    print(text(measure(options.rounds, options.mode, say)))
  except BenchmarkError as error:
    sys.exit(f'error: {error}')


if __name__ == '__main__':
  main()
