"""Compile time of one training step for 256 TPU chips, from V1 and from V2.

Needs no TPU: libtpu compiles ahead of time for a topology. The step is that of
examples/train_sharded.py, traced over 8 CPU devices and scaled up.

  python -m benchmarks.tpu_compile [--rounds N]
"""

import argparse
import os
import statistics
import sys
import time

os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_SHARDING_V2='1')

import torch_xla.runtime as xr
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.stablehlo.planner import Planner

from . import scaled_step, topology

TOPOLOGY, MESH = 'v5e:16x16', (16, 16)


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__.split('\n', maxsplit=1)[0])
  parser.add_argument('--rounds', type=int, default=5, help='compiles of each')
  rounds = parser.parse_args().rounds
  xr.use_spmd()
  v1 = scaled_step.scaled(scaled_step.traced_step(), MESH)
  options = CompileOptions(Partitioner.GSPMD, 1, 256)
  v2 = Planner(Mode.V2)(v1, 'hlo', options).attempt().program
  programs = {'V1': v1, 'V2': v2}
  seconds = {form: [] for form in programs}
  for i in range(rounds + 1):
    for form, program in programs.items():
      start = time.perf_counter()
      topology.compile_for(TOPOLOGY, program)
      if i:  # The first round warms libtpu up.
        seconds[form].append(time.perf_counter() - start)
    print(f'round {i} of {rounds}', file=sys.stderr)
  v1, v2 = (statistics.median(seconds[form]) for form in ('V1', 'V2'))
  for form, program in programs.items():
    print(f'{form}: {len(program):9,} bytes, '
          f'{statistics.median(seconds[form]):.2f} s (median of {rounds})')
  print(f'{TOPOLOGY}, V2 over V1: {v2 / v1:.3f} of the compile time')


if __name__ == '__main__':
  main()
