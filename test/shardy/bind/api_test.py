"""The argument `priority=`, wherever a partition spec is given."""

import importlib.util
import inspect
import re
import sys
import types

import numpy as np
import pytest
from sections import SHARDY
import torch
import torch_xla
from torch_xla._internal import custom_kernel
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.annotate import priority as priorities
from torch_xla.shardy.bind import binder

ENVIRONMENT = SHARDY


@pytest.fixture(scope='module', name='mesh')
def mesh_fixture() -> xs.Mesh:
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


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

_WRONG = [
    ((0,), 'PriorityLengthError'),
    ((0, 1, 2), 'PriorityLengthError'),
    ((), 'PriorityLengthError'),
    ((-1, None), 'PriorityValueError'),
    ((True, None), 'PriorityTypeError'),
    ((None, False), 'PriorityTypeError'),
    ((1.0, None), 'PriorityTypeError'),
    (('1', None), 'PriorityTypeError'),
    (('x', 'y'), 'PriorityTypeError'),
    (((0,), None), 'PriorityTypeError'),
    (1, 'PriorityTypeError'),
    ('01', 'PriorityTypeError'),
    ({
        0: 1
    }, 'PriorityTypeError'),
]


@pytest.mark.parametrize('form', _FORMS)
@pytest.mark.parametrize('priority,error', _WRONG, ids=str)
def test_wrong_priorities(form, priority, error, mesh, tensor):
  """Each is an error of its own class, and leaves the tensor alone."""
  with pytest.raises(getattr(priorities, error)) as caught:
    _FORMS[form](tensor, mesh, priority)
  assert isinstance(caught.value, priorities.PriorityError)
  assert isinstance(caught.value, ValueError)
  assert str(priority) in str(caught.value)
  assert binder.annotation_of(tensor) is None
  assert torch_xla._XLAC._get_xla_sharding_spec(tensor) == ''


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


def test_integers_of_numpy_and_tensors_marked_before(mesh, tensor):
  wrapped = xs.mark_sharding(
      tensor, mesh, ('x', None), priority=(np.int64(4), None))
  assert binder.annotation_of(tensor).priority == (4, None)
  again = xs.mark_sharding(wrapped, mesh, ('x', None), priority=(2, None))
  assert again is wrapped and again.global_tensor is tensor
  assert binder.annotation_of(tensor).priority == (2, None)
  assert '{"x"}p2' in _text([(wrapped + 1).global_tensor])
  with pytest.raises(priorities.PriorityTypeError):
    xs.mark_sharding(tensor, mesh, ('x', None), priority=(np.bool_(1), None))
  with pytest.raises(priorities.PriorityTypeError):
    xs.mark_sharding(tensor, mesh, ('x', None), priority=(np.float32(1), None))


def test_scalar(mesh):
  t = torch.tensor(2.).to('xla')
  xs.mark_sharding(t, mesh, (), priority=())
  out = t + 1
  assert 'sharding<@mesh, []>' in _text([out])
  torch_xla.sync(wait=True)
  assert out.item() == 3


def test_gradients_get_the_same_priority(mesh):
  t = torch.randn(8, 16).to('xla').requires_grad_()
  loss = (xs.xla_sharding.mark_sharding_with_gradients(
      t, mesh, ('x', None), priority=(5, None)) * 2).sum()
  torch_xla.sync(wait=True)
  # Only the gradient is pending now.
  loss.backward()
  assert '{"x"}p5' in _text([t.grad])
  torch_xla.sync(wait=True)
  assert torch.equal(t.grad.cpu(), torch.full((8, 16), 2.))


def test_the_argument_is_last_and_optional():
  for f in (xs.mark_sharding, xs.xla_sharding.annotate_custom_sharding,
            xs.xla_sharding.mark_sharding_with_gradients,
            custom_kernel.dynamo_mark_sharding):
    last = list(inspect.signature(f).parameters.values())[-1]
    assert (last.name, last.default) == ('priority', None)
  for op in (torch.ops.xla.dynamo_mark_sharding.default,
             torch.ops.xla.aot_mark_sharding.default):
    last = op._schema.arguments[-1]
    assert (last.name, last.default_value) == ('priority', None)
  assert list(inspect.signature(xs.ShardingSpec).parameters) == [
      'mesh', 'partition_spec', 'minibatch', 'priority'
  ]


def test_docstring_says_what_priorities_mean():
  text = ' '.join(xs.mark_sharding.__doc__.split())
  for said in ('counts as 0, the highest', 'makes that dimension open',
               'never change the sharding that a user gave',
               'a torchax tensor'):
    assert said in text


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
  assert xs.xla_sharding.maybe_get_torchax() is not None
  import torchax
  with torchax.default_env():
    t = torch.ones(8, 16, device='jax')
  with pytest.raises(
      NotImplementedError,
      match=re.escape('priority=(0, None) on a torchax tensor')):
    xs.mark_sharding(t, mesh, ('x', None), priority=(0, None))
  xs.mark_sharding(t, mesh, ('x', None))
  assert re.search(r"P.*'x', None", str(t.jax().sharding.spec))
