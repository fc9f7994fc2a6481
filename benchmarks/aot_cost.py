"""What `torch-xla-shardy aot` costs, and how that grows.

Runs the tool on `benchmarks/scripts/transformer.py`, batch and model split, for
v5e at 8, 64 and 256 chips:

  wall, cpu   seconds of the whole command, imports included
  memory      peak of the process that compiles
  compile     CPU seconds until programs were compiled
  own         what the tool takes to look at them, over that; target 2 %

  python -m benchmarks.aot_cost [--layers 2 24]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import dataclasses
import json
from pathlib import Path
import resource
import sys
import tempfile
import time
from typing import Optional

from . import ahead_of_time
from .errors import BenchmarkError
from .table_text import print_table

TOPOLOGIES = ('v5e:2x4', 'v5e:8x8', 'v5e:16x16')
_SCRIPT = ahead_of_time.SCRIPTS / 'transformer.py'
_SECONDS = 7200


@dataclasses.dataclass(frozen=True)
class Cost:
  """What one run of the tool took.

  Attributes:
    chips: of the topology.
    layers: of the transformer.
    programs: that were compiled.
    wall: seconds of the command.
    cpu: seconds of the command and its children, all threads.
    memory: peak bytes of the process that compiles.
    compile_cpu: seconds until programs were compiled.
    own_cpu: seconds of looking at them.
  """
  chips: int
  layers: int
  programs: int
  wall: float
  cpu: float
  memory: int
  compile_cpu: float
  own_cpu: float


def measure(topology: str, layers: int, arguments: Sequence[str] = ()) -> Cost:
  """Runs the tool once.

  Args:
    arguments: more of the script.

  Raises:
    BenchmarkError: the script failed, or a program was refused.
  """
  with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / 'costs.json'
    before, start = _children_cpu(), time.monotonic()
    report, = ahead_of_time.run(
        ahead_of_time.ROOT / 'benchmarks' / 'children' / 'tool_cost.py',
        (str(file), str(_SCRIPT), '--layers', str(layers), *arguments),
        (topology,), True, _SECONDS)
    wall, cpu = time.monotonic() - start, _children_cpu() - before
    if report.failed or not report.fits:
      raise BenchmarkError(f'{topology}, {layers} layers: {report.ended}; '
                           f'fits: {report.fits}\n{report.traceback}')
    costs = json.loads(file.read_text(encoding='utf-8'))
  return Cost(report.topology.chips, layers, len(report.programs), wall, cpu,
              report.host_memory, sum(c['compile'] for c in costs),
              sum(c['own'] for c in costs))


def _children_cpu() -> float:
  used = resource.getrusage(resource.RUSAGE_CHILDREN)
  return used.ru_utime + used.ru_stime


def print_costs(costs: Sequence[Cost]) -> None:
  print_table('The tool', [
      'layers', 'chips', 'programs', 'wall, s', 'cpu, s', 'memory, GiB',
      'compile, cpu s', 'own, cpu s', 'own / compile'
  ], [[
      c.layers, c.chips, c.programs, f'{c.wall:.0f}', f'{c.cpu:.0f}',
      f'{c.memory / 2**30:.2f}', f'{c.compile_cpu:.1f}', f'{c.own_cpu:.2f}',
      f'{c.own_cpu / c.compile_cpu:.1%}'
  ] for c in costs])


def main(argv: Optional[Sequence[str]] = None) -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.aot_cost',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--layers', type=int, nargs='+', default=[2, 24])
  costs = []
  try:
    for layers in parser.parse_args(argv).layers:
      for topology in TOPOLOGIES:
        print(f'{layers} layers for {topology}', file=sys.stderr, flush=True)
        costs.append(measure(topology, layers))
  except BenchmarkError as error:
    sys.exit(f'error: {error}')
  print_costs(costs)


if __name__ == '__main__':
  main()
