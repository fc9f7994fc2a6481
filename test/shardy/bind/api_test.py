"""The argument `priority=`, wherever a partition spec is given."""

import importlib.util
import re
import sys
import types

import pytest
from sections import SHARDY
import torch
import torch_xla
import torch_xla.distributed.spmd as xs

ENVIRONMENT = SHARDY


@pytest.fixture(name='tensor')
def tensor_fixture(mesh) -> torch.Tensor:
  torch_xla.sync()
  return torch.randn(8, 16).to('xla')


def _mark_in_graph(t, mesh, priority):
  # It marks in place; what it gives back is the tensor under t's wrapper.
  torch.ops.xla.dynamo_mark_sharding(
      t, list(range(8)), list(mesh.mesh_shape), "('x', 'y')", "('x', None)",
      None if priority is None else repr(priority))


def _text(tensors) -> str:
  tensors = [getattr(t, 'global_tensor', t) for t in tensors]
  return torch_xla.shardy.lower_text(tensors).replace('\\"', '"')


_FORMS = {
    'mark_sharding':
        lambda t, mesh, p: xs.mark_sharding(t, mesh, ('x', None), priority=p),
    'annotate_custom_sharding':
        lambda t, mesh, p: xs.xla_sharding.annotate_custom_sharding(
            t, mesh, ('x', None), priority=p),
    'mark_sharding_with_gradients':
        lambda t, mesh, p: xs.xla_sharding.mark_sharding_with_gradients(
            t, mesh, ('x', None), priority=p),
    'ShardingSpec':
        lambda t, mesh, p: xs.ShardingSpec(mesh,
                                           ('x', None), priority=p).apply(t),
    'dynamo_mark_sharding':
        _mark_in_graph,
}


@pytest.mark.parametrize('form', _FORMS)
@pytest.mark.parametrize(
    'priority,told', [
        (None, '[{"x"}, {}]'),
        ((3, None), '[{"x"}p3, {}]'),
        ((0, 7), '[{"x"}p0, {?}p7]'),
        ([None, 2], '[{"x"}, {?}p2]'),
    ],
    ids=str)
def test_priorities_reach_the_program(form, priority, told, mesh, tensor):
  marked = _FORMS[form](tensor, mesh, priority)
  marked = getattr(marked, 'global_tensor', marked)
  out = (tensor if marked is None else marked) + 1
  assert told in _text([out])


def test_scalar(mesh):
  t = torch.tensor(2.).to('xla')
  xs.mark_sharding(t, mesh, (), priority=())
  out = t + 1
  assert 'sharding<@mesh, []>' in _text([out])
  torch_xla.sync(wait=True)
  assert out.item() == 3


@pytest.mark.slow
@pytest.mark.environment(
    JAX_PLATFORMS='cpu', XLA_FLAGS='--xla_force_host_platform_device_count=8')
def test_torchax(mesh, monkeypatch):
  """Refused with a priority; without, JAX gets the tensor as ever."""
  pytest.importorskip('jax')
  # All that torchax wants it for is checkpoints.
  if importlib.util.find_spec('flax') is None:
    for name in ('flax', 'flax.training', 'flax.training.checkpoints'):
      monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules['flax.training'].checkpoints = sys.modules[
        'flax.training.checkpoints']
  assert xs.xla_sharding.maybe_get_torchax() is None
  import torchax
  with torchax.default_env():
    t = torch.ones(8, 16, device='jax')
  with pytest.raises(
      NotImplementedError,
      match=re.escape('priority=(0, None) on a torchax tensor')):
    xs.mark_sharding(t, mesh, ('x', None), priority=(0, None))
  xs.mark_sharding(t, mesh, ('x', None))
  assert re.search(r"P.*'x', None", str(t.jax().sharding.spec))
