"""Bytes of V1 and V2 shardings, and what the lowering costs.

Prints two tables:

  one sharding      the bytes of a partial-tile sharding, per number of devices
  one step          likewise, of a whole traced training step of a transformer,
                    and the time of lowering it

The step is traced on 8 virtual devices; for other numbers each sharding over 8
devices is replaced by one over more, on a mesh of n / 4 by 4, tiles and replica
groups growing with it.

  python -m benchmarks.v2_lowering
"""

import os
import time
from typing import Callable

os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_SHARDING_V2='1')

import torch
import torch_xla.runtime as xr
from torch_xla.shardy.hlo import op_sharding
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
    program = scaled_step.scaled(step, (n // 4, 4))
    lowered = to_v2.emit(program)
    assert lowered.shardings.v1 == 0, lowered.shardings
    seconds = _time(lambda p=program: to_v2.emit(p), 3)
    rows.append((n, len(program), len(lowered.program), lowered.shardings.v2,
                 f'{seconds * 1e3:.1f}'))
  print_table('one training step of examples/train_sharded.py, bytes',
              ('devices', 'V1', 'V2', 'shardings', 'lowering ms'), rows)


def main() -> None:
  xr.use_spmd()
  torch.manual_seed(0)
  _bytes_tables()


if __name__ == '__main__':
  main()
