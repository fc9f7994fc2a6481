"""Mode V2 where programs leave as StableHLO."""

import re

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.stablehlo import dialects

ENVIRONMENT = environments.V2


@pytest.fixture(autouse=True)
def stablehlo_fixture(monkeypatch):
  monkeypatch.setenv('XLA_STABLEHLO_COMPILE', '1')  # Read at each compile.
  xr.use_spmd()


def test_without_shardings_it_is_handed_on_unchanged():
  x = torch.randn(4, 4)
  with torch_xla.shardy.record() as programs:
    torch.testing.assert_close((x.to('xla') * 2).cpu(), x * 2)
  program = programs[0]
  assert program.format == 'mlir'
  assert program.name.startswith('SyncTensorsGraph')
  assert program.note == '' and program.form == 'mhlo.sharding'
  assert program.handed_on == program.sent
  assert program.sent.startswith(b'ML\xefR\rStableHLO_v')


def test_shardings_leave_in_v2():
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  a = torch.randn(8, 4)
  x = a.to('xla')
  xs.mark_sharding(x, mesh, ('y', None), priority=(1, None))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    y = torch.tanh(x)
    xs.mark_sharding(y, mesh, (None, 'y'))
    torch_xla.sync()
  program, = programs
  assert program.partitioner is Partitioner.GSPMD
  assert (program.shardings.v2, program.shardings.v1) == (2, 0)
  text = dialects.text(dialects.read(program.handed_on))
  assert sorted(re.findall(r'mhlo.sharding = "(.*?)"', text)) == [
      '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
      '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
  ]
  assert 'sdy' not in text
  # Read back in V1, as `_XLAC` compares it.
  spec = torch_xla._XLAC._get_xla_sharding_spec(y)
  assert spec == '{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
  torch.testing.assert_close(y.cpu(), a.tanh())


def test_a_mesh_without_an_iota_stays_in_v1():
  mesh = xs.Mesh(np.array([3, 0, 6, 1, 7, 4, 2, 5]), (8,), ('x',))
  a = torch.randn(8, 4)
  x = a.to('xla')
  xs.mark_sharding(x, mesh, ('x', None))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    y = torch.sinh(x)
    torch_xla.sync()
  program, = programs
  assert program.shardings.v1 == 1 and program.shardings.v2 == 0
  assert program.handed_on == program.sent
  torch.testing.assert_close(y.cpu(), a.sinh())
