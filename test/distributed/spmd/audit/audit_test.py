"""Audits of models that really ran: agreement, and each kind of difference."""

import itertools
import json

import environments
from mlp import Mlp
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.audit import (audit, AuditError, examine,
                                              GoldenFileError, Kind)
from torch_xla.distributed.spmd.audit import golden as golden_file
from torch_xla.distributed.spmd.audit import quantities
from torch_xla.distributed.spmd.policy import (Boundary, REPLICATED, Rule,
                                               ShardingPolicy)
from torch_xla.shardy.gate import requirements

ENVIRONMENT = environments.SHARDY
RULES = (Rule('up.weight', ('model', None),
              (1, None)), Rule('down.weight', (None, 'model')))
POLICY = ShardingPolicy(RULES, REPLICATED, (Boundary('up', ('data', None)),))
# A graph that this process compiled before would not be compiled again.
_BATCHES = itertools.count(20, 4)
# up.weight by the policy.
UP = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'


def step(model, batch=None, mesh=None, spec=None):
  """A training step; on an input of a sharding of its own if asked."""
  x = torch.randn(batch or next(_BATCHES), 8).to('xla')
  if spec:
    xs.mark_sharding(x, mesh, spec)
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  optimizer.zero_grad()
  model(x).sum().backward()
  optimizer.step()
  torch_xla.sync(wait=True)


def trained(mesh, batch=None):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh)
  step(model, batch)
  return model


def differences(model, policy=POLICY, **options):
  """(kind, name) of each, from the exception that has to come."""
  with pytest.raises(AuditError) as e:
    audit(model, policy, **options)
  for difference in e.value.report.differences:
    assert difference.text in str(e.value)
  return [(d.kind, d.name) for d in e.value.report.differences]


def texts(report, kind):
  return [d.text for d in report.differences if d.kind is kind]


def test_a_model_that_is_as_the_policy_says(mesh):
  report = audit(trained(mesh, 4), POLICY, tolerance=1 << 20)
  assert report.mode == 'shardy' and report.ok
  rows = {row.name: row for row in report.tensors}
  assert list(rows) == [
      'up.weight', 'up.bias', 'down.weight', 'down.bias', 'scale'
  ]
  up = rows['up.weight']
  assert (up.policy.sharding, up.annotation.sharding, up.stored.sharding,
          [c.sharding for c in up.compiled]) == (UP, UP, UP, [UP])
  assert (up.shape, up.local_shape, up.dtype, up.nbytes, up.local_nbytes,
          up.replicated_nbytes) == ((16, 8), (4, 8), 'float32', 512, 128, 512)
  assert (up.spec, up.rule, up.kind) == ("('model', None)", 'up.weight',
                                         'parameter')
  assert up.compiled[0].priority == up.policy.priority == (1, None)
  assert (up.form, up.partitioners, up.fallbacks,
          up.unused_axes) == ('V2', ('shardy',), (), ('data',))
  scale = rows['scale']
  assert (scale.kind, scale.rule, scale.stored.sharding,
          scale.replicated_nbytes) == ('buffer', 'default', '{replicated}',
                                       7 * 32)
  assert report.totals.replicated_nbytes == sum(
      r.replicated_nbytes for r in report.tensors)
  boundary, = report.boundaries
  activation, = boundary.activations
  assert (activation.shape, activation.local_shape) == ((4, 16), (2, 16))
  assert activation.constrained >= 2  # The result and its gradient.
  assert report.counts['compiles'] == len(report.programs) == 1
  made, = report.programs
  direct = torch_xla.shardy.programs()[-1]
  assert [(c.kind, c.nbytes) for c in made.collectives
         ] == [(c.kind, c.nbytes) for c in direct.collectives] != []


def test_the_table_says_what_there_is(mesh):
  text = str(examine(trained(mesh), POLICY, tolerance=1 << 20))
  assert 'mode shardy, mesh data=2, model=4 of 8 devices, 5 tensors' in text
  row, = [line for line in text.splitlines() if line.startswith('up.weight')]
  assert row.split() == [
      'up.weight', '[16,8]', '[4,8]', '512', '512', "('model',", 'None)', '(1,',
      'None)', 'data'
  ]
  assert 'of all: dtype float32; marked, stored, compiled same' in text
  assert 'by cause: ' in text and ' by dot of ' in text
  assert text.endswith('no differences')


def test_a_retrace_is_counted(mesh):
  model = trained(mesh, batch=8)
  step(model, batch=8)
  assert examine(model, POLICY).counts['CachedCompile'] == 1
  step(model, batch=16)
  counts = examine(model, POLICY).counts
  assert (counts['compiles'], counts['UncachedCompile'],
          counts['MarkStep']) == (2, 2, 3)


