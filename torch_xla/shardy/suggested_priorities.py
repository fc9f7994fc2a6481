"""Does `torch-xla-shardy suggest`: the priorities that move least.

What is in conflict is ordered in other ways, and Shardy plans each program
anew; the best few are compiled and run, as the script is, in processes of
their own, and what they compute is compared. With a topology they are compiled
ahead of time instead, and their cycles are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import contextlib
import json
import os
import pickle
import shlex
import sys
import tempfile
import time
from typing import Any, Optional

from torch_xla_shardy.parser import Parser, write

# To set up, the first step, and those after it.
_FEW = 3
# Of these a program depends on.
_VARIABLES = ('XLA_', 'PJRT_', 'CPU_NUM_DEVICES', 'TPU_', 'LIBTPU_')
_RERUN = 'torch_xla.shardy.explanation.rerun'


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  say = (lambda line: None) if options.quiet else _say
  command = [
      *(['-m'] if options.is_module else []), options.script, *options.arguments
  ]
  from .errors import DoorError
  from .mode import current_mode, Mode
  if options.topology and current_mode() is not Mode.SHARDY:
    parser.error('--topology is for Shardy alone: set XLA_USE_SHARDY=1')
  try:
    for text in options.beside:
      script = [*shlex.split(text), ''][0]
      if script != '-m' and not os.path.isfile(script):
        parser.error(f'--beside: there is no script {script!r}')
    from .explanation import search, suggestion
    runs = _Runs(options.topology, options.resume)
    first = runs.first(command)
  except (DoorError, ImportError, ValueError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2
  if first is None or first['failure']:
    why = f' ({first["failure"]})' if first else ''
    print(
        f'{options.script} failed{why}: nothing is suggested', file=sys.stderr)
    return 3
  programs = first['programs']
  items, unnamed = search.items_of(programs), search.unnamed_in(programs)
  if unnamed:
    _say(f'left out, as it has no name: {", ".join(unnamed)}. Name it with '
         'torch_xla.shardy.name_tensors')
  if not items:
    print(
        f'{options.script} compiled {first["compiled"]} programs, and in none '
        'are two annotations of named tensors in conflict: there is nothing '
        'to order. Mark tensors with xs.mark_sharding and name them with '
        'torch_xla.shardy.name_tensors')
    return 2
  if len(programs) > _FEW:
    say(f'{options.script} compiled {len(programs)} programs, and each counts '
        'once: where each step compiles another, give its inputs one shape')
  say('in conflict: ' + ', '.join(f'{g} (dimension {d})' for g, d in items))
  # Of this process: how far it comes is not up to what else runs.
  end, tried = time.process_time() + options.budget, []
  for attempt in search.search(programs, items,
                               lambda: time.process_time() < end):
    tried.append(attempt)
    if len(tried) % 10 == 0:
      say(f'{len(tried)} priced, the least so far {min(tried).nbytes:,} bytes')
  say(f'{len(tried)} priced' +
      ('' if time.process_time() < end else ', and --budget is spent'))
  best = search.best_of(tried, options.best)
  own = suggestion.Row("the script's own", tried[0].nbytes, {})
  rows = [
      suggestion.Row(f'{n}.', t.nbytes, suggestion.by_group(t))
      for n, t in enumerate(best, 1)
  ]
  if suggestion.has_priorities(programs):
    rows.insert(
        0,
        suggestion.Row('without priorities',
                       search.moved_without_priorities(programs),
                       suggestion.none_of(programs)))
  ran_as: list[Optional[dict[str, Any]]] = [first]
  for number, row in enumerate(rows, 1):
    say(f'{number} of {len(rows)}: runs {options.script}, {row.name}')
    ran_as.append(runs.again(command, row.priorities))
  for text in options.beside:
    say(f'runs {text}')
    rows.append(suggestion.Row(text, None, {}))
    ran_as.append(runs.again(shlex.split(text), {}))
  rows.insert(0, own)
  print('\n'.join(suggestion.table(rows, ran_as)))
  chosen = suggestion.chosen(rows, ran_as)
  is_ahead = suggestion.has_cycles(ran_as)
  if chosen is None:
    print(f'nothing {"takes fewer cycles" if is_ahead else "moves less"} than '
          "the script's own priorities" +
          (', and computes the same: seed what is random on the devices'
           if suggestion.chosen(rows, ran_as, float('inf')) else ''))
    return 1
  goal = 'the fewest cycles are taken' if is_ahead else 'least is moved'
  print('\n'.join(suggestion.lines(programs, chosen, goal)))
  if options.write:
    write(options.write, suggestion.policy(programs, chosen, first['held']))
  return 0


def _say(line: str) -> None:
  print(line, file=sys.stderr, flush=True)


class _Runs:
  """Runs scripts in processes of their own."""

  def __init__(self, topology: str, resume: Optional[str]):
    """Makes one that runs on the devices that there are.

    Args:
      topology: to compile for instead, ahead of time, if not empty.
      resume: a file that keeps what ran, for the next start.
    """
    self._topology = topology
    self._resume = resume
    self._ran: dict[str, Any] = {}
    if resume and os.path.exists(resume):
      try:
        with open(resume, encoding='utf-8') as file:
          self._ran = dict(json.load(file))
      except (TypeError, ValueError) as e:
        raise ValueError(f'--resume {resume}: {e}: not of suggest') from e

  def first(self, command: Sequence[str]) -> Optional[dict[str, Any]]:
    """The answer of `rerun` for a script as it is; None without one."""
    from .stablehlo import dialects
    dialects.read(b'module {}')  # MLIR is imported here, for what is forked.
    return self._run(command, None)

  def again(self, command: Sequence[str],
            priorities: Any) -> Optional[dict[str, Any]]:
    """That with other priorities, once; None if it failed."""
    key = json.dumps([command, priorities, self._topology, *_seen_by(command)])
    if key not in self._ran:
      answer = self._run(command, priorities)
      if answer is None or answer['failure']:
        return None
      self._ran[key] = answer
      if self._resume:
        write(self._resume, json.dumps(self._ran))
    ran: dict[str, Any] = self._ran[key]
    return ran

  def _run(self, command: Sequence[str],
           priorities: Any) -> Optional[dict[str, Any]]:
    from .explanation import in_subprocess, rerun
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, 'run')
      with open(path, 'w', encoding='utf-8') as file:
        json.dump([priorities, not self._topology], file)
      ahead = {}
      if self._topology:
        ahead = _ahead_of_time(self._topology, [path, *command])
      else:
        # The parent has torch_xla imported, and no devices yet.
        in_subprocess.run(lambda: rerun.main([path, *command]))
      try:
        with open(path, 'rb') as answered:
          answer: dict[str, Any] = {**pickle.load(answered), **ahead}
      except pickle.UnpicklingError:
        answer = {}
      if os.path.exists(f'{path}.log') and not (answer and
                                                not answer['failure']):
        with open(f'{path}.log', encoding='utf-8', errors='replace') as log:
          _say(log.read()[-2000:])
      return answer or None


def _seen_by(command: Sequence[str]) -> tuple[str, dict[str, str]]:
  """The text of a script, where it is a file, and the runtime's variables."""
  text = ''
  with contextlib.suppress(OSError, UnicodeDecodeError):
    with open(command[0], encoding='utf-8') as file:
      text = file.read()
  return text, {
      name: value
      for name, value in sorted(os.environ.items())
      if name.startswith(_VARIABLES)
  }


def _ahead_of_time(topology: str, arguments: Sequence[str]) -> dict[str, Any]:
  """What the TPU's compiler says of a run of `rerun`."""
  from .aot import launcher
  from .aot.errors import AotError
  from .aot.settings import Settings
  from .gate import sizes
  try:
    report = launcher.run(
        Settings(
            _RERUN,
            True,
            tuple(arguments),
            topology,
            launcher.compiler(),
            '',
            quiet=True))
  except AotError as e:
    _say(str(e))
    return {}
  peak = max((p.peak or 0 for p in report.programs), default=0)
  return dict(
      cycles=sum(p.cycles.total for p in report.programs if p.cycles),
      memory=sizes.text(peak) + (', too much' if report.fits is False else ''),
      fits=report.fits)
