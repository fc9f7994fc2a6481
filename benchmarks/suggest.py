"""What `torch-xla-shardy suggest` finds, and how long it takes.

Scripts over eight CPU devices, 2x4 but for the first two:

  embedding   the model of examples/priority.py, tokens first
  experts     a mixture of experts
  llama       Llama-3 8B, each size over 32, data and tensor parallel
  sequences   the same with sequences split over the model axis
  layers      the first llama with 32 layers: is it ranked in a minute?

Bytes are those that a device gets by the collectives of all compiled programs.
But for the embedding scripts have no priorities of their own. No case may end
with more than it had.

  python -m benchmarks.suggest [--case NAME]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
import re
import subprocess
import sys
import time

from .errors import BenchmarkError
from .table_text import print_table

_SCRIPTS = Path(__file__).resolve().parent / 'scripts'
CASES = {
    'embedding': ('lookup.py', '--first', 'tokens'),
    'experts': ('experts.py', '--width', '64', '--hidden', '256', '--length',
                '64', '--sequences', '2', '--dtype', 'float32'),
    'llama': ('llama.py',),
    'sequences': ('llama.py', '--sequence-parallel'),
    'layers': ('llama.py', '--layers', '32', '--scale', '64', '--length', '8'),
}
_ROW = re.compile(r'(.*\S) +([\d,]+) +([\d,]+) +\d+ +[\d.]+ s +\S')


def row(name: str) -> tuple[str, ...]:
  """Bytes before and after, candidates, and seconds of ranking and in all."""
  script, *arguments = CASES[name]
  start = time.monotonic()
  began = ended = 0.
  priced = ''
  with subprocess.Popen([
      sys.executable, '-m', 'torch_xla.shardy', 'suggest',
      str(_SCRIPTS / script), *arguments
  ],
                        env=dict(
                            os.environ,
                            PJRT_DEVICE='CPU',
                            CPU_NUM_DEVICES='8',
                            XLA_USE_SHARDY='1',
                            PYTHONPATH=str(_SCRIPTS.parent.parent)),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True) as process:
    assert process.stdout and process.stderr
    for line in process.stderr:
      print(f'{name}: {line}', end='', file=sys.stderr, flush=True)
      if line.startswith('in conflict'):
        began = time.monotonic()
      elif found := re.match(r'(\d+) priced', line):
        priced, ended = found[1], time.monotonic()
    said = process.stdout.read()
  rows = [
      match.groups() for match in map(_ROW.match, said.splitlines()) if match
  ]
  if process.returncode not in (0, 1) or not rows:
    raise BenchmarkError(f'{name}: suggest ended with {process.returncode}')
  own, *others = (int(compiled.replace(',', '')) for _, _, compiled in rows)
  chosen = min([own, *others]) if process.returncode == 0 else own
  return (name, f'{own:,}', f'{chosen:,}', f'{chosen / own:.2f}', priced,
          str(len(rows)), f'{ended - began:.0f}',
          f'{time.monotonic() - start:.0f}')


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.suggest',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--case', choices=list(CASES), action='append')
  args = parser.parse_args()
  try:
    rows = [row(name) for name in args.case or CASES]
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print_table(
      'Bytes moved with what suggest chose, over those with what the script has',
      ('case', "the script's own", 'chosen', 'ratio', 'ranked', 'compiled',
       'ranking, s', 'in all, s'), rows)


if __name__ == '__main__':
  main()
