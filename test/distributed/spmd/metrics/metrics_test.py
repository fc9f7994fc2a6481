"""Metrics over a mesh of eight devices, against plain torch on the CPU."""

import math

import environments
import pytest
import torch
import torch_xla
from torch_xla.distributed.spmd import metrics
import torch_xla.distributed.spmd as xs

ENVIRONMENT = environments.DEVICES

_DEVICES = 8
_SPECS = {
    'replicated': (None, None),
    'sharded': ('data', 'model'),
    'rows': (('data', 'model'), None),
    'partly replicated': (None, 'model'),
}


def on_mesh(t, mesh, spec):
  device_tensor = t.to('xla')
  xs.mark_sharding(device_tensor, mesh, spec)
  return device_tensor


def replicated(shards):
  """A tensor that is called replicated, of what each device holds."""
  return torch_xla._XLAC._global_tensor_from_cpu_shards(
      shards, torch_xla._XLAC.OpSharding([], [], [],
                                         xs.ShardingType.REPLICATED))


# (13, 6): no dimension is divided by the mesh's.
@pytest.mark.parametrize('shape', [(16, 8), (13, 6)])
@pytest.mark.parametrize('spec', _SPECS.values(), ids=_SPECS)
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_numbers_are_torchs(mesh, shape, spec, dtype):
  t = torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)
  device_tensor = on_mesh(t, mesh, spec)
  total = metrics.global_sum(device_tensor)
  assert total.item() == pytest.approx(t.double().sum().item(), abs=1e-4)
  mean = metrics.global_mean(device_tensor)
  assert mean.item() == pytest.approx(t.double().mean().item(), abs=1e-6)
  assert float(mean) == mean.item()
  greatest = metrics.global_max(device_tensor)
  assert greatest.item() == t.max().item()
  for metric in (total, mean, greatest):
    assert metric.value.device.type == 'cpu'
    assert metric.value.dtype == torch.float32
    assert metric.count == t.numel()
    assert metric.proof.processes == 1
    assert len(set(metric.proof.devices)) == _DEVICES


def test_pending_computation(mesh):
  t = torch.arange(48.0).reshape(12, 4)
  device_tensor = on_mesh(t, mesh, ('data', None))
  logits = (device_tensor @ device_tensor.T).relu() / 7
  expected = (t @ t.T).relu() / 7
  assert metrics.global_mean(logits).item() == pytest.approx(
      expected.mean().item())


def test_metrics_of_a_wrapped_tensor_that_requires_grad(mesh):
  t = torch.ones(8, 4, device='xla', requires_grad=True)
  wrapped = xs.mark_sharding(t, mesh, ('data', 'model'))
  assert metrics.global_sum(wrapped).item() == 32
  assert metrics.global_sum(t * 2).item() == 64


def test_integers_are_exact(mesh):
  t = torch.full((16,), 2**30 + 1, dtype=torch.int32)
  device_tensor = on_mesh(t, mesh, ('data',))
  total = metrics.global_sum(device_tensor)
  assert total.value.dtype == torch.int64
  assert total.item() == 16 * (2**30 + 1)
  assert metrics.global_max(-device_tensor).item() == -(2**30 + 1)
  correct = on_mesh(torch.arange(16) % 3 == 0, mesh, ('model',))
  assert metrics.global_sum(correct).item() == 6
  assert metrics.global_max(correct).item() == 1


def test_bfloat16_sums_do_not_stall(mesh):
  # Summed in bfloat16, 256 and no more.
  t = on_mesh(torch.ones(4096, dtype=torch.bfloat16), mesh, ('data',))
  assert metrics.global_sum(t).item() == 4096


def test_last_batch_is_padded(mesh):
  losses = torch.randn(16, 4)
  valid = torch.arange(16) < 11
  padded = torch.where(valid[:, None], losses, float('nan'))
  mean = metrics.global_mean(
      on_mesh(padded, mesh, ('data', None)),
      on_mesh(valid[:, None], mesh, ('data', None)))
  assert mean.item() == pytest.approx(losses[:11].mean().item(), abs=1e-6)
  assert mean.count == 11 * 4


def test_weights(mesh):
  t, weights = torch.randn(16), torch.rand(16)
  device_tensor = on_mesh(t, mesh, ('data',))
  mean = metrics.global_mean(device_tensor, weights.to('xla'))
  assert mean.item() == pytest.approx(
      ((t * weights).sum() / weights.sum()).item(), abs=1e-6)
  assert metrics.global_mean(device_tensor, 3).item() == pytest.approx(
      t.mean().item(), abs=1e-6)


def test_batches_of_other_weight_compile_nothing(mesh):
  t = on_mesh(torch.randn(16), mesh, ('data',))
  metrics.global_mean(t, weight=5)
  compiled = torch_xla._XLAC._xla_get_num_cached_compilation_graph()
  assert metrics.global_mean(t, weight=7).count == 7 * 16
  assert torch_xla._XLAC._xla_get_num_cached_compilation_graph() == compiled


