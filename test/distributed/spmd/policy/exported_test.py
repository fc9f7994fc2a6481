"""Policies as DTensor placements and JAX partition specs, each imported there.

The elements that each device holds there are those that it holds here.
"""

import types

import environments
import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.policy import (Boundary, PolicyError,
                                               PolicyMismatchError, REPLICATED,
                                               Rule, ShardingPolicy)
from torch_xla.distributed.spmd.policy.applied import annotation_for
import torch_xla.runtime as xr

ENVIRONMENT = environments.SHARDY
# In no order that an iota gives.
SHUFFLED = (3, 1, 4, 0, 5, 7, 2, 6)
MESHES = [
    ((2, 4), ('data', 'model'), range(8)),
    ((2, 1, 4), ('data', 'one', 'model'), SHUFFLED),
    ((2, 2, 2), ('data', 'extra', 'model'), (0, 4, 1, 5, 2, 6, 3, 7)),
]
POLICY = ShardingPolicy(
    (Rule('both', (('data', 'model'), None)),
     Rule('major', ('data', 'model'),
          propagate=True), Rule('minor', (None, 'model', 'data'),
                                (None, 1, 0)), Rule('scalar', ())), REPLICATED,
    (Boundary('', ('data', None),
              (2, None), output=1, propagate=(True, None)),))
BACKWARDS = Rule('whole', (('model', 'data'),))


class Holder(torch.nn.Module):

  def __init__(self):
    super().__init__()
    for name, shape in (('both', (16, 3)), ('major', (4, 8)),
                        ('minor', (3, 8, 2)), ('whole', (8,)), ('scalar', ())):
      numbers = torch.arange(float(np.prod(shape, dtype=int))).reshape(shape)
      setattr(self, name, torch.nn.Parameter(numbers))
    self.tied = self.both


@pytest.fixture(params=MESHES, ids=lambda m: 'x'.join(map(str, m[0])))
def mesh(request):
  xr.use_spmd()
  shape, names, ids = request.param
  return xs.Mesh(np.array(ids), shape, names)


def module_of(text):
  module = types.ModuleType('exported')
  exec(compile(text, 'exported.py', 'exec'), module.__dict__)
  return module


def held_here(policy, mesh):
  """What each device holds, by tensor."""
  model, claims = Holder(), policy.claims(Holder(), mesh)[0]
  held = {}
  for name, t in model.named_parameters(remove_duplicate=False):
    claim = claims['both' if name == 'tied' else name]
    sharding = annotation_for(mesh, claim).sharding
    array = t.detach().numpy()
    if sharding.tiles is None:
      held[name] = [array.tolist()] * 8
      continue
    assignment = sharding.tiles.to_array()
    held[name] = []
    for device in range(8):
      (index,) = np.argwhere(assignment == device)
      tile = array
      for dim, at in enumerate(index[:array.ndim]):
        tile = np.split(tile, assignment.shape[dim], dim)[at]
      held[name].append(tile.tolist())
  return held


def held_by_dtensor(text):
  exported, model = module_of(text), Holder()
  held = {name: [] for name in exported.PLACEMENTS}
  for rank in range(8):
    dist.init_process_group('fake', store=FakeStore(), rank=rank, world_size=8)
    try:
      mesh = exported.device_mesh('cpu')
      for name, placements in exported.PLACEMENTS.items():
        # Without a source rank each splits what it has.
        local = distribute_tensor(
            getattr(model, name).detach(), mesh, placements,
            src_data_rank=None).to_local()
        held[name].append(local.tolist())
    finally:
      dist.destroy_process_group()
  return held


def held_by_jax(texts):
  """What jax's devices hold, in a process of its own: they are there once."""
  import jax
  results = []
  for text in texts:
    exported, model, held = module_of(text), Holder(), {}
    # In another order than that of their ids.
    mesh = exported.device_mesh(jax.devices()[::-1])
    for name, spec in exported.PARTITION_SPECS.items():
      array = jax.device_put(
          getattr(model, name).detach().numpy(),
          jax.sharding.NamedSharding(mesh, spec))
      held[name] = [
          np.asarray(s.data).tolist()
          for s in sorted(array.addressable_shards, key=lambda s: s.device.id)
      ]
    results.append(held)
  return results


def test_dtensor_places_all_as_here(mesh):
  text = POLICY.to_dtensor(Holder(), mesh)
  held = held_by_dtensor(text)
  assert held == held_here(POLICY, mesh)
  assert set(held) == {'both', 'major', 'minor', 'whole', 'scalar', 'tied'}
  for start, unsaid in (
      ("'minor'", 'priority (None, 1, 0)'),
      ("'major'", 'propagate (True, True)'),
      ("('', 1)", 'priority (2, None), propagate (True, None)'),
  ):
    line, = (line for line in text.splitlines() if start in line)
    assert line.endswith(f'# Not said here: {unsaid}.')


def test_results_at_boundaries_are_said(mesh):
  module = module_of(POLICY.to_dtensor(Holder(), mesh))
  placements = module.OUTPUT_PLACEMENTS['', 1]
  assert [p.is_shard() for p in placements
         ] == [n == 'data' for n in mesh.axis_names]


def test_an_order_that_dtensor_does_not_have(mesh):
  policy = ShardingPolicy((BACKWARDS,), REPLICATED)
  with pytest.raises(
      PolicyError, match=r"whole: dimension 0.*order.*\('data', 'model'\)"):
    policy.to_dtensor(Holder(), mesh)
  # Of one device's axis the order is nothing.
  if 'one' in mesh.axis_names:
    ShardingPolicy((Rule('whole', (('model', 'one'),)),),
                   REPLICATED).to_dtensor(Holder(), mesh)


def test_uneven_dimensions(mesh):
  policy = ShardingPolicy((Rule('both', (None, 'model'), uneven=True),),
                          REPLICATED)
  held = held_by_dtensor(policy.to_dtensor(Holder(), mesh))['both']
  rows = Holder().both.detach()
  # By device: of 3 columns the last of the axis model's devices have none.
  at = {d: i for i, d in np.ndenumerate(mesh.get_logical_mesh())}
  size = -(-3 // mesh.shape()['model'])
  assert held == [
      rows[:, size * at[d][-1]:size * (at[d][-1] + 1)].tolist()
      for d in range(8)
  ]
  with pytest.raises(PolicyError, match='both: dimension 1 .*only splits even'):
    policy.to_partition_specs(Holder(), mesh)
  whole = ShardingPolicy((Rule('both', (None, ('data', 'model')), None, True),),
                         REPLICATED)
  with pytest.raises(PolicyError, match="both: dimension 1 .*'data', 'model'"):
    whole.to_dtensor(Holder(), mesh)


def test_a_policy_that_does_not_fit(mesh):
  with pytest.raises(PolicyMismatchError, match='dimension 1 of .16, 3.'):
    ShardingPolicy((Rule('both', (None, 'model')),),
                   REPLICATED).to_partition_specs(Holder(), mesh)


@pytest.mark.slow
def test_jax_places_all_as_here():
  pytest.importorskip('jax')
  xr.use_spmd()
  policy = ShardingPolicy((*POLICY.rules, BACKWARDS), REPLICATED,
                          POLICY.boundaries)
  meshes = [xs.Mesh(np.array(ids), *said) for *said, ids in MESHES]
  texts = [policy.to_partition_specs(Holder(), mesh) for mesh in meshes]
  held = processes.call(
      held_by_jax,
      texts,
      JAX_PLATFORMS='cpu',
      XLA_FLAGS='--xla_force_host_platform_device_count=8').value
  assert held == [held_here(policy, mesh) for mesh in meshes]
