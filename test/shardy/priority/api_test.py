"""The argument `priority=`, wherever a partition spec is given."""

import inspect
import re

import numpy as np
from processes import output_of
import pytest

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '1',
}


@pytest.fixture(scope='module', name='xs')
def xs_fixture():
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  return xs


@pytest.fixture(scope='module', name='mesh')
def mesh_fixture(xs):
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


@pytest.fixture(name='tensor')
def tensor_fixture(mesh):
  import torch
  import torch_xla
  torch_xla.sync()
  return torch.randn(8, 16).to('xla')


def _mark_in_graph(xs, t, mesh, priority):
  del xs
  import torch
  from torch_xla._internal import custom_kernel  # Defines the operator.
  del custom_kernel
  # It marks in place; what it gives back is the tensor under t's wrapper.
  torch.ops.xla.dynamo_mark_sharding(
      t, list(range(8)), list(mesh.mesh_shape), "('x', 'y')", "('x', None)",
      None if priority is None else repr(priority))


def _text(tensors) -> str:
  import torch_xla
  tensors = [getattr(t, 'global_tensor', t) for t in tensors]
  return torch_xla.shardy.lower_text(tensors).replace('\\"', '"')


_FORMS = {
    'mark_sharding':
        lambda xs, t, mesh, p: xs.mark_sharding(
            t, mesh, ('x', None), priority=p),
    'annotate_custom_sharding':
        lambda xs, t, mesh, p: xs.xla_sharding.annotate_custom_sharding(
            t, mesh, ('x', None), priority=p),
    'mark_sharding_with_gradients':
        lambda xs, t, mesh, p: xs.xla_sharding.mark_sharding_with_gradients(
            t, mesh, ('x', None), priority=p),
    'ShardingSpec':
        lambda xs, t, mesh, p: xs.ShardingSpec(mesh, ('x', None), priority=p).
        apply(t),
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
def test_wrong_priorities(form, priority, error, xs, mesh, tensor):
  """Each is an error of its own class, and leaves the tensor alone."""
  import torch_xla
  from torch_xla.shardy import annotation, binding
  with pytest.raises(getattr(annotation, error)) as caught:
    _FORMS[form](xs, tensor, mesh, priority)
  assert isinstance(caught.value, annotation.PriorityError)
  assert isinstance(caught.value, ValueError)
  assert str(priority) in str(caught.value)
  assert binding.annotation_of(tensor) is None
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
def test_priorities_reach_the_program(form, priority, told, xs, mesh, tensor):
  marked = _FORMS[form](xs, tensor, mesh, priority)
  marked = getattr(marked, 'global_tensor', marked)
  out = (tensor if marked is None else marked) + 1
  assert told in _text([out])


def test_integers_of_numpy_and_tensors_marked_before(xs, mesh, tensor):
  from torch_xla.shardy import annotation, binding
  wrapped = xs.mark_sharding(
      tensor, mesh, ('x', None), priority=(np.int64(4), None))
  assert binding.annotation_of(tensor).priority == (4, None)
  again = xs.mark_sharding(wrapped, mesh, ('x', None), priority=(2, None))
  assert again is wrapped and again.global_tensor is tensor
  assert binding.annotation_of(tensor).priority == (2, None)
  assert '{"x"}p2' in _text([(wrapped + 1).global_tensor])
  with pytest.raises(annotation.PriorityTypeError):
    xs.mark_sharding(tensor, mesh, ('x', None), priority=(np.bool_(1), None))
  with pytest.raises(annotation.PriorityTypeError):
    xs.mark_sharding(tensor, mesh, ('x', None), priority=(np.float32(1), None))


def test_scalar(xs, mesh):
  import torch
  import torch_xla
  t = torch.tensor(2.).to('xla')
  xs.mark_sharding(t, mesh, (), priority=())
  out = t + 1
  assert 'sharding<@mesh, []>' in _text([out])
  torch_xla.sync(wait=True)
  assert out.item() == 3


def test_gradients_get_the_same_priority(xs, mesh):
  import torch
  import torch_xla
  t = torch.randn(8, 16).to('xla').requires_grad_()
  loss = (xs.xla_sharding.mark_sharding_with_gradients(
      t, mesh, ('x', None), priority=(5, None)) * 2).sum()
  torch_xla.sync(wait=True)
  # Only the gradient is pending now.
  loss.backward()
  assert '{"x"}p5' in _text([t.grad])
  torch_xla.sync(wait=True)
  assert torch.equal(t.grad.cpu(), torch.full((8, 16), 2.))


def test_the_argument_is_last_and_optional(xs):
  import torch
  from torch_xla._internal import custom_kernel
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


def test_docstring_says_what_priorities_mean(xs):
  text = ' '.join(xs.mark_sharding.__doc__.split())
  for said in ('counts as 0, the highest', 'makes that dimension open',
               'never change the sharding that a user gave',
               'a torchax tensor'):
    assert said in text


_TORCHAX = '''
import sys, types
# All that torchax wants it for is checkpoints.
if importlib.util.find_spec('flax') is None:
  for name in ('flax', 'flax.training', 'flax.training.checkpoints'):
    sys.modules[name] = types.ModuleType(name)
  sys.modules['flax.training'].checkpoints = sys.modules[name]
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
assert xs.xla_sharding.maybe_get_torchax() is not None
import torchax
with torchax.default_env():
  t = torch.ones(8, 16, device='jax')
try:
  xs.mark_sharding(t, mesh, ('x', None), priority=(0, None))
except NotImplementedError as e:
  print('REFUSED', e)
xs.mark_sharding(t, mesh, ('x', None))
print('SHARDED', t.jax().sharding.spec)
'''


def test_torchax():
  """Refused with a priority; without, JAX gets the tensor as ever."""
  pytest.importorskip('jax')
  output = output_of(
      'import importlib.util\n' + _TORCHAX,
      **ENVIRONMENT,
      JAX_PLATFORMS='cpu',
      XLA_FLAGS='--xla_force_host_platform_device_count=8')
  assert 'REFUSED priority=(0, None) on a torchax tensor' in output
  assert re.search(r"SHARDED P.*'x', None", output)
