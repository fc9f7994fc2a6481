"""How long `torch-xla-shardy` takes to start, against Python itself.

  python -m benchmarks.command_start

Each round starts each of them once, in turn; a ratio is of the medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path
import statistics
import subprocess
import sys
import time

from torch_xla_shardy import commands

from .processes import clean_environment

_PROGRAM = str(Path(sys.executable).with_name('torch-xla-shardy'))
_PYTHON = 'python -c pass'
_WITH_TORCH = 'python -c "import torch_xla"'


def starts() -> dict[str, list[str]]:
  """The command lines, by what they are called."""
  word_lists = [['--help'], ['--version']]
  word_lists += ([name, '--help'] for name in commands.names())
  return {
      _PYTHON: [sys.executable, '-c', 'pass']
  } | {
      ' '.join(['torch-xla-shardy', *words]): [_PROGRAM, *words]
      for words in word_lists
  }


def measured(lines: dict[str, list[str]],
             rounds: int) -> dict[str, list[float]]:
  """Seconds of each round."""
  # Their own wheel's command, wherever this was started.
  environment = clean_environment()
  seconds: dict[str, list[float]] = {name: [] for name in lines}
  for _ in range(rounds):
    for name, line in lines.items():
      start = time.perf_counter()
      subprocess.run(
          line, env=environment, stdout=subprocess.DEVNULL, check=True)
      seconds[name].append(time.perf_counter() - start)
  return seconds


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.command_start', description=__doc__)
  parser.add_argument(
      '--rounds', type=int, default=20, metavar='N', help='how many (20)')
  rounds = parser.parse_args().rounds
  if not os.path.exists(_PROGRAM):
    sys.exit(f'error: {_PROGRAM} is not there: bash infra/develop.sh installs '
             'the wheel')
  found = measured(starts(), rounds)
  least = statistics.median(found[_PYTHON])
  for name, seconds in found.items():
    median = statistics.median(seconds)
    print(f'{name:36} {median * 1000:6.0f} ms  {median / least:5.1f}')
  if importlib.util.find_spec('torch_xla'):
    line = {_WITH_TORCH: [sys.executable, '-c', 'import torch_xla']}
    seconds = statistics.median(measured(line, 3)[_WITH_TORCH])
    print(f'{_WITH_TORCH:36} {seconds * 1000:6.0f} ms  {seconds / least:5.1f}')


if __name__ == '__main__':
  main()
