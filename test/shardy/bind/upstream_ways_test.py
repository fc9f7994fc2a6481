"""Upstream's other ways to shard: eager mode, DTensor, distributed modules.

Each trains as torch does on one device, places as asked, and Shardy partitions.
"""

import logging

import environments
import numpy as np
import pytest
import torch
from torch.distributed.tensor import (DeviceMesh, distribute_module,
                                      distribute_tensor, Replicate, Shard)
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.experimental import eager_mode
import torch_xla.runtime as xr
from torch_xla.shardy.annotate.priority import PriorityError
from torch_xla.shardy.compile.record import Partitioner

ENVIRONMENT = environments.SHARDY
NAMES = ('data', 'model')
# By model: tiles of the first dimension, of the second.
ROWS = '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
COLUMNS = '{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'


@pytest.fixture(scope='module')
def mesh():
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (2, 4), NAMES)


@pytest.fixture(scope='module')
def device_mesh():
  xr.use_spmd()
  return DeviceMesh('xla', torch.arange(8).reshape(2, 4), mesh_dim_names=NAMES)


@pytest.fixture
def eager():
  eager_mode(True)
  yield
  eager_mode(False)


def stored(t):
  return torch_xla._XLAC._get_xla_sharding_spec(
      xs.xla_sharding.unwrap_sharded_tensor(t))


def net():
  torch.manual_seed(0)
  return torch.nn.Sequential(
      torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))


def losses_of(model, device, mark=lambda x: None):
  """The losses of some steps, and the weights after them."""
  optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
  losses = []
  for step in range(2):
    x = torch.linspace(-1, 1 + step, 64).reshape(8, 8).to(device)
    mark(x)
    optimizer.zero_grad()
    loss = (model(x)**2).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
  return losses + [p.detach().cpu() for p in model.parameters()]


def check_trains(model, mark=lambda x: None):
  """On 'xla', as the same net on the CPU, all of it by Shardy."""
  with torch_xla.shardy.record() as programs:
    losses = losses_of(model, 'xla', mark)
  torch.testing.assert_close(losses, losses_of(net(), 'cpu'))
  assert {p.partitioner for p in programs} == {Partitioner.SHARDY}
  return programs


def partition(priority):
  """Splits one weight by its rows, the other by its columns."""

  def placed(name, module, device_mesh):
    if isinstance(module, torch.nn.Linear):
      dim = int(module.in_features == 16)
      xs.xla_distribute_tensor(
          module.weight,
          device_mesh, [Replicate(), Shard(dim)],
          priority=(None, priority))

  return placed


def test_eager_mode(mesh, eager, caplog):
  model = net().to('xla')
  xs.mark_sharding(model[0].weight, mesh, ('model', None))
  xs.mark_sharding(model[2].weight, mesh, (None, 'model'))
  assert 'eager' not in caplog.text
  check_trains(model, lambda x: xs.mark_sharding(x, mesh, ('data', None)))
  assert (stored(model[0].weight), stored(model[2].weight)) == (ROWS, COLUMNS)


def test_a_priority_in_eager_mode_is_said_to_have_no_effect(
    mesh, eager, caplog):
  t = torch.zeros(8, 8).to('xla')
  with caplog.at_level(logging.WARNING):
    for _ in range(2):
      xs.mark_sharding(t, mesh, ('model', None), priority=(1, None))
  assert caplog.text.count('in eager mode each operation') == 1


# By another priority each has programs of its own.
@pytest.mark.parametrize('distribute, priority', [
    pytest.param(xs.xla_distribute_module, 3, id='torch_xla'),
    pytest.param(distribute_module, 5, id='torch', marks=pytest.mark.slow)
])
def test_a_distributed_module(device_mesh, distribute, priority):
  model = net().to('xla')
  distribute(model, device_mesh, partition(priority))
  programs = check_trains(model)
  assert (stored(model[0].weight), stored(model[2].weight)) == (ROWS, COLUMNS)
  assert {t.sdy for p in programs for t in p.tensors if t.priority is not None
         } == {
             f'#sdy.sharding<@mesh, [{{"model"}}, {{?}}p{priority}]>',
             f'#sdy.sharding<@mesh, [{{}}, {{"model"}}p{priority}]>'
         }


def test_distributed_tensors(device_mesh):
  order = (3, 1, 4, 0, 5, 7, 2, 6)
  shuffled = DeviceMesh(
      'xla', torch.tensor(order).reshape(2, 4), mesh_dim_names=NAMES)
  numbers = torch.arange(64.).reshape(8, 8)
  for on, placements, where in ((device_mesh, [Replicate(),
                                               Shard(0)],
                                 ROWS), (device_mesh, [Replicate(),
                                                       Shard(-1)], COLUMNS),
                                (device_mesh, None, '{replicated}'),
                                (shuffled, [Shard(1), Shard(0)],
                                 '{devices=[4,2]3,5,1,7,4,2,0,6}')):
    t = distribute_tensor(numbers, on, placements)
    assert stored(t) == where
    # Shardy's program reads it.
    assert torch.equal(t.cpu(), numbers)


def test_a_priority_that_does_not_fit_the_tensor(device_mesh):
  with pytest.raises(PriorityError, match='2'):
    xs.xla_distribute_tensor(
        torch.zeros(8, 8), device_mesh, [Replicate(), Shard(0)], priority=(1,))
