"""Runs measurements in fresh processes, the variants in turn."""

import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any, Callable, Dict, List, Sequence

from .errors import BenchmarkError
from .variants import ROOT, Variant

_CHILDREN = Path(__file__).resolve().parent / 'children'
_SECONDS = 600
# Settings of the caller that would change what is measured.
_DROPPED = ('PJRT_', 'XLA_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_', 'NPROC',
            'TPU_', 'LIBTPU_', 'PT_XLA_', 'TF_CPP_', 'PYTHON', 'TORCH')

Samples = Dict[str, List[Dict[str, Any]]]


def measure_in_turn(
    child: str,
    arguments: Dict[str, Any],
    variants: Sequence[Variant],
    rounds: int,
    say: Callable[[str], None],
) -> Samples:
  """Runs `child` once per round for each variant: A B C, B C A, C A B, ...

  In turn, so that what else goes on in the machine meets all variants alike,
  and rotated, so that none always runs after the same other one.

  Returns:
    What the processes reported, by variant and in order of the rounds.
  """
  samples: Samples = {variant.name: [] for variant in variants}
  for number in range(rounds):
    first = number % len(variants)
    for variant in [*variants[first:], *variants[:first]]:
      say(f'{child} {arguments}, round {number + 1} of {rounds}: '
          f'{variant.name}')
      samples[variant.name].append(run_child(child, arguments, variant))
  return samples


def run_child(child: str, arguments: Dict[str, Any],
              variant: Variant) -> Dict[str, Any]:
  """The report of one process of `child`.

  Raises:
    BenchmarkError: it failed, hung, or ran another torch_xla than it should.
  """
  path = os.pathsep.join([str(variant.path), str(ROOT / 'examples')])
  where = f'{child} with {variant.name}'
  lines = run_process(
      [sys.executable,
       str(_CHILDREN / f'{child}.py'),
       json.dumps(arguments)], {
           **clean_environment(),
           **variant.environment(), 'PYTHONPATH': path
       }, where, _SECONDS)
  report = json.loads(lines[-1])
  if report['version'] != variant.version:
    raise BenchmarkError(
        f'{where}: torch_xla {report["version"]} ran and {variant.version} '
        'should have. Build and install the wheel of this checkout: '
        'bash benchmarks/run.sh does it')
  return report


def clean_environment() -> Dict[str, str]:
  """The caller's environment without what would change what is measured."""
  return {
      name: value
      for name, value in os.environ.items()
      if not name.startswith(_DROPPED)
  }


def run_process(command: Sequence[str],
                environment: Dict[str, str],
                where: str,
                seconds: float,
                statuses: Sequence[int] = (0,)) -> List[str]:
  """The lines that `command` prints; `where` is what an error calls it.

  Raises:
    BenchmarkError: it ended with none of `statuses`, or not within `seconds`.
  """
  try:
    process = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=seconds,
        check=False)
  except subprocess.TimeoutExpired:
    raise BenchmarkError(f'{where}: no end after {seconds} s') from None
  if process.returncode not in statuses:
    tail = '\n'.join(process.stderr.strip().splitlines()[-12:])
    raise BenchmarkError(f'{where}: exit status {process.returncode}\n{tail}')
  return process.stdout.strip().splitlines()
