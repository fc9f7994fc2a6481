"""With GSPMD the compiled program is the same from V1 and from V2: models.

Each trains on eight devices, and the result is compared with PyTorch's own.
"""

import copy

from both_ways import check_same, compile_both_ways
import environments
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.spmd as xs

ENVIRONMENT = environments.V2
pytestmark = pytest.mark.usefixtures('spmd')
close = torch.testing.assert_close

pytest.importorskip('jaxlib', reason='needs jaxlib: it prints the programs')


@pytest.fixture(name='both')
def both_fixture():
  torch._dynamo.reset()
  torch.manual_seed(0)
  with compile_both_ways() as both:
    yield both


class Block(torch.nn.Module):
  """A transformer's block, with 4 heads of 4."""

  def __init__(self):
    super().__init__()
    self.norm = torch.nn.LayerNorm(16)
    self.qkv = torch.nn.Linear(16, 48)
    self.out = torch.nn.Linear(16, 16)
    self.up = torch.nn.Linear(16, 64)
    self.down = torch.nn.Linear(64, 16)

  def forward(self, x):
    q, k, v = (
        part.unflatten(-1, (4, 4)).transpose(1, 2)
        for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
    weights = (q @ k.transpose(2, 3) / 2).softmax(-1)
    x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
    return x + self.down(F.gelu(self.up(x)))


def _mesh() -> xs.Mesh:
  return xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))


def _train(model, on_device, batch_spec, mesh) -> None:
  """Three steps of both models on the same data, then compares weights."""
  optimizers = [
      torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
      for m in (model, on_device)
  ]
  for _ in range(3):
    x = torch.randn(8, 6, 16)
    fed = x.to('xla')
    xs.mark_sharding(fed, mesh, batch_spec)
    for m, optimizer, data in zip((model, on_device), optimizers, (x, fed)):
      optimizer.zero_grad()
      F.mse_loss(m(data), data).backward()
      optimizer.step()
    torch_xla.sync()
  for expected, got in zip(model.parameters(), on_device.parameters()):
    close(got.cpu(), expected, rtol=1e-4, atol=1e-5)


def _shard(module: torch.nn.Module, mesh: xs.Mesh, **specs) -> None:
  for name, spec in specs.items():
    xs.mark_sharding(getattr(module, name).weight, mesh, spec)


_TP = {
    'qkv': ('model', None),
    'out': (None, 'model'),
    'up': ('model', None),
    'down': (None, 'model'),
}
_2D = {
    'qkv': ('model', 'data'),
    'out': ('data', 'model'),
    'up': ('model', 'data'),
    'down': ('data', 'model'),
}


@pytest.mark.slow
def test_training(both):
  model, mesh = Block(), _mesh()
  on_device = copy.deepcopy(model).to('xla')
  _shard(on_device, mesh, **_2D)
  _train(model, on_device, ('data', None, 'model'), mesh)
  check_same(both, v2=2, collective='all-reduce(')
  assert all(p.shardings.v1 == 0 for p in both)


def test_torch_compile(both):
  model, mesh = Block().eval(), _mesh()
  on_device = copy.deepcopy(model).to('xla')
  _shard(on_device, mesh, **_TP)
  compiled = torch.compile(on_device, backend='openxla')
  x = torch.randn(8, 6, 16)
  fed = x.to('xla')
  xs.mark_sharding(fed, mesh, ('data', None, None))
  with torch.no_grad():
    for _ in range(3):
      y = compiled(fed)
    close(y.cpu(), model(x), rtol=1e-4, atol=1e-5)
  check_same(both, v2=5, collective='all-reduce(')


@pytest.mark.parametrize('minibatch', [True, False])
def test_input_sharding_of_the_loader(both, minibatch):
  mesh = xs.Mesh(np.arange(8), (8, 1), ('data', 'model'))
  batches = [torch.randn(16, 4) for _ in range(3)]
  w = torch.randn(4, 4)
  on_device = w.to('xla')
  spec = xs.ShardingSpec(mesh, ('data', None), minibatch=minibatch)
  loader = pl.MpDeviceLoader(batches, torch_xla.device(), input_sharding=spec)
  got = []
  for batch in loader:
    assert 'devices=[8,1]0,1,2' in torch_xla._XLAC._get_xla_sharding_spec(batch)
    got.append((batch @ on_device).cpu())
  for x, y in zip(batches, got, strict=True):
    close(y, x @ w, rtol=1e-5, atol=1e-5)
  check_same(both, v2=1)
