"""Series spmd-collectives: in SPMD mode there are no replicas."""

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

ENVIRONMENT = environments.DEVICES
_GROUPS = [[0, 1, 2, 3], [4, 5, 6, 7]]
_VALUES = torch.arange(64.).view(64, 1)  # Eight rows for each device.


@pytest.fixture(autouse=True, scope='module')
def spmd():
  xr.use_spmd()


@pytest.mark.parametrize('collective', [
    lambda t: xm.all_reduce(xm.REDUCE_SUM, t, groups=_GROUPS),
    lambda t: xm.all_reduce(xm.REDUCE_SUM, [t], groups=_GROUPS),
    lambda t: xm.all_gather(t, groups=_GROUPS),
    lambda t: xm.all_gather(
        t,
        groups=_GROUPS,
        pin_layout=False,
        channel_id=1,
        use_global_device_ids=True),
    lambda t: xm.all_to_all(t, 0, 0, 8),
    lambda t: xm.collective_permute(t, [[0, 1], [1, 0]]),
    lambda t: xm.reduce_scatter(xm.REDUCE_SUM, t, 1., 0, 8),
])
def test_collective_between_replicas_is_refused(collective):
  with pytest.raises(RuntimeError, match='in SPMD mode there is one'):
    collective(torch.arange(8.).to('xla'))


def test_one_replica():
  t = torch.arange(8.).to('xla')
  xm.collective_broadcast([t], root_ordinal=1)
  for result in (t, xm.all_gather(t), xm.all_reduce(xm.REDUCE_SUM, t),
                 torch.ops._c10d_functional.all_reduce(t + 0, 'sum', ''),
                 xm.reduce_scatter(xm.REDUCE_SUM, [t], 1., 0, 1)[0]):
    assert torch.equal(result.cpu(), torch.arange(8.))


def _optimizer_step(t):
  parameter = torch.nn.Parameter(torch.zeros_like(t))
  parameter.data = torch.zeros_like(t)
  parameter.grad = t.clone()
  xm.optimizer_step(torch.optim.SGD([parameter], lr=8.))
  return -parameter.data


def _all_reduce_of_data(t):
  torch_xla.sync()
  return xm.all_reduce(xm.REDUCE_SUM, t)


def _compiled(t):
  total = torch.compile(
      lambda t: xm.all_reduce(xm.REDUCE_SUM, t * 2), backend='openxla')
  return total(t) / 2


def _sums_of(groups):
  parts = _VALUES.view(8, 8, 1)
  return {d: parts[group].sum(0) for group in groups for d in group}


_TOTAL = _sums_of([list(range(8))])


@pytest.mark.parametrize('collective, expected', [
    (_all_reduce_of_data, _TOTAL),
    (lambda t: xm.all_reduce(xm.REDUCE_SUM, [t + 0])[0], _TOTAL),
    (lambda t: xm.all_reduce(xm.REDUCE_SUM, t, groups=_GROUPS),
     _sums_of(_GROUPS)),
    (lambda t: xm.all_gather(t.T).view(8, 8).sum(0)[:, None], _TOTAL),
    (lambda t: xm.reduce_scatter(xm.REDUCE_SUM, t, 1., 0, 4, groups=_GROUPS), {
        d: total[d % 4 * 2:][:2] for d, total in _sums_of(_GROUPS).items()
    }),
    (_optimizer_step, _TOTAL),
    (lambda t: torch.ops._c10d_functional.all_reduce(t, 'sum', ''), _TOTAL),
    pytest.param(_compiled, _TOTAL, marks=pytest.mark.slow),
])
def test_devices_of_a_manual_region(collective, expected):
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  split = (('data', 'model'), None)
  t = xs.enable_manual_sharding(
      _VALUES.to('xla'), split, mesh=mesh).global_tensor
  result = collective(t)
  full = xs.disable_manual_sharding(
      result, split, (8 * result.shape[0], 1), mesh=mesh)
  assert torch.equal(full.global_tensor.cpu(),
                     torch.cat([expected[d] for d in range(8)]))
  # What left the region is of one replica again.
  again = xm.all_reduce(xm.REDUCE_SUM, full.global_tensor + 0)
  assert torch.equal(again.cpu(), full.global_tensor.cpu())


@pytest.mark.parametrize('collective', [
    lambda t: xm.all_to_all(t, 0, 0, 1),
    lambda t: xm.collective_broadcast([t]),
    lambda t: xm.mesh_reduce('tag', {'loss': t}, sum),
    lambda t: torch.ops._c10d_functional.broadcast(t, 0, ''),
])
def test_collective_of_a_manual_region_without_a_channel(collective):
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  t = xs.enable_manual_sharding(_VALUES.to('xla'), ('x', None), mesh=mesh)
  with pytest.raises(RuntimeError, match='In a manual region call xm.all_red'):
    collective(t.global_tensor * 1)
