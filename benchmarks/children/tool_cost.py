"""A script for the tool: `benchmarks/scripts/transformer.py`, watched.

Takes a file, then the script's own arguments. Writes what each program cost, in
CPU seconds of all threads, as JSON: `compile`, what went on until it was
compiled, as in a run with TPUs; `own`, what the tool does with it besides.
"""

import json
import runpy
import sys
import time

# The first import of torch_xla is where the tool begins.
from torch_xla.shardy.aot.running.observer import ProgramObserver
from torch_xla.shardy.door import Compilation, Compiler


def main() -> None:
  file, script = sys.argv[1:3]
  costs = []
  observe = ProgramObserver.__call__

  def watched(self, compilation: Compilation, rest: Compiler) -> None:
    spent = 0.0

    def timed(compilation: Compilation) -> None:
      nonlocal spent
      start = time.process_time()
      rest(compilation)
      spent = time.process_time() - start

    start = time.process_time()
    observe(self, compilation, timed)
    costs.append({'compile': spent, 'own': time.process_time() - start - spent})
    with open(file, 'w', encoding='utf-8') as f:
      json.dump(costs, f)

  ProgramObserver.__call__ = watched
  sys.argv[:] = sys.argv[2:]
  runpy.run_path(script, run_name='__main__')


if __name__ == '__main__':
  main()
