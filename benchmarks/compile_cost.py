"""CPU seconds of compiling a training step: mode Shardy over mode V2.

  python -m benchmarks.compile_cost [--rounds N] [--tpu TOPOLOGY] [KIND ...]

KIND is one of `benchmarks/scripts/compiled_steps.py`. With --tpu libtpu
compiles, ahead of time; else XLA's CPU plugin. The modes take turns; the ratio
is of medians, in brackets those of rounds.
"""

import argparse
import json
import statistics
import sys
from typing import Any, Dict, List

from .ahead_of_time import ROOT, SCRIPTS
from .processes import clean_environment, run_process

_SCRIPT = SCRIPTS / 'compiled_steps.py'
_KINDS = ('vit', 'vit-256', 'transformer', 'odd', 'convolutions')
_MODES = {
    'V2': {
        'XLA_SHARDING_V2': '1',
        # The demo model's module switches Shardy on unless told.
        'XLA_USE_SHARDY': '0'
    },
    'Shardy': {
        'XLA_USE_SHARDY': '1'
    },
    'StableHLO': {
        'XLA_USE_SHARDY': '1',
        'XLA_STABLEHLO_COMPILE': '1'
    }
}
_SECONDS = 600


def _run(kind: str, mode: str, topology: str) -> Dict[str, Any]:
  """The last line that the script prints."""
  command = [sys.executable]
  if topology:
    command += ['-m', 'torch_xla.shardy', 'aot', f'--topology={topology}', '-q']
  lines = run_process(
      [*command, str(_SCRIPT), kind], {
          **clean_environment(), 'PJRT_DEVICE': 'CPU',
          'CPU_NUM_DEVICES': '8',
          'PYTHONPATH': str(ROOT),
          **_MODES[mode]
      }, f'{kind} in mode {mode}', _SECONDS)
  return json.loads(next(line for line in lines if line.startswith('{')))


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__.split('\n', maxsplit=1)[0])
  parser.add_argument('kind', nargs='*', default=_KINDS)
  parser.add_argument('--rounds', type=int, default=3)
  parser.add_argument('--tpu', metavar='TOPOLOGY', default='')
  parser.add_argument('--modes', nargs='*', default=['V2', 'Shardy'])
  options = parser.parse_args()
  for kind in options.kind:
    seconds: Dict[str, List[float]] = {mode: [] for mode in options.modes}
    backend: Dict[str, List[float]] = {mode: [] for mode in options.modes}
    for _ in range(options.rounds):
      for mode in options.modes:
        report = _run(kind, mode, options.tpu)
        seconds[mode].append(report['compiler'])
        backend[mode].append(report['backend'])
    base = seconds[options.modes[0]]
    for mode, each in seconds.items():
      rounds = [a / b for a, b in zip(each, base)]
      print(
          f'{kind:13}{mode:10}{statistics.median(each):7.2f} s, backend '
          f'{statistics.median(backend[mode]):6.2f}, over {options.modes[0]} '
          f'{statistics.median(each) / statistics.median(base):.3f} '
          f'({min(rounds):.2f} to {max(rounds):.2f})',
          flush=True)


if __name__ == '__main__':
  main()
