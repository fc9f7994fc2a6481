"""Series spmd-collectives: in SPMD mode there are no replicas."""

import environments
import numpy as np
import pytest
import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

ENVIRONMENT = environments.DEVICES
_GROUPS = [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.fixture(autouse=True, scope='module')
def spmd():
  xr.use_spmd()


@pytest.mark.parametrize('collective', [
    lambda t: xm.all_reduce(xm.REDUCE_SUM, t, groups=_GROUPS),
    lambda t: xm.all_reduce(xm.REDUCE_SUM, [t], groups=_GROUPS),
    lambda t: xm.all_gather(t, groups=_GROUPS),
    lambda t: xm.all_gather(t, groups=_GROUPS, pin_layout=False),
    lambda t: xm.all_gather(t, groups=_GROUPS, pin_layout=False, channel_id=1),
    lambda t: xm.all_to_all(t, 0, 0, 8),
    lambda t: xm.collective_permute(t, [[0, 1], [1, 0]]),
    lambda t: xm.reduce_scatter(xm.REDUCE_SUM, t, 1., 0, 8),
])
def test_collective_between_replicas_is_refused(collective):
  with pytest.raises(RuntimeError, match='in SPMD mode there is one'):
    collective(torch.arange(8.).to('xla'))


def test_one_replica():
  t = torch.arange(8.).to('xla')
  assert torch.equal(xm.all_gather(t).cpu(), torch.arange(8.))
  assert torch.equal(xm.all_reduce(xm.REDUCE_SUM, t).cpu(), torch.arange(8.))


def test_devices_of_a_manual_region():
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  t = xs.enable_manual_sharding(
      torch.ones(8, 8).to('xla'), ('data', None), mesh=mesh).global_tensor
  scattered = xm.reduce_scatter(
      xm.REDUCE_SUM,
      t,
      1.,
      0,
      4,
      groups=_GROUPS,
      pin_layout=False,
      channel_id=1,
      use_global_device_ids=True)
  full = xs.disable_manual_sharding(
      scattered, (None, None), tuple(scattered.shape), mesh=mesh)
  assert torch.equal(full.global_tensor.cpu(), torch.full((1, 8), 4.))
