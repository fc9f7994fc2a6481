"""Bytes of V1 and V2 shardings, and what the lowering costs.

Prints three tables:

  one sharding      the bytes of a partial-tile sharding, per number of devices
  one step          likewise, of a whole traced training step of a transformer
  lowering time     for modules of 1 k to 100 k instructions, with the time that
                    XLA's CPU plugin then takes to compile the same module

The step is traced on 8 virtual devices; for other numbers each sharding over 8
devices is replaced by one over more, on a mesh of n / 4 by 4, tiles and replica
groups growing with it. The last table's ratio is of times measured in one run,
in one process; run it on a machine that is otherwise idle.

  python -m benchmarks.v2_lowering [--instructions 1000 10000 100000]
"""

import argparse
import dataclasses
import os
import time
from typing import Callable, List, Sequence

os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_SHARDING_V2='1')

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import door
from torch_xla.shardy.hlo import compile_options, messages, op_sharding, protos
from torch_xla.shardy.sharding.partition_spec import sharding_of
from torch_xla.shardy.v2 import to_v2

from . import scaled_step
from .table_text import print_table

_DEVICES = (8, 64, 512, 4096, 65536)


def _time(f: Callable[[], object], repeats: int) -> float:
  """The least of `repeats` times in seconds."""
  times = []
  for _ in range(repeats):
    start = time.perf_counter()
    f()
    times.append(time.perf_counter() - start)
  return min(times)


def _bytes_tables() -> None:
  rows = []
  for n in _DEVICES:
    v2 = sharding_of((n // 4, 4), None, (1, None))
    v1 = op_sharding.to_bytes(v2.to_v1())
    rows.append((n, len(v1), len(op_sharding.to_bytes(v2)), str(v2)))
  print_table('one partial-tile sharding, bytes',
              ('devices', 'V1', 'V2', 'V2 text'), rows)
  step = scaled_step.traced_step()
  rows = []
  for n in _DEVICES:
    program = scaled_step.over(step, (n // 4, 4))
    lowered = to_v2.emit(program)
    assert lowered.shardings.v1 == 0, lowered.shardings
    seconds = _time(lambda p=program: to_v2.emit(p), 3)
    rows.append((n, len(program), len(lowered.program), lowered.shardings.v2,
                 f'{seconds * 1e3:.1f}'))
  print_table('one training step of examples/train_sharded.py, bytes',
              ('devices', 'V1', 'V2', 'shardings', 'lowering ms'), rows)


@dataclasses.dataclass(frozen=True)
class _Timing:
  instructions: int
  lowering: float
  compile: float


def _timing(instructions: int) -> _Timing:
  """Compiles a program of about so many instructions, with shardings."""
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  x = torch.ones(64, 64).to('xla')
  w = torch.eye(64).to('xla')
  xs.mark_sharding(x, mesh, ('x', None))
  xs.mark_sharding(w, mesh, (None, 'y'))
  torch_xla.sync()
  timings: List[_Timing] = []

  def measure(compilation: door.Compilation, _: door.Compiler) -> None:
    program = compilation.program
    count = sum(
        len(c.instructions)
        for c in messages.parse(protos.HloModuleProto, program).computations)
    seconds = _time(lambda: to_v2.emit(program), 5)
    lowered = to_v2.emit(program)
    options = compile_options.with_partitioner(
        compilation.options, compile_options.Partitioner.GSPMD)
    start = time.perf_counter()
    compilation.compile(lowered.program, options)
    timings.append(_Timing(count, seconds, time.perf_counter() - start))

  # About 8 instructions a round, of which one is a Sharding call.
  y = x
  for i in range(max(instructions // 8, 1)):
    y = torch.sin(y * (1 + i % 7)) + x
    if i % 10 == 0:
      y = y @ w
    xs.mark_sharding(y, mesh, ('x', None))
  undo = door.wrap(measure)
  try:
    torch_xla.sync()
  finally:
    undo()
  return max(timings, key=lambda t: t.instructions)


def _time_table(sizes: Sequence[int]) -> None:
  rows = []
  for size in sizes:
    t = _timing(size)
    rows.append((t.instructions, f'{t.lowering * 1e3:.1f}',
                 f'{t.lowering / t.instructions * 1e6:.2f}', f'{t.compile:.2f}',
                 f'{t.lowering / t.compile:.2%}'))
  print_table('lowering, and compiling the same module with XLA on the CPU',
              ('instructions', 'lowering ms', 'us each', 'compile s', 'ratio'),
              rows)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument(
      '--instructions', type=int, nargs='*', default=[1000, 10000, 100000])
  arguments = parser.parse_args()
  xr.use_spmd()
  torch.manual_seed(0)
  _bytes_tables()
  _time_table(arguments.instructions)


if __name__ == '__main__':
  main()
