"""What a training loop does around its shardings, on eight devices."""

import copy

import environments
import numpy as np
import pytest
import torch
from torch import nn
import torch.utils.checkpoint
import torch_xla
from torch_xla.amp import autocast
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.xla_sharding import (
    apply_xla_patch_to_nn_linear)
from torch_xla.experimental.gradient_accumulation import gradient_accumulation
from torch_xla.experimental.scan_layers import scan_layers
import torch_xla.runtime as xr

import processes

ENVIRONMENT = environments.DEVICES
pytestmark = pytest.mark.usefixtures('spmd')


def _gradients(use_reentrant):
  torch.manual_seed(3)
  layers = nn.ModuleList(
      nn.Sequential(
          nn.Linear(8, 16), nn.Tanh(), nn.Dropout(), nn.Linear(16, 8))
      for _ in range(2)).to('xla')
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  for layer in layers:
    xs.mark_sharding(layer[0].weight, mesh, ('model', None))
  x = torch.randn(4, 8).to('xla').requires_grad_()
  xs.mark_sharding(x, mesh, ('data', None))
  torch.manual_seed(3)
  y = x
  for layer in layers:
    y = layer(
        y) if use_reentrant is None else torch.utils.checkpoint.checkpoint(
            layer, y, use_reentrant=use_reentrant)
  y.square().sum().backward()
  barriers = torch_xla._XLAC._get_xla_tensors_hlo([x.grad]).count('opt-barrier')
  torch_xla.sync()
  return barriers, [t.grad.cpu() for t in (x, *layers.parameters())]


@pytest.mark.parametrize('use_reentrant', [False, True])
def test_checkpoints_compute_a_second_time_with_the_same_dropout(use_reentrant):
  _, right = _gradients(None)
  barriers, got = _gradients(use_reentrant)
  assert barriers
  torch.testing.assert_close(got, right)


def test_a_compiled_checkpoint_drops_the_same_in_both_passes():
  layer = nn.Sequential(nn.Dropout(), nn.Tanh())
  compiled = torch.compile(
      lambda x: torch.utils.checkpoint.checkpoint(
          layer, x, use_reentrant=False),
      backend='openxla')
  x = torch.ones(8, 8).to('xla').requires_grad_()
  y = compiled(x)
  y.sum().backward()
  y = y.detach().cpu()
  right = torch.where(y == 0, 0., 2 * (1 - y**2))
  torch.testing.assert_close(x.grad.cpu(), right)


@pytest.mark.parametrize('is_compiled', [False, True])
def test_autocast_off_a_tpu(is_compiled):

  def fn(x):
    with autocast(torch.device('xla')):
      return x @ x

  if is_compiled:
    fn = torch.compile(fn, backend='openxla', fullgraph=True)
  assert fn(torch.ones(4, 4).to('xla')).dtype == torch.bfloat16


def test_attention_under_autocast_has_one_dtype():
  value = torch.randn(1, 2, 4, 8, dtype=torch.bfloat16)
  args = value.float(), value.float(), value, torch.zeros(4, 4)
  attention = torch.nn.functional.scaled_dot_product_attention
  with torch.autocast('xla', dtype=torch.bfloat16):
    got = attention(*(t.to('xla') for t in args))
  right = attention(*(t.bfloat16() for t in args))
  torch.testing.assert_close(got.cpu(), right, rtol=.02, atol=.02)


def test_torch_seeds_xla():
  masks = []
  for _ in range(2):
    torch.manual_seed(7)
    masks.append(torch.rand(4, device='xla').cpu())
    torch_xla.sync()
  assert torch.equal(*masks)


def _late(first: str) -> str:
  if first == 'device':
    torch_xla.device()
  elif first == 'torch seed':
    torch.manual_seed(1)
  elif first == 'seed':
    torch_xla.manual_seed(1)
  else:
    first = torch.ones(8).to('xla')
  try:
    xr.use_spmd()
  except RuntimeError as error:
    return str(error)
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  t = torch.ones(8).to('xla')
  xs.mark_sharding(t, mesh, ('x',))
  return str((t + 1).sum().item())


