"""Audits where compiled programs are seen less, or not at all."""

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.audit import audit, examine
from torch_xla.distributed.spmd.policy import (Boundary, PolicyError,
                                               REPLICATED, Rule, ShardingPolicy)
import torch_xla.runtime as xr

_CPU = environments.DEVICES


@pytest.mark.parametrize('unknown, form, programs', [
    pytest.param(
        'in mode v2 a program does not say which',
        'V2',
        1,
        id='v2',
        marks=pytest.mark.environment(**_CPU, XLA_SHARDING_V2='1')),
    pytest.param(
        'the mode is off',
        'V1',
        None,
        id='off',
        marks=pytest.mark.environment(**_CPU)),
])
def test_modes_that_see_less(unknown, form, programs):
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
  model.register_buffer('scale', torch.ones(8))
  model = model.to('xla')
  policy = ShardingPolicy((Rule('0.weight', ('model', None)),), REPLICATED,
                          (Boundary('0', ('data', None)),))
  policy.apply(model, mesh)
  assert [d.kind.value for d in examine(model, policy).differences
         ] == ['nothing ran']
  model(torch.randn(4, 8).to('xla')).sum().backward()
  torch_xla.sync(wait=True)

  report = audit(model, policy)
  weight = report.tensors[0]
  assert weight.stored.sharding == (
      '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}')
  assert weight.compiled[0].unknown.startswith(unknown)
  assert weight.form == form
  assert (None if report.programs is None else len(report.programs)) == programs
  assert report.counts['compiles'] == 1
  boundary, = report.boundaries[0].activations
  assert (boundary.shape, boundary.local_shape, boundary.uneven,
          boundary.constrained) == ((4, 16), (2, 16), (), None)

  with pytest.raises(PolicyError, match='XLA_USE_SHARDY=1; otherwise'):
    ShardingPolicy.capture(model)
  assert ShardingPolicy.capture(model,
                                mesh) == ShardingPolicy(policy.rules,
                                                        REPLICATED)

  xs.clear_sharding(model[1].bias)
  xs.clear_sharding(model[0].weight)
  xs.mark_sharding(model[0].weight, mesh, (None, 'model'))
  model.register_buffer('late', torch.ones(8).to('xla'))
  assert [(d.kind.value, d.name) for d in examine(model, policy).differences
         ] == [('stored placement', '0.weight'), ('stored placement', '1.bias'),
               ('never annotated', 'late'), ('stored placement', 'late')]
