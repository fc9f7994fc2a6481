"""Audits of models that no policy was applied to, in a process of their own."""

import collections
import dataclasses
import types
import warnings

import environments
from mlp import Mlp
import numpy as np
import processes
import pytest
import torch
import torch_xla
from torch_xla import runtime
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.audit import (audit, AuditError, baseline,
                                              examine, Kind)
from torch_xla.distributed.spmd.policy import (Boundary, BoundaryError,
                                               PolicyError, REPLICATED, Rule,
                                               ShardingPolicy, tie,
                                               TiedWeightsWarning)
from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
    SpmdFullyShardedDataParallel as FSDPv2)

ENVIRONMENT = environments.SHARDY
RULES = (Rule('up.weight', ('model', None),
              (1, None)), Rule('down.weight', (None, 'model')))

# up.weight by these.
UP = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'


class Layers(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.h = torch.nn.ModuleList(Mlp() for _ in range(3))

  def forward(self, x):
    for layer in self.h:
      x = layer(x)
    return x


def step(model, batch=8):
  x = torch.randn(batch, 8).to('xla')
  model(x).sum().backward()
  torch_xla.sync(wait=True)


def trained(model):
  model(torch.randn(8, 8).to('xla')).square().sum().backward()
  torch.optim.SGD(model.parameters(), 0.1).step()
  torch_xla.sync(wait=True)


def hand_marked(mesh, priority=(1, None), run=step):
  model = Mlp().to('xla')
  xs.mark_sharding(model.up.weight, mesh, ('model', None), priority=priority)
  xs.mark_sharding(model.down.weight, mesh, (None, 'model'))
  run(model)
  return model


def test_a_model_that_others_marked(mesh):
  model = hand_marked(mesh)
  report = audit(model)
  assert report.policy == 'captured' and 'compiled in this process' in str(
      report)
  rows = {row.name: row for row in report.tensors}
  assert rows['up.weight'].policy.sharding == UP
  assert rows['up.weight'].compiled[0].priority == (1, None)
  assert rows['up.bias'].annotation.unknown == 'nobody marked it'
  # It is held to a policy all the same, if there is one.
  given = ShardingPolicy(RULES, REPLICATED)
  assert audit(model, given).policy == 'given'
  other = ShardingPolicy((Rule('up.weight', ('data', None)), RULES[1]),
                         REPLICATED)
  assert ('stored placement', 'up.weight') in [
      (d.kind.value, d.name) for d in examine(model, other).differences
  ]


def test_what_the_compiler_split_is_not_marked(mesh):
  model = hand_marked(mesh, run=trained)
  report = examine(model)
  assert {(d.kind, d.name) for d in report.differences
         } == {(Kind.NEVER_ANNOTATED, 'up.bias')}
  bias = {row.name: row for row in report.tensors}['up.bias']
  assert (bias.spec, bias.policy.sharding, bias.unused_axes) == ('', None,
                                                                 ('data',))
  assert ' marked by nobody, stored {devices=' in ' '.join(str(report).split())
  assert [r.pattern for r in ShardingPolicy.capture(model).rules
         ] == ['up.weight', 'down.weight']


def _on_no_mesh():
  runtime.use_spmd()
  model = Mlp().to('xla')
  step(model)
  report = examine(model)
  return report.mesh, [(d.kind, d.name) for d in report.differences]


def test_a_model_on_no_mesh_has_a_finding():
  mesh, differences = processes.call(_on_no_mesh, **ENVIRONMENT).value
  assert mesh == (('axis_0', 8),)
  assert differences == [(Kind.NEVER_ANNOTATED, '(the model)')]


def test_a_model_of_which_nothing_is_marked(mesh):
  model = Mlp().to('xla')
  step(model)
  assert [(d.kind, d.name) for d in examine(model).differences
         ] == [(Kind.NEVER_ANNOTATED, '(the model)')]


def test_weights_that_were_one(mesh):
  model = hand_marked(mesh)
  report = examine(model, tied=[('up.bias', 'down.bias')])
  assert [d for d in report.differences if d.kind is Kind.UNTIED
         ] == []  # [16], [8]
  report = examine(model, tied=[('down.bias', 'scale')])
  assert [(d.kind, d.name) for d in report.differences] == [(Kind.UNTIED,
                                                             'down.bias')]


def placements(model):
  return {
      row.name: (row.stored.sharding, row.annotation.priority)
      for row in examine(model).tensors
  }


def test_several_models_are_audited_as_one(mesh):
  models = [torch.nn.Linear(8, 8, bias=False).to('xla') for _ in range(2)]
  for model in models:
    xs.mark_sharding(model.weight, mesh, ('model', None))
  torch_xla.sync()
  living = baseline.models_in(models)
  titles = [
      title for title, model in living.items()
      if any(model is m for m in models)
  ]
  assert len(titles) == 2 and all(t.startswith('Linear') for t in titles)
  both, tied = baseline.as_one({
      'Linear': models[0],
      'Linear_2': models[1]
  }, [(models[1], [('a', 'b')])])
  assert [row.name for row in examine(both).tensors
         ] == ['Linear.weight', 'Linear_2.weight']
  assert tied == (['Linear_2.a', 'Linear_2.b'],)


def test_a_captured_policy_has_uneven_weights(mesh):
  model, fresh = (torch.nn.Linear(8, 6).to('xla') for _ in range(2))
  xs.mark_sharding(model.weight, mesh, ('model', None))
  torch_xla.sync()
  policy = ShardingPolicy.from_toml(ShardingPolicy.capture(model).to_toml())
  assert policy.rules == (Rule('weight', ('model', None), uneven=True),)
  policy.apply(fresh, mesh)
  fresh(torch.ones(2, 8, device='xla'))
  torch_xla.sync()
  was, is_ = placements(model), placements(fresh)
  assert was['weight'] == is_['weight'] and was['weight'][0]
  even = dataclasses.replace(policy.rules[0], uneven=False)
  with pytest.raises(PolicyError, match='divide into 4, .* uneven=True allows'):
    ShardingPolicy((even,), REPLICATED).apply(fresh, mesh)


def test_fsdp_v2_and_its_wrappers(mesh):
  fsdp = xs.Mesh(np.arange(8), (8, 1), ('fsdp', 'model'))
  model = FSDPv2(
      Layers().to('xla'),
      mesh=fsdp,
      shard_output=lambda out, mesh: xs.mark_sharding(out, mesh,
                                                      ('fsdp', None)))
  model._orig_module.h[0] = FSDPv2(
      model._orig_module.h[0], mesh=fsdp, shard_output=lambda out, mesh: None)
  step(model)
  report = audit(model)
  assert report.mesh == (('fsdp', 8), ('model', 1))
  assert {row.name for row in report.tensors
         } == {name for name, _ in Layers().named_parameters()
              } | {f'h.{i}.scale' for i in range(3)}
  policy = ShardingPolicy.capture(model)
  assert Rule('h.*.up.weight', ('fsdp', None)) in policy.rules
  fresh = Layers().to('xla')
  policy.apply(fresh, fsdp)
  was, is_ = placements(model), placements(fresh)
  assert was['h.2.up.weight'] == is_['h.2.up.weight'] != (None, None)


def test_fsdp_v2_takes_the_priorities_of_a_policy(mesh):
  fsdp = xs.Mesh(np.arange(8), (8, 1), ('fsdp', 'model'))
  torch.manual_seed(0)
  layers = Layers()
  x = torch.linspace(-1, 1, 64).reshape(8, 8)
  wanted = layers(x)
  wanted.sum().backward()
  gradient = layers.h[1].up.weight.grad
  layers.zero_grad()
  model = FSDPv2(layers.to('xla'), mesh=fsdp)
  captured = ShardingPolicy.capture(model)
  assert {rule.priority for rule in captured.rules} == {None}
  policy = dataclasses.replace(
      captured,
      rules=tuple(
          dataclasses.replace(rule, priority=(2,) * len(rule.spec))
          for rule in captured.rules))
  was = placements(model)
  policy.apply(model, fsdp)
  assert placements(model) == {
      name: (stored, None if name.endswith('scale') else (2,) * rank)
      for name, (stored, rank) in {
          name: (was[name][0] or '{replicated}', t.dim())
          for name, t in Layers().state_dict().items()
      }.items()
  }
  made = model(x.to('xla'))
  made.sum().backward()
  torch_xla.sync(wait=True)
  torch.testing.assert_close(made.cpu(), wanted)
  torch.testing.assert_close(layers.h[1].up.weight.grad.cpu(), gradient)
  rows = {row.name: row for row in audit(model, policy).tensors}
  assert rows['h.1.up.weight'].compiled[0].priority == (2, 2)
  assert any('"fsdp"}p2' in t.sdy
             for p in torch_xla.shardy.programs()
             for t in p.tensors)
  assert ShardingPolicy.capture(model) == policy


def test_a_mesh_that_does_not_say_it(mesh):
  model = hand_marked(mesh)
  with pytest.raises(PolicyError, match='up.weight is split .*over its own'):
    ShardingPolicy.capture(model, xs.Mesh(np.arange(8), (8,), ('all',)))
  # The same devices by other names.
  names = xs.Mesh(np.arange(8), (2, 4), ('replica', 'shard'))
  assert Rule('up.weight', ('shard', None),
              (1, None)) in ShardingPolicy.capture(model, names).rules


class Named(torch.nn.Module):

  def __init__(self, kind):
    super().__init__()
    self.inner, self.kind = Mlp(), kind

  def forward(self, x):
    return self.kind(logits=self.inner(x), loss=None)


@dataclasses.dataclass
class Result(collections.OrderedDict):
  """A result as transformers' models have it: entries are attributes, too."""
  logits: torch.Tensor = None
  loss: torch.Tensor = None

  def __post_init__(self):
    self.update(logits=self.logits, loss=self.loss)


@pytest.mark.parametrize('kind', [dict, Result])
def test_a_boundary_of_a_dictionary(mesh, kind):
  model = Named(kind).to('xla')
  policy = ShardingPolicy((), REPLICATED,
                          (Boundary('', ('data', None), output='logits'),))
  assert ShardingPolicy.from_toml(policy.to_toml()) == policy
  policy.apply(model, mesh)
  made = model(torch.randn(8, 8).to('xla'))
  assert type(made) is kind and made['loss'] is None
  if kind is Result:
    assert made.logits is made['logits']
  made['logits'].sum().backward()
  torch_xla.sync(wait=True)
  (row,) = audit(model).boundaries
  assert row.activations[0].constrained
  wrong = ShardingPolicy((), REPLICATED,
                         (Boundary('', ('data', None), output='hidden'),))
  wrong.apply(model, mesh)
  with pytest.raises(
      BoundaryError, match="no result 'hidden' in a .* with 'logits', 'loss'"):
    model(torch.randn(8, 8).to('xla'))


class Tied(torch.nn.Module):
  """Says which of its weights are one, as models of transformers do."""
  _tied_weights_keys = ['head.weight']
  config = types.SimpleNamespace(tie_word_embeddings=True)

  def __init__(self):
    super().__init__()
    self.embedding = torch.nn.Embedding(16, 8)
    self.head = torch.nn.Linear(8, 16, bias=False)
    self.tie_weights()

  def tie_weights(self):
    self.head.weight = self.embedding.weight

  def get_input_embeddings(self):
    return self.embedding


def test_a_model_that_was_untied_by_moving_it(mesh):
  policy, model = ShardingPolicy((), REPLICATED), Tied().to('xla')
  with pytest.warns(TiedWeightsWarning, match='embedding.weight and head.wei'):
    policy.apply(model, mesh)
  assert Kind.UNTIED in {d.kind for d in examine(model).differences}
  assert tie(model) == [('embedding.weight', 'head.weight')]
  assert model.head.weight is model.embedding.weight and tie(model) == []
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    policy.apply(model, mesh)
  assert Kind.UNTIED not in {d.kind for d in examine(model).differences}


def test_layers_that_are_alike_are_said_once(mesh, monkeypatch):
  monkeypatch.setenv('COLUMNS', '80')
  model = Layers().to('xla')
  ShardingPolicy((Rule('h.*.up.weight', ('model', None)),),
                 REPLICATED).apply(model, mesh)
  step(model)
  text = str(examine(model))
  assert 'h.*.up.weight (3)' in text and 'h.0' not in text
  assert max(map(len, text.splitlines())) <= 80
  other = ShardingPolicy((Rule('h.*.up.weight', ('data', None)),), REPLICATED)
  with pytest.raises(AuditError) as e:
    audit(model, other)
  # Nine differences; marked, stored and compiled are a line each.
  assert str(e.value).count('h.*.up.weight (3 in all, 1,536 bytes)') == 3
  assert '9 difference(s), by 3 cause(s)' in str(e.value.report)
