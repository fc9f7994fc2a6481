"""What else lives on a device, and what to do about it."""

import dataclasses

import environments
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.audit import (differences, examine, Kind,
                                              sections)
from torch_xla.distributed.spmd.policy import Boundary, Rule, ShardingPolicy

ENVIRONMENT = environments.SHARDY
SPEC = ('model', None)


def trained(mesh, spec=SPEC):
  model = torch.nn.Linear(8, 16, bias=False).to('xla')
  xs.mark_sharding(model.weight, mesh, spec)
  optimizer = torch.optim.AdamW(model.parameters())
  model(torch.ones(4, 8, device='xla')).sum().backward()
  optimizer.step()
  torch_xla.sync(wait=True)
  return model, optimizer


def found(model):
  return [(d.kind, d.name) for d in examine(model).differences]


def test_state_and_gradients_belong_to_their_weight(mesh):
  model, _ = trained(mesh)
  report = examine(model)
  (row,) = report.tensors
  assert [(b.role, b.local_nbytes) for b in row.beside] == [('gradient', 128),
                                                            ('exp_avg', 128),
                                                            ('exp_avg_sq', 128)]
  assert [(h.sort, h.local_nbytes) for h in report.held[:4]
         ] == [('parameters', 128), ('gradients', 128),
               ('optimizer state exp_avg', 128),
               ('optimizer state exp_avg_sq', 128)]
  step = report.largest_program
  taken = report.to_dict()['programs'][-1]['memory']
  assert step.memory.peak == taken['peak'] >= taken['arguments'] > 0
  assert f'{step.name} takes most: {step.memory.peak:,} bytes' in ' '.join(
      str(report).split())
  assert 'optimizer state exp_avg, 1 in all' in report.to_html()


def test_a_moment_that_does_not_follow_its_weight(mesh):
  model, optimizer = trained(mesh)
  state = optimizer.state[model.weight]
  state['exp_avg'] = torch.zeros(16, 8).to('xla')
  torch_xla.sync(wait=True)
  assert found(model) == [(Kind.STATE, 'weight')]
  # Split further than its weight: as ZeRO's first stage does.
  xs.mark_sharding(state['exp_avg'], mesh, (('model', 'data'), None))
  assert found(model) == []
  # As small, and elsewhere.
  state['exp_avg'] = torch.zeros(16, 8).to('xla')
  xs.mark_sharding(state['exp_avg'], mesh, (None, 'model'))
  assert found(model) == [(Kind.STATE, 'weight')]


def test_a_copy_without_its_mark(mesh):
  model, _ = trained(mesh)
  before = sum(other.count for other in examine(model).others)
  average = torch.zeros(16, 8).to('xla')
  torch_xla.sync(wait=True)
  report = examine(model)
  assert sum(other.count for other in report.others) == before + 1
  (difference,) = report.differences
  assert difference.kind is Kind.HELD_TWICE
  assert 'live whole on each device, 512 bytes each' in difference.text
  xs.mark_sharding(average, mesh, SPEC)
  assert found(model) == []


def test_what_could_be_split_further(mesh):
  model, _ = trained(mesh, (None, None))
  report = examine(model)
  assert sections.advise(report) == [
      'weight [16, 8]: model (4) could split dimension 0, data (2) could split '
      'dimension 1, 448 bytes less on each device'
  ]
  assert 'could be split further' in str(report)
  assert 'could split dimension 0' in report.to_html()
  (row,) = report.tensors
  odd = dataclasses.replace(row, local_shape=(6, 3), local_nbytes=72)
  assert sections.splits(odd, report.mesh) == [('data', 2, 0)]
  assert sections.advise(examine(trained(mesh,
                                         (('model', 'data'), None))[0])) == []


def test_bytes_of_an_activation(mesh):
  model = torch.nn.Linear(8, 16).to('xla')
  ShardingPolicy((Rule('weight', SPEC), Rule('bias', ('model',))),
                 boundaries=(Boundary('', ('data', None)),)).apply(model, mesh)
  model(torch.ones(4, 8, device='xla')).sum().backward()
  torch_xla.sync(wait=True)
  report = examine(model)
  (row,) = report.boundaries
  assert row.activations[0].local_nbytes == 2 * 16 * 4
  assert sections.by_module(report)[1:] == [
      ('(the model)', '144', '576', '-', '128'),
      ('together', '144', '576', '0', '128')
  ]


def test_bytes_by_module(mesh):
  model = torch.nn.Sequential(
      *(torch.nn.Linear(8, 8, bias=False) for _ in range(3))).to('xla')
  for layer in model:
    xs.mark_sharding(layer.weight, mesh, SPEC)
  model.head = torch.nn.Sequential(torch.nn.Linear(8, 1)).to('xla')
  optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
  model(torch.ones(4, 8, device='xla')).sum().backward()
  optimizer.step()
  torch_xla.sync(wait=True)
  report = examine(model)
  assert sections.by_module(report)[1:] == [
      ('* (3)', '192', '192', '192', '-'),
      ('head.0', '12', '12', '12', '-'),  # Split by the compiler.
      ('together', '204', '204', '204', '0'),
  ]
  (held,) = (h for h in report.held if h.sort == 'gradients')
  assert held.local_nbytes == 204
  assert '<td class="num" data-label="gradients"><span>192' in report.to_html()


@pytest.mark.parametrize('tolerance, nbytes', [(None, None), (7, 7), ('70', 70),
                                               ('1KiB', 1024), ('2%', 20),
                                               ('2.5%', 25)])
def test_tolerances(tolerance, nbytes):
  assert differences.allowed(tolerance, 1000) == nbytes


@pytest.mark.parametrize('tolerance', [-1, '-2%', 'two', '1/0%', '%'])
def test_no_tolerances(tolerance):
  with pytest.raises(ValueError, match='neither a number of bytes'):
    differences.allowed(tolerance, 1000)
