"""PJRT_DEVICE=LIBRARY: the plugin that a path names, behind the door.

XLA's CPU plugin stands for a vendor's. Without `XlaCpuPlugin` it has as many
devices as XLA's own flag says.
"""

import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import DoorError
from torch_xla.shardy.door.device_plugins import XlaCpuPlugin

_PATH = XlaCpuPlugin().library_path()
_LIBRARY = pytest.mark.environment(
    PJRT_DEVICE='LIBRARY',
    PJRT_LIBRARY_PATH=_PATH,
    XLA_FLAGS='--xla_force_host_platform_device_count=4',
    XLA_SHARDING_V2='1')


@_LIBRARY
def test_programs_pass_the_door(monkeypatch):
  """The path is read when the runtime comes up; so a script may still say it."""
  monkeypatch.delenv('PJRT_LIBRARY_PATH')
  monkeypatch.setenv('PJRT_LIBRARY_PATH', _PATH)
  xr.use_spmd()
  assert xr.device_type() == 'LIBRARY'
  assert xr.global_runtime_device_count() == 4
  mesh = xs.Mesh(np.arange(4), (2, 2), ('x', 'y'))
  a = torch.randn(8, 8)
  x = a.to('xla')
  xs.mark_sharding(x, mesh, ('y', 'x'))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    y = x @ x
    torch_xla.sync()
  program, = programs
  assert program.options.num_partitions == 4
  assert program.shardings.v2 == 1 and program.shardings.v1 == 0
  torch.testing.assert_close(y.cpu(), a @ a)


@_LIBRARY
def test_without_a_path(monkeypatch):
  monkeypatch.delenv('PJRT_LIBRARY_PATH')
  with pytest.raises(
      DoorError, match='PJRT_DEVICE=LIBRARY .* PJRT_LIBRARY_PATH .* not set'):
    torch_xla.device()