def test_a_compiled_model(mesh):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh)
  with torch.no_grad():
    out = torch.compile(model, backend='openxla')(torch.randn(4, 8).to('xla'))
  torch_xla.sync(wait=True)
  assert out.shape == (4, 8)
  report = audit(model, POLICY)
  assert report.counts['DynamoExtractCompiledGraph'] == 1
  assert report.boundaries[0].activations[0].constrained == 1
  assert all(row.compiled[0].sharding for row in report.tensors)


def test_tied_weights_count_once(mesh):
  model = Mlp()
  model.down = torch.nn.Linear(8, 16)
  model.forward = lambda x: model.down(x) + model.up(x)
  model = model.to('xla')
  model.down.weight = model.up.weight
  policy = ShardingPolicy((Rule('up.weight', ('model', None)),), REPLICATED)
  policy.apply(model, mesh)
  step(model)
  report = audit(model, policy)
  assert [(r.name, r.aliases) for r in report.tensors if 'weight' in r.name
         ] == [('up.weight', ('down.weight',))]
  assert report.totals.nbytes == 512 + 2 * 64 + 32


def test_a_weight_that_was_replaced_and_marked_otherwise(mesh):
  model = trained(mesh)
  model.up.weight = torch.nn.Parameter(torch.randn(16, 8).to('xla'))
  xs.mark_sharding(model.up.weight, mesh, (None, 'model'))
  assert differences(model) == [(Kind.ANNOTATION, 'up.weight'),
                                (Kind.ANNOTATION, 'up.weight'),
                                (Kind.STORED, 'up.weight')]
  report = examine(model, POLICY)
  assert texts(report, Kind.STORED) == [
      f"the policy says ('model', None), {UP}, and it is stored as "
      '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
  ]
  assert 'priority (1, None), and it is marked with priority None' in texts(
      report, Kind.ANNOTATION)[1]


def test_a_program_that_took_a_weight_otherwise(mesh):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh)
  xs.mark_sharding(model.up.weight, mesh, ('model', None), priority=(3, None))
  step(model)
  # What was done behind the policy's back is undone, but the program stays.
  xs.mark_sharding(model.up.weight, mesh, ('model', None), priority=(1, None))
  assert differences(model) == [(Kind.COMPILED, 'up.weight')]
  text, = texts(examine(model, POLICY), Kind.COMPILED)
  assert 'priority (1, None), and SyncTensorsGraph.' in text
  assert 'takes it with priority (3, None)' in text


def test_a_buffer_that_was_never_marked(mesh):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh)
  model.register_buffer('late', torch.ones(8).to('xla'))
  model.down.register_forward_hook(lambda module, args, out: out + model.late)
  step(model)
  found = differences(model)
  assert (Kind.NEVER_ANNOTATED, 'late') in found
  assert {name for _, name in found} == {'late'}


def test_a_tensor_that_no_rule_claims(mesh):
  model = trained(mesh)
  strict = ShardingPolicy((*RULES, Rule('*.bias', REPLICATED)),
                          boundaries=POLICY.boundaries)
  assert differences(model, strict) == [(Kind.POLICY, 'scale')]


def test_a_sharding_that_was_cleared(mesh):
  model = trained(mesh)
  xs.clear_sharding(model.down.weight)
  assert differences(model) == [(Kind.NEVER_ANNOTATED, 'down.weight'),
                                (Kind.STORED, 'down.weight')]


def test_a_program_that_fell_back_to_gspmd(mesh):
  policy = ShardingPolicy(RULES, REPLICATED)
  model = Mlp().to('xla')
  policy.apply(model, mesh)
  other = xs.Mesh(
      np.array([7, 1, 2, 3, 4, 5, 6, 0]), mesh.mesh_shape, mesh.axis_names)
  step(model, 8, other, ('model', None))
  found = differences(model, policy)
  assert {kind for kind, _ in found} == {Kind.FALLBACK}
  report = examine(model, policy)
  text, *_ = texts(report, Kind.FALLBACK)
  assert text.startswith('partitioned by gspmd: Shardy cannot be told of ')
  assert report.tensors[0].partitioners == ('gspmd',)
  assert report.tensors[0].fallbacks == (text.split(': ', 1)[1],)
  assert '(fallback)' in str(report)


def test_a_program_without_the_annotations_of_its_weights(mesh):
  model = trained(mesh)
  out = model(torch.randn(next(_BATCHES), 8).to('xla'))
  torch_xla._XLAC._xla_warm_up_cache([out], [])  # Outside of a sync.
  kind, name = differences(model)[-1]
  assert kind is Kind.ANNOTATION and name.startswith('SyncTensorsGraph.')
  assert '1 without their annotation: up.weight' in texts(
      examine(model, POLICY), kind)
  torch_xla.sync()


