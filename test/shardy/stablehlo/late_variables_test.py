"""`use_spmd` reads variables that were set after the import: mode Shardy."""

import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import current_mode, Mode

# A process each: a mode is not switched off again.
pytestmark = pytest.mark.environment(PJRT_DEVICE='CPU')


def test_use_spmd_reads_the_variables_again(monkeypatch):
  """Scripts of tt-xla set them between the import and `use_spmd`."""
  monkeypatch.setenv('CPU_NUM_DEVICES', '8')
  monkeypatch.setenv('CONVERT_SHLO_TO_SHARDY', '1')
  monkeypatch.setenv('XLA_STABLEHLO_COMPILE', '1')
  xr.use_spmd()
  assert current_mode() is Mode.SHARDY
  assert xr.device_type() == 'XLACPU'
  x = torch.ones(8, 16).to('xla')
  mesh = xs.Mesh(np.arange(8), (2, 4), ('batch', 'model'))
  xs.mark_sharding(x, mesh, ('batch', 'model'))
  torch_xla.sync()
  assert (x + 1).sum().item() == 2 * x.numel()
  assert {(p.format, p.form, p.partitioner.value)
          for p in torch_xla.shardy.programs()} == {('mlir', 'sdy', 'shardy')}
  xr.use_spmd()  # No change, so no error.


def test_use_spmd_takes_no_mode_away(monkeypatch):
  xr.use_shardy()
  monkeypatch.setenv('XLA_SHARDING_V2', '1')
  monkeypatch.setenv('PJRT_DEVICE', 'CPU')
  xr.use_spmd()
  assert current_mode() is Mode.SHARDY
  assert xr.device_type() == 'XLACPU'
