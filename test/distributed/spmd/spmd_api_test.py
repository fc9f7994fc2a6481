"""Series spmd-api: inputs, outputs and placements in their documented forms."""

import copy

import environments
import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import parallel, Replicate, Shard
import torch_xla
from torch_xla.core import xla_builder
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla.experimental.scan import scan
from torch_xla.experimental import spmd_fully_sharded_data_parallel as fsdp
from torch_xla.utils import dlpack

ENVIRONMENT = environments.DEVICES


@pytest.mark.parametrize('spec', [('data',), ('model',), (('data', 'model'),),
                                  (None,), ('data', None), (None, 'model')])
@pytest.mark.parametrize('order', ['plain', 'permuted'])
def test_input_is_sharded_as_a_mark_shards_it(spec, order, mesh):
  if order == 'permuted':
    mesh = xs.Mesh([0, 1, 3, 2, 4, 5, 7, 6], (2, 4), ('data', 'model'))
  value = torch.arange(16 * 3**(len(spec) - 1)).reshape(16,
                                                        *[3] * (len(spec) - 1))
  sent, = xm.send_cpu_data_to_device(value, 'xla:0',
                                     xs.ShardingSpec(mesh, spec))
  marked = value.to('xla')
  xs.mark_sharding(marked, mesh, spec)
  specs = torch_xla._XLAC._get_xla_sharding_specs([sent, marked])
  assert specs[0] == specs[1] or not specs[0] and specs[1] == '{replicated}'
  assert torch.equal(sent.cpu(), value)


class _Module(torch.nn.Module):

  def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {'loss': x.sum(), 'logits': x * 2}


def test_dict_of_a_module_is_sharded(mesh):
  mesh = xs.Mesh(np.arange(8), (8, 1), ('fsdp', 'model'))
  model = fsdp.SpmdFullyShardedDataParallel(_Module(), mesh=mesh)
  output = model(torch.ones(16, 8).to('xla'))
  assert torch_xla._XLAC._get_xla_sharding_spec(
      output['logits']).startswith('{devices=[8,1]')
  assert output['loss'].item() == 128


def test_placements_there_and_back(mesh):
  names = dict(enumerate(mesh.axis_names))
  device_mesh = DeviceMesh(
      'xla', torch.arange(8).reshape(2, 4), _init_backend=False)
  value = torch.arange(128.).reshape(16, 8)
  for placements, spec in (((Shard(0), Shard(0)),
                            ((0, 1), None)), ((Shard(1), Shard(0)), (1, 0)),
                           ((Replicate(), Shard(1)), (None, 1))):
    named = tuple(
        tuple(names[a]
              for a in axis) if isinstance(axis, tuple) else names.get(axis)
        for axis in spec)
    marked = xs.mark_sharding(value.to('xla'), mesh, named)
    distributed = xs.xla_distribute_tensor(value, device_mesh, placements)
    assert marked.placements == distributed.placements == placements
    assert marked.sharding_spec == distributed.sharding_spec
    moved = distributed.redistribute(placements=(Shard(0), Replicate()))
    torch_xla.sync()
    assert torch.equal(moved.full_tensor().cpu(), value)
    assert distributed.sharding_spec == marked.sharding_spec
    weight = torch.nn.Parameter(distributed)
    assert weight.placements == placements
    moved = weight.redistribute(placements=(Shard(0), Replicate()))
    (3 * moved + weight.full_tensor()).sum().backward()
    assert torch.equal(weight.grad.cpu(), torch.full((16, 8), 4.))
  swapped = xs.mark_sharding(value.to('xla'), mesh, (('model', 'data'), None))
  with pytest.raises(ValueError, match='not in the order of the mesh'):
    _ = swapped.placements
  with pytest.raises(NotImplementedError, match='local_shards'):
    swapped.to_local()


def test_parallel_styles_constrain_global_tensors(mesh):
  device_mesh = DeviceMesh('xla', [0, 1, 3, 2, 4, 5, 7, 6])
  model = torch.nn.Sequential(
      torch.nn.Linear(4, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4),
      torch.nn.LayerNorm(4))
  x = torch.randn(6, 4)
  expected = model(x)
  sharded = copy.deepcopy(model).to('xla')
  first, second = sharded[0].weight, sharded[2].weight
  sharded[0].bias.requires_grad_(False)
  parallel.parallelize_module(
      sharded, device_mesh, {
          '0': parallel.ColwiseParallel(),
          '2': parallel.RowwiseParallel(output_layouts=Shard(0)),
          '3': parallel.SequenceParallel(sequence_dim=0),
      })
  assert sharded[0].weight is first
  assert not sharded[0].bias.requires_grad
  output = sharded(x)
  output.sum().backward()
  expected.sum().backward()
  for got, want in ((output, expected), (first.grad, model[0].weight.grad)):
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
  assert torch_xla._XLAC._get_xla_sharding_specs([first, second]) == [
      '{devices=[8,1]0,1,3,2,4,5,7,6}', '{devices=[1,8]0,1,3,2,4,5,7,6}'
  ]
  plan = parallel.PrepareModuleInput(
      input_layouts=Shard(0), desired_input_layouts=Replicate())
  with pytest.raises(NotImplementedError, match='no local tensor'):
    parallel.parallelize_module(torch.nn.Identity(), device_mesh, plan)(x)
  device_mesh = DeviceMesh('xla', torch.arange(8).reshape(2, 4))
  with pytest.raises(ValueError, match='a mesh of one dimension'):
    parallel.parallelize_module(sharded[2], device_mesh,
                                parallel.RowwiseParallel())


def test_import_of_a_buffer(mesh):
  value = torch.arange(16.).reshape(4, 4)
  t = dlpack.from_dlpack(value) + 1
  assert torch.equal(t.cpu(), value + 1)
  exported = torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(t))
  assert torch.equal(exported, value + 1)


def test_placeholder_is_refused(mesh):
  placeholder = xla_builder.create_placeholder_tensor((8, 8), torch.float32)
  with pytest.raises(ValueError, match='a placeholder has no data'):
    xs.mark_sharding(placeholder, mesh, ('data', None))


def test_names_of_the_package():
  names: dict[str, object] = {}
  exec('from torch_xla.distributed.spmd import *', names)
  assert names['mark_sharding'] is xs.mark_sharding


def test_a_mark_in_a_scan_names_what_works(mesh):

  def body(carry, x):
    xs.mark_sharding(x, mesh, (None,))
    return carry, x

  with pytest.raises(ValueError, match='mark_sharding_with_gradients'):
    scan(body, torch.ones(1).to('xla'), torch.ones(2, 1).to('xla'))
