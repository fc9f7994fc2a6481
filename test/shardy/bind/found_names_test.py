"""Records name the tensors of modules, without being told their names."""

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
    SpmdFullyShardedDataParallel as FSDPv2)
import torch_xla.runtime as xr

ENVIRONMENT = environments.SHARDY


@pytest.fixture(scope='module', name='mesh')
def mesh_fixture() -> xs.Mesh:
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (8, 1), ('fsdp', 'y'))


class Net(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.up = torch.nn.Linear(16, 32)
    self.down = torch.nn.Linear(32, 16)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    return self.down(torch.tanh(self.up(x)))


def _program_of(compute, x: torch.Tensor):
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    out = compute(x)
    torch_xla.sync()
  del out
  return next(p for p in programs if p.tensors)


_NAMES = {'up.weight', 'up.bias', 'down.weight', 'down.bias'}


def test_fsdp(mesh):
  x = torch.randn(8, 16).to('xla')
  model = FSDPv2(Net(), mesh=mesh)
  assert {t.name for t in _program_of(model, x).tensors if t.name} == _NAMES


def test_a_module_and_what_is_in_none(mesh):
  net = Net().to('xla')
  xs.mark_sharding(net.up.weight, mesh, ('fsdp', None), priority=(0, None))
  x = torch.randn(8, 16).to('xla')
  xs.mark_sharding(x, mesh, ('fsdp', None), priority=(1, None))
  program = _program_of(lambda x: net(x), x)
  named = {t.name: t.shape.dims for t in program.tensors if t.spec}
  assert named == {'up.weight': (32, 16), '': (8, 16)}
  assert 'up.weight' in str(program)