@pytest.mark.parametrize('first, end', [
    ('device', '16.0'),
    ('torch seed', '16.0'),
    ('seed', 'training_loop_test.py:'),
    ('tensor', '"first" of '),
])
def test_what_comes_before_use_spmd(first, end):
  assert end in processes.call(_late, first, **ENVIRONMENT).value


def _backward_on_cpu_first() -> float:
  torch.ones(1).requires_grad_().sum().backward()
  x = torch.ones(1).to('xla').requires_grad_()
  (x * 2).sum().backward()
  return x.grad.item()


def test_a_backward_on_the_cpu_comes_first():
  assert processes.call(_backward_on_cpu_first, **ENVIRONMENT).value == 2


def test_carried_tensors_come_back_in_order():
  model = nn.Linear(4, 4).to('xla')

  def step(x, a, b, c):
    return model(x).mean(), a + 1, torch.full((2,), 5.).to('xla'), c + 100

  _, *carried = gradient_accumulation(
      step, (torch.ones(3, 2, 4).to('xla'),), model,
      *[torch.zeros(2).to('xla') for _ in range(3)])
  assert [t[0].item() for t in carried] == [3, 5, 300]


def test_an_einsum_linear_is_the_layer_that_it_was():

  class Doubled(nn.Linear):

    def forward(self, x):
      return 2 * super().forward(x)

  linear = nn.Linear(4, 4).requires_grad_(False).eval()
  calls = []
  linear.register_forward_hook(lambda *_: calls.append(1))
  model = nn.Sequential(linear, linear, Doubled(4, 4))
  x = torch.ones(2, 4)
  right = model(x)
  tied = linear.weight
  torch.testing.assert_close(apply_xla_patch_to_nn_linear(model)(x), right)
  assert type(linear).__name__ == 'EinsumLinear'
  assert len(calls) == 4 and model[1].weight is tied
  assert not tied.requires_grad and not linear.training


@pytest.mark.parametrize('bidirectional', [False, True])
def test_a_gru_is_torchs_on_the_cpu_and_right_on_xla(bidirectional):
  gru = nn.GRU(4, 8, 2, True, True, 0., bidirectional)
  assert type(gru).__module__ == 'torch.nn.modules.rnn'
  x = torch.randn(2, 3, 4)
  right, state = gru(x)
  got, state_there = copy.deepcopy(gru).to('xla')(x.to('xla'))
  hlo = torch_xla._XLAC._get_xla_tensors_hlo([got])
  assert (' while(' in hlo) != bidirectional
  torch.testing.assert_close([got.cpu(), state_there.cpu()], [right, state])


def test_one_replica_is_reduced_and_scaled():
  assert xm.mesh_reduce('mean', np.mean([1., 2.]), np.mean) == 1.5
  tensors = [torch.ones(2).to('xla')]
  xm.all_reduce(xm.REDUCE_SUM, tensors, scale=.5)
  scaled = xm.all_reduce(xm.REDUCE_SUM, tensors[0], scale=.5)
  assert scaled.tolist() == [.25, .25]


def test_a_cached_scan_is_that_of_its_inputs():
  layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)).to('xla')
  x = torch.ones(4, 8).to('xla')
  with torch.autocast('xla', dtype=torch.bfloat16):
    cast = scan_layers(layers, x.bfloat16(), is_layer_pure=True)
    with pytest.raises(ValueError, match='give `init` that type'):
      scan_layers(layers, x, is_layer_pure=True)
  layers.requires_grad_(False)
  frozen = scan_layers(layers, x.requires_grad_(), is_layer_pure=True)
  layers.requires_grad_(True)
  y = scan_layers(layers, x, is_layer_pure=True)
  y.sum().backward()
  assert (cast.dtype, frozen.dtype, y.dtype) == (torch.bfloat16, torch.float32,
                                                 torch.float32)
  assert layers[0].weight.grad.cpu().any()
