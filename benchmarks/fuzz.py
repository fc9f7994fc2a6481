"""Runs random programs over eight devices and compares them with torch.

Prints each failure with its program and the seed that makes it again; whether
GSPMD fails in the same way, which is then XLA's or upstream's; and a table of
the reasons why programs were partitioned by GSPMD. `test/shardy/fuzz` makes the
programs.

  python -m benchmarks.fuzz --programs 1000
  python -m benchmarks.fuzz --programs 500 --chains
  python -m benchmarks.fuzz --first 194 --programs 1 --print

The exit status is 1 if anything fails that does not fail with GSPMD.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
import time

_TESTS = Path(__file__).resolve().parents[1] / 'test'
for _folder in (_TESTS, _TESTS / 'shardy' / 'fuzz'):
  sys.path.insert(0, str(_folder))

# pylint: disable=wrong-import-position
import fuzz_batches as batches
from program_runs import Outcome, Status
import random_chains
import random_programs

from .table_text import print_table

_SHOWN_SEEDS = 5
_PROGRESS = 50


def main(arguments: list[str] | None = None) -> int:
  """Runs the command line and returns the exit status."""
  options = _parser().parse_args(arguments)
  environment = _environment(options)
  make = random_chains.make if options.chains else random_programs.make
  seeds = range(options.first, options.first + options.programs)
  start = time.perf_counter()
  outcomes: list[Outcome] = []
  for outcome in batches.of_seeds(seeds, make, environment=environment):
    outcomes.append(outcome)
    if options.print:
      print(make(outcome.seed), flush=True)
    if outcome.failed:
      _say(f'program {outcome.seed}: {outcome.status.value}: {outcome.detail}')
    if len(outcomes) % _PROGRESS == 0:
      _say(f'{len(outcomes)} of {len(seeds)} programs, '
           f'{time.perf_counter() - start:.0f} s')
  alone = []
  if not options.v2:
    same = batches.without_shardy(outcomes, make)
    alone = [
        o for o in outcomes if o.failed and same[o.seed].status is not o.status
    ]
    for outcome in outcomes:
      if outcome.failed and outcome not in alone:
        _say(f'program {outcome.seed}: the same without Shardy')
  for outcome in alone:
    _say(f'{make(outcome.seed)}\n')
  _tables(outcomes, alone)
  batches.processes.servers.close()
  print(f'\n{len(outcomes)} programs from seed {options.first}, '
        f'{time.perf_counter() - start:.0f} s')
  return 1 if alone else 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='benchmarks.fuzz', description=__doc__.splitlines()[0])
  parser.add_argument('--programs', type=int, default=300)
  parser.add_argument(
      '--first', '--seed', type=int, default=0, help='the first seed')
  parser.add_argument(
      '--chains',
      action='store_true',
      help='of convolutions and norms, on meshes in any order')
  parser.add_argument(
      '--stablehlo', action='store_true', help='as XLA_STABLEHLO_COMPILE=1')
  parser.add_argument('--v2', action='store_true', help='with GSPMD, in V2')
  parser.add_argument('--print', action='store_true', help='print each program')
  return parser


def _environment(options: argparse.Namespace) -> dict[str, str]:
  environment = dict(
      batches.WITHOUT_SHARDY if options.v2 else batches.ENVIRONMENT)
  if options.stablehlo:
    environment['XLA_STABLEHLO_COMPILE'] = '1'
  return environment


def _tables(outcomes: list[Outcome], alone: list[Outcome]) -> None:
  counts = batches.counts(outcomes)
  rows = [(status.value, counts.get(status,
                                    0), sum(o.status is status
                                            for o in alone))
          for status in Status]
  print_table('what became of them', ('', 'programs', 'with Shardy alone'),
              rows)
  partitioned = [name for o in outcomes for name in o.partitioners]
  print_table(
      'who partitioned', ('', 'programs compiled'),
      [(name, partitioned.count(name)) for name in sorted(set(partitioned))])
  print_table('why not Shardy', ('programs', 'reason', 'seeds'),
              [(len(seeds), reason, ' '.join(map(str, seeds[:_SHOWN_SEEDS])))
               for reason, seeds in batches.fallbacks(outcomes).items()])


def _say(text: str) -> None:
  print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
  sys.exit(main())