@pytest.mark.parametrize('spec', [('data', 'model'), (None, None)])
def test_nan_and_infinity_are_passed_on(mesh, spec):
  t = torch.zeros(8, 4)
  t[5, 2] = float('nan')
  device_tensor = on_mesh(t, mesh, spec)
  assert math.isnan(metrics.global_max(device_tensor).item())
  assert math.isnan(metrics.global_sum(device_tensor).item())
  assert math.isnan(metrics.global_mean(device_tensor).item())
  t[5, 2] = float('inf')
  device_tensor = on_mesh(t, mesh, spec)
  assert metrics.global_max(device_tensor).item() == float('inf')
  assert metrics.global_mean(device_tensor).item() == float('inf')
  assert metrics.global_max(-device_tensor).item() == 0
  assert metrics.global_max(
      on_mesh(torch.full((8,), -math.inf), mesh, ('data',))).item() == -math.inf


@pytest.mark.parametrize('synced', [False, True])
@pytest.mark.parametrize(
    'metric', [metrics.global_sum, metrics.global_mean, metrics.global_max])
def test_manual_sharding_is_an_error_and_no_number(mesh, metric, synced):
  t = torch.arange(64.0).reshape(16, 4).to('xla')
  local = xs.enable_manual_sharding(t, ('data', 'model'), mesh=mesh)
  losses = local.global_tensor * 2
  if synced:
    torch_xla.sync(wait=True)
  with pytest.raises(metrics.LocalValueError) as error:
    metric(losses)
  message = str(error.value)
  assert metric.__name__ in message and 'disable_manual_sharding' in message
  # What the first and the last device have of it.
  blocks = torch.arange(64.0).reshape(2, 8, 4, 1).permute(0, 2, 1, 3) * 2
  expected = blocks.amax(
      (2, 3)) if metric is metrics.global_max else blocks.sum((2, 3))
  assert f'CPU:0: {expected[0, 0].item()}' in message
  assert f'CPU:7: {expected[1, 3].item()}' in message


def test_manual_sharding_that_ended_is_global(mesh):
  t = torch.arange(64.0).reshape(16, 4)
  local = xs.enable_manual_sharding(t.to('xla'), ('data', 'model'), mesh=mesh)
  full = xs.disable_manual_sharding(
      local.global_tensor * 2, ('data', 'model'), t.shape, mesh=mesh)
  assert metrics.global_sum(full).item() == 2 * t.sum().item()


def test_copies_that_differ_are_an_error(mesh):
  differing = replicated([torch.full((4,), float(i)) for i in range(_DEVICES)])
  with pytest.raises(
      metrics.LocalValueError, match='CPU:0: 0.0 4, CPU:1: 4.0 4'):
    metrics.global_sum(differing)
  # Replicated along "model", where each device has its own.
  partly = torch_xla._XLAC._global_tensor_from_cpu_shards(
      [torch.full((4, 3), float(i)) for i in range(_DEVICES)],
      mesh.get_op_sharding(('data', None)))
  with pytest.raises(metrics.LocalValueError, match='CPU:1: 72.0 24'):
    metrics.global_sum(partly)


def test_copies_that_are_the_same_are_global(mesh):
  same = replicated([torch.tensor([1.0, float('nan')])] * _DEVICES)
  assert math.isnan(metrics.global_sum(same).item())
  assert metrics.global_sum(same[:1]).item() == 1


@pytest.mark.parametrize(
    'metric', [metrics.global_sum, metrics.global_mean, metrics.global_max])
def test_what_no_metric_is_made_of(mesh, metric):
  with pytest.raises(metrics.NotXlaTensorError, match='a tensor on cpu'):
    metric(torch.ones(3))
  with pytest.raises(metrics.NotXlaTensorError, match='a float'):
    metric(1.5)
  with pytest.raises(metrics.MetricTypeError, match='complex64'):
    metric(torch.ones(3, dtype=torch.complex64).to('xla'))
  with pytest.raises(metrics.EmptyMetricError, match=metric.__name__):
    metric(torch.ones(0, 4, device='xla'))


def test_what_no_mean_is_made_of(mesh):
  t = torch.ones(8, 4, device='xla')
  with pytest.raises(metrics.MetricTypeError, match=r't\.float\(\)'):
    metrics.global_mean(t.int())
  with pytest.raises(metrics.EmptyMetricError, match='weight 0'):
    metrics.global_mean(t, 0)
  with pytest.raises(metrics.EmptyMetricError):
    metrics.global_mean(t, torch.zeros(8, 4, device='xla'))
  with pytest.raises(metrics.WeightError, match=r'\(3,\).*\(8, 4\)'):
    metrics.global_mean(t, torch.ones(3, device='xla'))
  with pytest.raises(metrics.WeightError, match='cpu'):
    metrics.global_mean(t, torch.ones(8, 4))
