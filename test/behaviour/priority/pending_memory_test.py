"""A marked tensor that is pending is computed once, and lies as it is marked.

What shares its value, as the storage behind it does, must not keep it whole on
each device beside.
"""

from __future__ import annotations

import gc

from kinds import assert_right
from marks import placed, put, sync
import placements
import pytest
import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla_form import SHARDY

ENVIRONMENT = SHARDY
_MIB = 2**20
_SPEC = (None, ('x', 'y'))


def _resident() -> float:
  """The memory of this process, in MiB."""
  xm.wait_device_ops()
  gc.collect()
  with open('/proc/self/statm', encoding='ascii') as file:
    return int(file.read().split()[1]) * 4096 / _MIB


@pytest.mark.parametrize('priority', [None, (None, 1)], ids=str)
def test_a_cache_made_on_the_devices(priority, mesh):
  """As servers make one: whole copies would take eight times as much."""
  columns = 1024 if priority is None else 1032
  put(mesh, (8, 8), _SPEC)
  sync()
  before = _resident()
  made = [torch.ones(1024, columns, device='xla') for _ in range(8)]
  for t in made:
    if priority is None:
      xs.mark_sharding(t, mesh, _SPEC)
    else:
      xs.mark_sharding(t, mesh, _SPEC, priority=priority)
  sync()
  grown = _resident() - before
  size = sum(t.numel() * t.element_size() for t in made) / _MIB
  for t in made:
    assert_right(t.sum(), torch.tensor(float(t.numel())), 0)
    assert placed(t) == placements.of_spec(mesh, _SPEC)
  # Compiling takes some, too; a whole copy of each, 8 * size.
  assert grown < 6 * size
