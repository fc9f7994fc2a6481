"""With GSPMD the compiled program is the same from V1 and from V2: placements.

On eight devices, each result also compared with that of PyTorch on the host.
"""

from both_ways import check_same, compile_both_ways
from convolution_steps import CASES, check
import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.sharding.hlo_sharding import NO_IOTA

ENVIRONMENT = environments.V2
pytestmark = pytest.mark.usefixtures('spmd')
close = torch.testing.assert_close

pytest.importorskip('jaxlib', reason='needs jaxlib: it prints the programs')


@pytest.fixture(name='both')
def both_fixture():
  with compile_both_ways() as both:
    yield both


def _matmul(mesh: xs.Mesh, x_spec, w_spec, y_spec) -> None:
  """Checks y = x w with all three annotated; [16, 8] = [16, 16] [16, 8]."""
  x, w = torch.randn(16, 16), torch.randn(16, 8)
  x_fed, w_fed = x.to('xla'), w.to('xla')
  xs.mark_sharding(x_fed, mesh, x_spec)
  xs.mark_sharding(w_fed, mesh, w_spec)
  y = torch.matmul(x_fed, w_fed)
  xs.mark_sharding(y, mesh, y_spec)
  torch_xla.sync()
  close(y.cpu(), x @ w, rtol=1e-5, atol=1e-5)


_AXES = ('x', 'y')


@pytest.mark.parametrize('x, w, y, collective', [
    (('x', None), (None, None), ('x', None), ''),
    (('x', None), (None, 'y'), ('x', 'y'), ''),
    ((None, 'y'), ('y', None), (None, None), 'all-reduce('),
    (('x', 'y'), ('y', 'x'), ('x', 'y'), 'all-reduce('),
    ((_AXES, None), (_AXES, None), (_AXES, None), 'all-gather('),
    ((('y', 'x'), None), (None, _AXES), (None, ('y', 'x')), 'all-gather('),
    ((None, _AXES), (_AXES, None), ('y', 'x'), 'all-reduce('),
    (('y', 'x'), (None, None), ('x', 'y'), 'collective-permute('),
])
def test_placements(both, mesh, x, w, y, collective):
  _matmul(mesh, x, w, y)
  check_same(both, v2=2, collective=collective)
  assert any('<=[' in p.raw_from_v2 for p in both)
  assert all('<=[' not in p.from_v2 for p in both)
  assert all(p.shardings.v1 == 0 for p in both)


@pytest.mark.parametrize('devices, v1', [
    ([0, 2, 4, 6, 1, 3, 5, 7], 0),
    ([4, 5, 6, 7, 0, 1, 2, 3], 1),
    ([7, 6, 5, 4, 3, 2, 1, 0], 1),
])
def test_permuted_meshes(both, devices, v1):
  """V1 goes on where no iota gives the order, and the record says so."""
  mesh = xs.Mesh(np.array(devices), (2, 4), _AXES)
  _matmul(mesh, ('x', None), (None, 'y'), ('x', 'y'))
  check_same(both, v2=0)
  reasons = [reason for p in both for reason, _ in p.shardings.unconverted]
  assert bool(reasons) == bool(v1)
  assert set(reasons) <= {NO_IOTA}


def test_three_axes_and_uneven_dims(both):
  mesh = xs.Mesh(np.arange(8), (2, 2, 2), ('z', 'x', 'y'))
  t = torch.randn(5, 6, 9)
  fed = t.to('xla')
  xs.mark_sharding(fed, mesh, ('z', ('x', 'y'), None))
  out = (fed * 2).sum(dim=1)
  xs.mark_sharding(out, mesh, ('y', 'z'))
  torch_xla.sync()
  close(out.cpu(), (t * 2).sum(dim=1))
  check_same(both, v2=2, collective='all-reduce')


def test_pending_tensor_is_a_sharding_call(both, mesh):
  x = torch.randn(16, 16)
  y = x.to('xla') + 1
  xs.mark_sharding(y, mesh, ('y', 'x'))
  z = (y @ y).relu()
  torch_xla.sync()
  close(z.cpu(), ((x + 1) @ (x + 1)).relu())
  check_same(both, collective='all-gather(')


def test_annotate_custom_sharding(both, mesh):
  x = torch.randn(16, 16)
  fed = x.to('xla')
  xs.mark_sharding(fed, mesh, ('x', None))
  torch_xla.sync()
  other = xs.annotate_custom_sharding(fed, mesh, (None, 'y'))
  y = other.global_tensor * 3
  torch_xla.sync()
  close(y.cpu(), x * 3)
  check_same(both, v2=2)


def test_mark_sharding_with_gradients(both, mesh):
  x = torch.randn(16, 16)
  fed = x.to('xla').requires_grad_()
  marked = xs.mark_sharding_with_gradients(fed * 2, mesh, ('x', 'y'))
  (marked @ marked).sum().backward()
  torch_xla.sync()
  x.requires_grad_()
  ((x * 2) @ (x * 2)).sum().backward()
  close(fed.grad.cpu(), x.grad, rtol=1e-4, atol=1e-4)
  check_same(both, v2=2)


@pytest.mark.parametrize('spec', [('x', None), (None, 'y'), (_AXES, None),
                                  ('y', 'x')])
def test_manual_sharding(both, mesh, spec):
  x = torch.randn(16, 16)
  fed = x.to('xla')
  shard = xs.enable_manual_sharding(fed, spec, mesh=mesh).global_tensor
  tiles = [{'x': 2, 'y': 4, _AXES: 8, None: 1}[axis] for axis in spec]
  assert shard.shape == (16 // tiles[0], 16 // tiles[1])
  out = (shard + 1).sin()
  whole = xs.disable_manual_sharding(out, spec, (16, 16), mesh=mesh)
  y = whole.global_tensor * 2
  torch_xla.sync()
  close(y.cpu(), (x + 1).sin() * 2)
  check_same(both, v2=2)


def test_manual_all_reduce(both, mesh):
  """The collective that the user puts between the two ends."""
  x = torch.randn(16, 16)
  fed = x.to('xla')
  shard = xs.enable_manual_sharding(fed, (_AXES, None), mesh=mesh).global_tensor
  total = torch_xla._XLAC._xla_spmd_all_reduce(xm.REDUCE_SUM, shard, 1.0,
                                               [list(range(8))])
  whole = xs.disable_manual_sharding(
      total, (_AXES, None), (16, 16), mesh=mesh).global_tensor
  torch_xla.sync()
  close(whole.cpu(), x.reshape(8, 2, 16).sum(0).repeat(8, 1))
  check_same(both, v2=2, collective='all-reduce(')


def test_reading_and_resharding_programs_of_torch_xla(both, mesh):
  x = torch.arange(256.).reshape(16, 16)
  fed = x.to('xla')
  xs.mark_sharding(fed, mesh, ('x', 'y'))
  y = fed + 1
  torch_xla.sync()
  close(y.cpu(), x + 1)  # ReplicateShardedData.
  xs.clear_sharding(fed)
  xs.mark_sharding(fed, mesh, ('y', None))
  close((fed * 2).cpu(), x * 2)
  check_same(both, v2=3, collective='all-gather(')


@pytest.mark.parametrize('name', CASES)
def test_convolutions(name):
  program = check(name)
  assert program.note.startswith('convolutions, ')
