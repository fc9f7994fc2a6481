"""Runs random programs in child processes: XLA may end one, and does.

A child runs programs and writes each outcome down as it has it. Where one ends
or hangs, the program that it was at is the finding, and the next child goes on
behind it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
import json
import os
import re
import tempfile
from typing import Optional

import processes
from program_runs import Outcome, reason_of, run, start, Status
import random_programs
from random_programs import Program

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '1',
    # Most of the time is LLVM's otherwise.
    'XLA_FLAGS': '--xla_backend_optimization_level=0',
}
# The same by GSPMD, to tell whose a failure is.
WITHOUT_SHARDY = {
    **{
        k: v for k, v in ENVIRONMENT.items() if k != 'XLA_USE_SHARDY'
    },
    'XLA_SHARDING_V2': '1',
}
_BATCH = 50  # A process keeps each program that it compiled.
_SECONDS_EACH = 20
_SECONDS = 60
_CHECK = re.compile(r'Check failed: .*')
_FRAME = re.compile(r' (xla::[\w:]*Handle\w+|mlir::sdy::\w+)\(')


def outcomes(programs: Sequence[Program],
             environment: Mapping[str, str] = ENVIRONMENT,
             spoil: Optional[Callable[[], None]] = None) -> Iterator[Outcome]:
  """The outcome of each program, in order.

  Args:
    spoil: called in each child first: to see whether what is wrong is found.
  """
  left = list(programs)
  while left:
    now = left[:_BATCH]
    done = _run_child(now, environment, spoil)
    yield from done
    left = left[len(done):]


def _run_child(programs: Sequence[Program], environment: Mapping[str, str],
               spoil: Optional[Callable[[], None]]) -> list[Outcome]:
  """Outcomes of the first of them, one at least: until one failed."""
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'outcomes')
    job = functools.partial(_child, path, tuple(programs), spoil)
    ended = processes.run_job(job, _SECONDS + _SECONDS_EACH * len(programs),
                              **environment)
    done = []
    if os.path.exists(path):
      with open(path) as file:
        done = [Outcome.from_json(json.loads(line)) for line in file]
  if ended.status != 0 and len(done) < len(programs):
    text = (ended.stdout + ended.stderr).decode(errors='replace')
    done.append(
        Outcome(programs[len(done)].seed, Status.DIED,
                _last_words(ended.status, text)))
  return done


def _child(path: str, programs: Sequence[Program],
           spoil: Optional[Callable[[], None]]) -> None:
  import logging
  # Each is in an outcome.
  logging.getLogger('torch_xla').setLevel(logging.ERROR)
  start()
  if spoil is not None:
    spoil()
  with open(path, 'w') as file:
    for program in programs:
      outcome = run(program)
      file.write(json.dumps(outcome.to_json()) + '\n')
      file.flush()
      if outcome.status is Status.RAISED:
        break  # What it left pending may fail the next as well.


def _last_words(status: Optional[int], text: str) -> str:
  """Why a process ended, from what it printed."""
  if status is None:
    return 'no end'
  check = _CHECK.search(text)
  frame = _FRAME.search(text)
  said = [f'exit status {status}']
  if check:
    said.append(check.group().strip())
  if frame:
    said.append(f'in {frame.group(1)}')
  if len(said) == 1:
    said.append(text.strip()[-300:])
  return ', '.join(said)


def of_seeds(seeds: Sequence[int],
             make: Callable[[int], Program] = random_programs.make,
             **options) -> Iterator[Outcome]:
  return outcomes([make(seed) for seed in seeds], **options)


def fallbacks(found: Sequence[Outcome]) -> dict[str, list[int]]:
  """The seeds of programs that GSPMD partitioned, by reason."""
  by_reason: dict[str, list[int]] = {}
  for outcome in found:
    for note in dict.fromkeys(map(reason_of, outcome.fallbacks)):
      by_reason.setdefault(note, []).append(outcome.seed)
  return dict(sorted(by_reason.items(), key=lambda item: -len(item[1])))


def without_shardy(
    found: Sequence[Outcome],
    make: Callable[[int],
                   Program] = random_programs.make) -> dict[int, Outcome]:
  """What becomes of the programs that failed if GSPMD partitions, by seed."""
  failed = [outcome.seed for outcome in found if outcome.failed]
  return {
      outcome.seed: outcome
      for outcome in of_seeds(failed, make, environment=WITHOUT_SHARDY)
  }


def counts(found: Sequence[Outcome]) -> dict[Status, int]:
  return dict(collections.Counter(outcome.status for outcome in found))
