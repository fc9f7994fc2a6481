"""Annotations go where placements go: copies, averages, loaded states.

What a placement does is `_XLAC`'s: the same without Shardy.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import copy
import io
from typing import Any, Optional

import environments
import pytest
from sections import said, sharding_of
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.bind import binder

ENVIRONMENT = environments.SHARDY
_W = ("('y', None)", (1, None))


def _model(mesh: xs.Mesh, is_synced: bool = True) -> torch.nn.Linear:
  model = torch.nn.Linear(16, 8, bias=False).to('xla')
  xs.mark_sharding(model.weight, mesh, ('y', None), priority=(1, None))
  if is_synced:
    torch_xla.sync()
  return model


def _priority(t: torch.Tensor) -> Optional[Any]:
  annotation = binder.annotation_of(t)
  return annotation and annotation.priority


def _told(f) -> list:
  """What the programs of f() were told of annotated tensors."""
  with torch_xla.shardy.record() as programs:
    out = f()
    torch_xla.sync()
  del out
  return [said(p)[1] for p in programs if any(t.spec for t in p.tensors)]


@pytest.mark.parametrize('is_synced', [True, False])
def test_deep_copies_of_modules_keep_annotations(mesh, is_synced):
  model = _model(mesh, is_synced)
  for make in (copy.deepcopy,
               lambda m: torch.optim.swa_utils.AveragedModel(m).module):
    before, copied = model.weight.detach().cpu(), make(model)
    assert copied.weight is not model.weight
    assert sharding_of(copied.weight) == sharding_of(model.weight)
    assert _priority(copied.weight) == (1, None)
    torch_xla.sync()
    with torch.no_grad():
      model.weight.add_(1)  # Takes the data that a clone must not share.
    torch_xla.sync()
    assert torch.equal(copied.weight.cpu(), before)
  del model
  change = torch.sin if is_synced else torch.sinh
  assert _told(lambda: change(copied.weight)) == [[_W]]


def test_a_deep_copy_of_a_tensor_keeps_its_annotation(mesh):
  t = torch.ones(16, 16).to('xla')
  xs.mark_sharding(t, mesh, ('x', None), priority=(1, None))
  assert _priority(copy.deepcopy(t)) == (1, None)


def test_a_copy_is_told_of_where_it_is_used_alone(mesh):
  teacher = copy.deepcopy(student := _model(mesh))
  torch_xla.sync()
  name = {student.weight: 'student', teacher.weight: 'teacher'}
  torch_xla.shardy.name_tensors({n: t for t, n in name.items()})
  for t, change in ((teacher.weight, torch.cos), (student.weight, torch.tanh)):
    with torch_xla.shardy.record() as programs:
      out = change(t)
      torch_xla.sync()
    program, = programs
    assert [r.name for r in program.tensors if r.spec] == [name[t]]
    assert sum(r.parameter is not None for r in program.tensors) == 1
  del out


def test_an_average_that_is_updated_in_place_keeps_its_annotation(mesh):
  model = _model(mesh)
  average = copy.deepcopy(model).requires_grad_(False)
  for update in (lambda a, w: a.lerp_(w, .5), lambda a, w: a.copy_(a * .5 + w),
                 lambda a, w: a.mul_(.5).add_(w)):
    with torch.no_grad():
      told = _told(lambda u=update: u(average.weight, model.weight))
      assert set(told[0]) == {_W}
      assert sharding_of(average.weight) == sharding_of(model.weight)


def test_assigned_state_of_another_model_brings_its_placement(mesh):
  source, target = _model(mesh), _model(mesh)
  target.load_state_dict(source.state_dict(), assign=True)
  expected = source.weight.detach().cpu()
  assert _priority(target.weight) == (1, None)
  del source
  assert torch.equal(target.weight.cpu(), expected)
  assert _told(lambda: target.weight.exp()) == [[_W]]


def _lost(f) -> list[str]:
  """The tensors whose annotations the programs of f() go without."""
  with torch_xla.shardy.record() as programs:
    out = f()
    torch_xla.sync()
  del out
  return [name for p in programs for name in p.lost]


@contextlib.contextmanager
def _swapping(swaps: bool) -> Iterator[None]:
  torch.__future__.set_swap_module_params_on_conversion(swaps)
  try:
    yield
  finally:
    torch.__future__.set_swap_module_params_on_conversion(False)


def _saved(state: dict) -> dict:
  file = io.BytesIO()
  torch.save(state, file)
  file.seek(0)
  return torch.load(file)


def test_loaded_state_that_is_assigned_is_warned_of_by_name(mesh, caplog):
  """What torch.load gives is laid out nowhere, without Shardy as well."""
  model = torch.nn.Sequential(_model(mesh))
  model.load_state_dict(_saved(model.state_dict()), assign=True)
  assert _priority(model[0].weight) is None
  assert not caplog.text  # It may still be marked.
  assert _lost(lambda: model[0].weight.erf()) == ['0.weight']
  assert caplog.text.count('in the place of an annotated tensor') == 1
  assert '0.weight' in caplog.text


def test_parameters_and_buffers_of_its_value_have_its_annotation(mesh, caplog):
  model, other = _model(mesh), torch.nn.Module()
  weight, other.buffer = model.weight, torch.nn.Buffer(model.weight.detach())
  copies = [other.buffer, weight.detach().clone().requires_grad_()]
  copies += map(
      torch.nn.Parameter,
      (weight.data, weight.clone(), weight.bfloat16(), weight.detach() * 2))
  del model, weight
  torch_xla.sync()
  assert [_priority(t) for t in copies] == [(1, None)] * 6
  assert _told(lambda: copies[3].atan()) == [[_W]]
  assert not caplog.text
  # A value that no parameter keeps is none of them.
  made = _model(mesh).weight.detach().cos().requires_grad_()
  torch_xla.sync()
  assert _priority(made) is None


def test_a_clone_of_data_that_came_from_the_host_has_it(mesh):
  """No sync and no read says that the weight has other data."""
  weight = _model(mesh).weight
  torch.nn.Parameter(torch.ones(2).to('xla'))  # Looks for what it is made of.
  with torch.no_grad():
    weight.copy_(torch.ones(8, 16))
  copied = torch.nn.Parameter(weight.detach().clone())
  torch_xla.sync()
  assert _priority(copied) == (1, None)


@pytest.mark.parametrize(
    'make, why',
    [(torch.nn.utils.parametrizations.weight_norm, 'was computed from it'),
     (lambda m: torch.func.stack_module_state([m]), 'was computed from it'),
     (lambda m: torch.save(m, io.BytesIO()), 'pickled as a parameter')])
def test_what_others_are_made_of_is_warned_of_by_name(mesh, caplog, make, why):
  model = _model(mesh)
  torch_xla.shardy.name_tensors({'its weight': model.weight})
  binder._warnings._messages.clear()
  make(model)
  assert 'its weight: ' in caplog.text and why in caplog.text


def test_transformed_and_lazy_parameters_have_no_value_to_look_for(mesh):
  model = _model(mesh)
  weight = model.weight.detach()
  gradient = torch.func.grad(lambda w: (w * 2).sum())(weight)
  torch.testing.assert_close(gradient.cpu(), torch.full((8, 16), 2.))
  assert torch.nn.LazyLinear(4, device='xla')(weight).shape == (8, 4)


@pytest.mark.slow
def test_a_compiled_function_takes_the_annotation_of_detached_weights(mesh):
  model = _model(mesh)
  weights, x = {'weight': model.weight.detach()}, torch.ones(4, 16).to('xla')
  compiled = torch.compile(
      lambda x: torch.func.functional_call(model, weights, (x,)),
      backend='openxla')
  with torch.no_grad():
    assert _told(lambda: compiled(x)) == [[_W]]
    assert not _told(lambda: compiled(x))
  # What Dynamo traces has no value to look for either.
  torch.compile(
      lambda t: torch.nn.Parameter(t.clone()) * 1, backend='openxla')(
          model.weight)


@pytest.mark.slow
def test_a_compiled_function_registers_what_it_computes(mesh):
  """Dynamo traces hooks of registration, if there are any."""
  model = torch.nn.utils.parametrizations.spectral_norm(_model(mesh)).eval()
  x = torch.ones(4, 16).to('xla')
  with torch.no_grad():
    expected = model(x).cpu()
    compiled = torch.compile(model, backend='openxla')(x)
  torch.testing.assert_close(compiled.cpu(), expected)


def test_a_weight_that_was_on_the_host_is_warned_of_by_name(mesh, caplog):
  for swaps in (False, True):
    model = torch.nn.Sequential(_model(mesh))
    with _swapping(swaps):
      model.cpu()
      torch_xla.sync()
      model.to('xla')
    weight = model[0].weight
    caplog.clear()
    assert _lost(lambda w=weight: w.logit() + swaps) == ['0.weight']
    xs.mark_sharding(weight, mesh, ('y', None), priority=(1, None))
    torch_xla.sync()
    assert _told(lambda w=weight: w.erfinv() + swaps) == [[_W]]


def test_a_fake_weight_is_none_that_has_data_later(mesh):
  model = _model(mesh)
  fake = FakeTensorMode(allow_non_fake_inputs=True).from_tensor(model.weight)
  model.weight = torch.nn.Parameter(fake, requires_grad=False)
  assert _told(lambda: torch.ones(8).to('xla') + 1) == []


def test_swapped_tensors_keep_theirs(mesh, caplog):
  """Also where something has asked for their names."""
  with _swapping(True):
    model = _model(mesh)
    torch_xla.shardy.name_tensors({'weight': model.weight})
    weight = model.weight
    model.bfloat16()
    assert model.weight is weight and _priority(weight) == (1, None)
    torch_xla.sync()
    assert _told(lambda: weight.relu()) == [[_W]]
  assert not caplog.text


def test_of_two_that_share_data_it_is_the_one_that_was_given_it(mesh, caplog):
  weight, given = _model(mesh).weight, _model(mesh).weight
  torch_xla.shardy.name_tensors({'given': given})
  xs.mark_sharding(given, mesh, ('y', None), priority=(7, None))
  weight.data = given.data
  assert _lost(lambda: weight.frac() + given) == ['given']
  assert _told(lambda: weight.round()) == [[_W]]
  assert caplog.text.count('given: shares its data') == 1


def test_a_clone_of_its_own_data_is_not_warned_of(mesh, caplog):
  weight = _model(mesh).weight
  weight.data = weight.data.clone()
  torch_xla.sync()
  assert _told(lambda: weight.square()) == [[_W]]
  assert not caplog.text


def test_state_on_the_host_that_is_copied_keeps_all(mesh, caplog):
  model = _model(mesh)
  state = {name: t.cpu() * 2 for name, t in model.state_dict().items()}
  before = sharding_of(model.weight)
  model.load_state_dict(state)
  torch_xla.sync()
  assert sharding_of(model.weight) == before
  assert torch.equal(model.weight.cpu(), state['weight'])
  assert _told(lambda: model.weight.sqrt()) == [[_W]]
  assert not caplog.text


def test_data_that_is_laid_out_otherwise_is_warned_of_by_name(mesh, caplog):
  model = _model(mesh)
  torch_xla.shardy.name_tensors({'model.weight': model.weight})
  model.weight.data = torch.ones(8, 16).to('xla')
  _told(lambda: model.weight.log())
  assert caplog.text.count('given other data since') == 1
  assert 'model.weight' in caplog.text


def test_norms_buffers_keep_theirs(mesh):
  norm = torch.nn.BatchNorm1d(8).to('xla')
  for t in (norm.running_mean, norm.running_var):
    xs.mark_sharding(t, mesh, ('x',), priority=(3,))
  x = torch.randn(16, 8)
  reference = torch.nn.BatchNorm1d(8)
  for step in range(3):
    told = _told(lambda: norm(x.to('xla')))
    expected = [("('x',)", (3,))]
    assert told == ([expected] if step == 0 else []) or told == [expected]
    reference(x)
    torch.testing.assert_close(norm.running_mean.cpu(), reference.running_mean)
    assert _priority(norm.running_mean) == (3,)