def test_a_boundary_whose_result_is_uneven(mesh):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh)
  step(model, batch=3)
  found = differences(model)
  assert (Kind.BOUNDARY, 'up') in found
  assert texts(examine(model, POLICY), Kind.BOUNDARY) == [
      "dimension 0 of its result [3, 16] does not divide into 2, as ('data', "
      'None) asks'
  ]


def test_a_boundary_that_was_taken_away(mesh):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh).remove()
  step(model)
  assert differences(model) == [(Kind.BOUNDARY, 'up')]


def test_more_replicated_bytes_than_allowed(mesh):
  model = trained(mesh)
  total = examine(model, POLICY).totals.replicated_nbytes
  assert audit(model, POLICY, tolerance=total).ok
  assert differences(
      model, tolerance=total - 1) == [(Kind.REPLICATED_BYTES, 'all tensors')]
  report = examine(model, POLICY, tolerance=total - 1)
  text, = texts(report, Kind.REPLICATED_BYTES)
  assert text.startswith(f'{total:,} bytes are copies')
  *_, (nbytes, name) = sorted(
      (row.replicated_nbytes, row.name) for row in report.tensors)
  assert text.endswith(f'the most, {nbytes:,}, are of {name}')


def test_pending_work_is_no_agreement(mesh):
  model = trained(mesh)
  with torch.no_grad():
    model.up.bias.add_(1)
  assert differences(model) == [(Kind.STORED, 'up.bias')]
  torch_xla.sync(wait=True)
  assert audit(model, POLICY).ok


def test_no_step_at_all(mesh):
  model = Mlp().to('xla')
  POLICY.apply(model, mesh)
  assert differences(model) == [(Kind.NOTHING_RAN, 'programs')]


def test_a_golden_file_is_held_to(mesh, tmp_path):
  model = trained(mesh)
  golden = tmp_path / 'golden.json'
  golden.write_text(examine(model, POLICY).to_json())
  assert audit(model, POLICY, golden=golden).ok
  step(model)  # One more program.
  with pytest.raises(AuditError) as e:
    audit(model, POLICY, golden=golden)
  found = {d.name: d.text for d in e.value.report.differences}
  assert {d.kind for d in e.value.report.differences} == {Kind.GOLDEN}
  assert found.pop('boundary up').startswith('activations: it was ')
  assert found == {'SyncTensorsGraph #2': 'it is new'}


def test_instructions_leave_the_golden_file(mesh):
  """Two models of which one has more to do, and the same to move."""

  def golden(more):
    model = Mlp().to('xla')
    POLICY.apply(model, mesh)
    loss = model(torch.randn(216, 8).to('xla')).sum()
    (loss.mul(2).div(2) if more else loss).backward()
    torch_xla.sync(wait=True)
    report = examine(model, POLICY)
    return report.programs[0].name, report.to_dict()

  (was, before), (now, after) = golden(False), golden(True)
  assert was != now and not list(golden_file.differences(before, after))


def test_a_golden_file_names_what_changed(mesh, tmp_path):
  model = trained(mesh)
  data = json.loads(examine(model, POLICY).to_json())
  tensors = data['tensors']
  tensors['up.weight']['stored']['sharding'] = '{replicated}'
  del tensors['scale']
  data['totals']['nbytes'] += 1024
  golden = tmp_path / 'golden.json'
  golden.write_text(json.dumps(data))
  found = {
      d.name: d.text for d in examine(model, POLICY, golden=golden).differences
  }
  assert list(found) == ['the model', 'up.weight', 'scale']
  assert 'stored: it was ' in found['up.weight']
  assert '{replicated}' in found['up.weight'].partition(', and is ')[0]
  assert found['the model'].startswith('totals: it was ')


def test_requirements(mesh):
  report = examine(trained(mesh), POLICY)
  for text in ('replicated bytes<=1GiB', 'compiles==1', 'programs<2',
               'all-reduce count>0', 'collective bytes>=1', 'fallbacks==0'):
    assert requirements.parse(text, quantities.named).check(report) is None
  some = requirements.parse('bytes per device < 1', quantities.named)
  assert some.check(report).startswith('bytes per device < 1: bytes per device '
                                       'is ')
  with pytest.raises(
      requirements.RequirementError, match="did you mean 'all-reduce count'"):
    requirements.parse('allreduce count<=1', quantities.named)


@pytest.mark.parametrize('text, why', [
    (None, 'No such file'),
    ('no json', 'Expecting value'),
    ('[]', 'it is no report of an audit'),
    ('{"schema": 1, "tensors": {}}', 'mode'),
])
def test_a_golden_file_that_is_none(mesh, tmp_path, text, why):
  golden = tmp_path / 'golden.json'
  if text is not None:
    golden.write_text(text)
  with pytest.raises(GoldenFileError, match=f'golden.json.*{why}.*--json FILE'):
    audit(trained(mesh), POLICY, golden=golden)
