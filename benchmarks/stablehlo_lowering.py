"""Bytes of programs in StableHLO, and what their lowering costs.

Prints two tables:

  one step          bytes of a whole traced training step of a transformer as a
                    portable artifact: V1 shardings, V2, and sdy, per number of
                    devices
  lowering time     CPU time of the lowering of annotated programs, with the CPU
                    time that XLA's CPU plugin then takes to compile what comes
                    of them, in the same run: elementwise operations, which are
                    cheap to compile, and a training step of a transformer

The step is scaled as `benchmarks.v2_lowering` does it; its mesh is made of its
placements.

  python -m benchmarks.stablehlo_lowering [--instructions 1000 10000]
"""

import argparse
from collections.abc import Callable
import functools
import os
import time
from typing import NamedTuple, Sequence

os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import current_mode, door, switch
from torch_xla.shardy.hlo import compile_options, messages, protos
from torch_xla.shardy.rewrite import extract, pipeline
from torch_xla.shardy.stablehlo import conversion, dialects, forms
from torch_xla.shardy.v2 import to_v2

from . import scaled_step
from .table_text import print_table

_DEVICES = (8, 256, 4096)


def _bytes_table() -> None:
  step = messages.parse(protos.HloModuleProto, scaled_step.traced_step())
  extract.extract_annotations(step)
  program = step.SerializeToString()
  rows = []
  for n in _DEVICES:
    scaled = scaled_step.over(program, (n // 4, 4))
    sizes = []
    for lower in ('V1', 'V2', 'sdy'):
      lowered = messages.parse(protos.HloModuleProto, scaled)
      if lower == 'V2':
        to_v2.emit_in_place(lowered)
      elif lower == 'sdy':
        pipeline.lower(pipeline.Program(lowered), pipeline.Settings(n))
      module = conversion.from_hlo(lowered)
      if lower == 'sdy':
        forms.write(module, forms.Form.SDY)
      sizes.append(len(dialects.write(module, (1, 13, 0))))
    rows.append((n, *sizes, f'{sizes[2] / sizes[0]:.3f}'))
  print_table('one training step of examples/train_sharded.py, bytes',
              ('devices', 'V1', 'V2', 'sdy', 'sdy over V1'), rows)


class _Timing(NamedTuple):
  operations: int
  lowering: float
  compile: float


def _timing(run: Callable[[], None]) -> _Timing:
  """The timing of the largest program that `run` has compiled."""
  timings: list[_Timing] = []
  mode = current_mode()
  planner = switch.stablehlo().planner(mode, switch.route(mode))

  def measure(compilation: door.Compilation, _: door.Compiler) -> None:
    options = compile_options.read(compilation.options)
    lowering = []
    for _ in range(3):
      start = time.process_time()
      plan = planner(compilation.program, compilation.format, options)
      lowering.append(time.process_time() - start)
    attempt = plan.attempts[0]
    assert attempt.form == 'sdy', attempt.form
    count = dialects.text(dialects.read(attempt.program)).count(' = ')
    start = time.process_time()
    attempt.run(compilation)
    timings.append(_Timing(count, min(lowering), time.process_time() - start))

  undo = door.wrap(measure)
  try:
    run()
  finally:
    undo()
  return max(timings, key=lambda t: t.operations)


def _elementwise(instructions: int) -> None:
  """A program of about so many instructions, one in eight a constraint."""
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  x = torch.ones(64, 64).to('xla')
  w = torch.eye(64).to('xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(0, None))
  xs.mark_sharding(w, mesh, (None, 'y'), priority=(None, 1))
  y = x
  for i in range(max(instructions // 8, 1)):
    y = torch.sin(y * (1 + i % 7)) + x
    if i % 10 == 0:
      y = y @ w
    xs.mark_sharding(y, mesh, ('x', None), priority=(2, None))
  torch_xla.sync()


def _time_table(sizes: Sequence[int]) -> None:
  rows = []
  programs = {
      f'elementwise, {size}': functools.partial(_elementwise, size)
      for size in sizes
  }
  programs['training step'] = lambda: scaled_step.run_step(decay=0.1)
  for name, run in programs.items():
    t = _timing(run)
    rows.append((name, t.operations, f'{t.lowering * 1e3:.1f}',
                 f'{t.lowering / t.operations * 1e6:.1f}', f'{t.compile:.2f}',
                 f'{t.lowering / t.compile:.2%}'))
  print_table(
      "lowering to sdy, and compiling that with XLA's CPU plugin, CPU time",
      ('program', 'operations', 'lowering ms', 'us each', 'compile s', 'ratio'),
      rows)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument(
      '--instructions', type=int, nargs='*', default=[1000, 10000])
  arguments = parser.parse_args()
  xr.use_spmd()
  torch.manual_seed(0)
  _bytes_table()
  os.environ['XLA_STABLEHLO_COMPILE'] = '1'  # Read at each compile.
  _time_table(arguments.instructions)


if __name__ == '__main__':
  main()
