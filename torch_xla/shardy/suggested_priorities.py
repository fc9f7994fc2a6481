"""Does `torch-xla-shardy suggest`: the priorities that move least.

What is in conflict is ordered in other ways, and Shardy plans each program
anew; the best few are compiled and run, as the script is, in processes of
their own, and what they compute is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Optional

from torch_xla_shardy.parser import Parser, write

# To set up, the first step, and those after it.
_FEW = 3


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  say = (lambda line: None) if options.quiet else _say
  # The script may change the directory, and is run again where it was.
  start, command = os.getcwd(), [options.script, *options.arguments]
  if options.is_module:
    command.insert(0, '-m')
  from .errors import DoorError
  try:
    from .explanation import of_records, script, search, suggestion
    # It sets the arguments of this process.
    ran = script.run(options.script, list(options.arguments), options.is_module)
  except (DoorError, ImportError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2
  if ran.failure:
    print(
        f'{options.script} failed ({ran.failure}): nothing is suggested',
        file=sys.stderr)
    return 3
  programs = [
      search.Program(explanation.program, explanation.propagation)
      for explanation in of_records(ran.programs)
  ]
  items = search.items_of(programs)
  if not items:
    print(
        f'{options.script} compiled {len(ran.programs)} programs, and in none '
        'are two annotations of named tensors in conflict: there is nothing '
        'to order. Mark tensors with xs.mark_sharding and name them with '
        'torch_xla.shardy.name_tensors')
    return 2
  if len(programs) > _FEW:
    say(f'{options.script} compiled {len(programs)} programs, and each counts '
        'once: where each step compiles another, give its inputs one shape')
  say('in conflict: ' + ', '.join(f'{g} (dimension {d})' for g, d in items))
  end, tried = time.monotonic() + options.budget, []
  for attempt in search.search(programs, items, lambda: time.monotonic() < end):
    tried.append(attempt)
    if len(tried) % 10 == 0:
      say(f'{len(tried)} priced, the least so far {min(tried).nbytes:,} bytes')
  say(f'{len(tried)} priced' +
      ('' if time.monotonic() < end else ', and --budget is spent'))
  best = search.best_of(tried, options.best)
  rows = [
      suggestion.Row("the script's own", tried[0].nbytes, {}),
      suggestion.Row('without priorities',
                     search.moved_without_priorities(programs),
                     suggestion.none_of(programs)),
      *(suggestion.Row(f'{n}.', t.nbytes, suggestion.by_group(t))
        for n, t in enumerate(best, 1))
  ]
  ran_as = []
  for number, row in enumerate(rows, 1):
    say(f'{number} of {len(rows)}: runs {options.script}, {row.name}')
    ran_as.append(_run(command, start, row.priorities))
  print('\n'.join(suggestion.table(rows, ran_as)))
  chosen = suggestion.chosen(rows, ran_as)
  if chosen is None:
    print("nothing moves less than the script's own priorities" +
          (', and computes the same: seed what is random on the devices'
           if suggestion.chosen(rows, ran_as, float('inf')) else ''))
    return 1
  print('\n'.join(suggestion.lines(programs, chosen)))
  if options.write:
    write(options.write, suggestion.policy(programs, chosen, ran.held))
  return 0


def _say(line: str) -> None:
  print(line, file=sys.stderr, flush=True)


def _run(command: list[str], start: str,
         priorities: Any) -> Optional[dict[str, Any]]:
  """The report of `rerun`; None if it failed."""
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'retold.json')
    with open(path, 'w', encoding='utf-8') as file:
      json.dump(priorities, file)
    ended = subprocess.run([
        sys.executable, '-m', 'torch_xla.shardy.explanation.rerun', path,
        *command
    ],
                           capture_output=True,
                           text=True,
                           check=False,
                           cwd=start)
    if ended.returncode:
      _say(ended.stderr[-2000:])
      return None
    with open(path, encoding='utf-8') as file:
      report: dict[str, Any] = json.load(file)
  return None if report['failure'] else report
