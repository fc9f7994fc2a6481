"""Measures the official wheel and ours side by side and prints the table.

Our wheel is the installed one; the official one is unpacked under build/.
"""

import argparse
import dataclasses
import json
import os
from pathlib import Path
import platform
import sys
import time
from typing import Any, Dict

from . import figures, table
from .errors import BenchmarkError
from .variants import QUICK, Wheels


def parse_arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.run', description=__doc__)
  parser.add_argument(
      '--quick',
      action='store_true',
      help='tiny sizes, to see that it works; the times mean nothing')
  parser.add_argument(
      '--only',
      action='append',
      choices=list(figures.FIGURES),
      help='this figure only; may be given more than once')
  parser.add_argument(
      '--rounds',
      type=_positive,
      metavar='N',
      help='processes of each column, instead of the defaults of each figure')
  parser.add_argument(
      '--json',
      type=Path,
      metavar='FILE',
      help='also write all numbers, of each process too')
  return parser.parse_args()


def _positive(text: str) -> int:
  number = int(text)
  if number < 1:
    raise argparse.ArgumentTypeError('at least 1')
  return number


def machine() -> Dict[str, Any]:
  return {
      'cores': len(os.sched_getaffinity(0)),
      'load': os.getloadavg()[0],
      'python': platform.python_version(),
      'system': platform.platform(),
  }


def main() -> None:
  arguments = parse_arguments()
  sizes = figures.QUICK if arguments.quick else figures.Sizes()
  if arguments.rounds:
    sizes = dataclasses.replace(sizes, rounds=arguments.rounds)
  start = time.monotonic()

  def say(line: str) -> None:
    print(
        f'[{time.monotonic() - start:5.0f} s] {line}',
        file=sys.stderr,
        flush=True)

  where = machine()
  say(f'{where["cores"]} cores, load {where["load"]:.2f}'
      f'{"" if where["load"] < 0.5 else ": NOT IDLE, expect noise"}')
  results = {}
  try:
    wheels = Wheels(say, **(QUICK if arguments.quick else {}))
    for name in arguments.only or figures.FIGURES:
      results[name] = figures.FIGURES[name](wheels, sizes, say)
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print(table.text(results))
  if arguments.json:
    document = {
        'machine': where,
        'sizes': dataclasses.asdict(sizes),
        'figures': results
    }
    arguments.json.write_text(json.dumps(document, indent=2) + '\n')


if __name__ == '__main__':
  main()
