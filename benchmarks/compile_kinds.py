"""Compile time of Shardy over V2, by the kind of model: CPU seconds.

All programs of three training steps over eight CPU devices, from the program as
torch_xla sends it to the compiled one as it is read, in every attempt. The last
column is Shardy with normalisations left as torch_xla traces them, where
activations are gathered as they are in V2.

  python -m benchmarks.compile_kinds [--rounds 3] [--quick]
"""

import argparse
import sys
from typing import Any, Callable, Dict

from . import summary
from .errors import BenchmarkError
from .processes import measure_in_turn
from .table_text import print_table
from .variants import QUICK, Wheels

KINDS = ('transformer', 'experts', 'convolutions', 'odd sizes', 'evaluation')
LIMIT = 1.1
_V2, _SHARDY, _KEPT = 'V2', 'Shardy', 'Shardy, normalisations as traced'


def kind(name: str, wheels: Wheels, rounds: int,
         say: Callable[[str], None]) -> Dict[str, Any]:
  """Programs, attempts and CPU seconds of one kind."""
  variants = [
      wheels.ours(_V2, XLA_SHARDING_V2='1'),
      wheels.ours(_SHARDY, XLA_USE_SHARDY='1'),
      wheels.ours(_KEPT, XLA_USE_SHARDY='1', BENCHMARK_KEEPS_NORMALISATION='1')
  ]
  samples = measure_in_turn('compile_kinds', {'kind': name}, variants, rounds,
                            say)
  return {
      'cpu': summary.medians(samples, 'cpu'),
      'over_v2': summary.ratios(samples, 'cpu', _V2),
      'samples': samples,
  }


def row(name: str, results: Dict[str, Any]) -> tuple[str, ...]:
  v2, shardy, _ = (reports[0] for reports in results['samples'].values())
  ratios = results['over_v2']
  return (name,
          *(f'{one["programs"]}, {one["attempts"]}' for one in (v2, shardy)),
          f'{results["cpu"][_V2]:.2f}',
          *(f'{r["ratio"]:.3f} ({r["lowest"]:.2f} to {r["highest"]:.2f})'
            for r in (ratios[_SHARDY], ratios[_KEPT])))


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.compile_kinds',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--rounds', type=int, default=3, metavar='N')
  parser.add_argument('--kind', choices=KINDS, action='append')
  parser.add_argument(
      '--quick',
      action='store_true',
      help='no optimization: times mean nothing')
  args = parser.parse_args()

  def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

  try:
    wheels = Wheels(say, **(QUICK if args.quick else {}))
    rows = [
        row(name, kind(name, wheels, args.rounds, say))
        for name in args.kind or KINDS
    ]
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print_table(f'Compile time of Shardy over V2 (at most {LIMIT})',
              ('kind', 'V2 programs, attempts', 'Shardy', 'V2, CPU s',
               'Shardy over V2', 'normalisations as traced'), rows)


if __name__ == '__main__':
  main()
