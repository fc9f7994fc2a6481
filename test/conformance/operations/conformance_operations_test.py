"""Operations: what they give on the CPU, and what a case makes of a device."""

import collections
import dataclasses
import functools
import re
from types import SimpleNamespace
from typing import Optional

import environments
import processes
import pytest
import torch

from torch_xla_conformance.case import Failure, NotApplicable
from torch_xla_conformance.cases import operations as cases_module
from torch_xla_conformance.comparison import compare, SAME_BITS, Shard
from torch_xla_conformance.operations import operations, sharded
from torch_xla_conformance.operations.operation import expected_of

ENVIRONMENT = {}  # Beside the tests that need no child.
_OPERATIONS = {operation.name: operation for operation in operations()}
_CASES = {case.name: case for case in cases_module.CASES}
_SPMD = environments.SHARDY


def tensors_of(results) -> tuple[torch.Tensor, ...]:
  return results if isinstance(results, tuple) else (results,)


def test_names_are_unique_and_fit_a_pattern():
  names = [operation.name for operation in operations()]
  assert len(set(names)) == len(names) >= 200
  assert [n for n in names if not re.fullmatch('[a-z][a-z0-9_]*', n)] == []


def test_at_least_two_hundred_are_tried_under_each_sharding():
  counts = collections.Counter()
  for name, case in _CASES.items():
    counts[name.split('.')[2]] += len(case.parts)
  assert counts['alone'] == len(_OPERATIONS)
  assert len(counts) == 10 and min(counts.values()) >= 200


def test_what_stands_for_others_exists():
  named = {(family, name)
           for table in (sharded._STANDING_FOR, sharded._ONLY_ALONE)
           for family, names in table.items()
           for name in names.split()}
  assert named <= {(o.family, o.name) for o in operations()}


def operations_left_to_the_cpu() -> dict[str, list[str]]:
  """What torch_xla computes on the CPU instead, by operation."""
  import torch_xla
  import torch_xla.debug.metrics as metrics
  left = {}
  for operation in operations():
    inputs, _ = expected_of(operation, 1)
    placed = [tensor.to(torch_xla.device()) for tensor in inputs]
    metrics.clear_all()
    results = operation.call(*placed)
    names = [n for n in metrics.counter_names() if n.startswith('aten::')]
    if names:
      left[operation.name] = names
    del results
  return left


@pytest.mark.slow
def test_the_device_computes_all_of_them():
  called = processes.call(operations_left_to_the_cpu, PJRT_DEVICE='CPU')
  assert called.value == {}


def failures_on_xlas_plugin(patterns: tuple[str, ...]) -> dict[str, str]:
  """What fails of cases on XLA's CPU plugin, by case and part."""
  import numpy as np
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr

  @functools.cache
  def start():
    xr.use_spmd()
    device = torch_xla.device()
    mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
    return SimpleNamespace(
        to_device=lambda tensor: tensor.to(device), grid=lambda: mesh)

  context = SimpleNamespace(seed=3, torch=start)
  failed = {}
  for name in patterns:
    for part in _CASES[name].parts:
      try:
        _CASES[name].run(context, part)
      except Failure as failure:
        failed[f'{name}/{part}'] = str(failure)
  return failed


@pytest.mark.nightly
def test_xlas_plugin_computes_right():
  called = processes.call(
      failures_on_xlas_plugin,
      ('operations.factories.alone', 'operations.scans.alone',
       'operations.contractions.alone', 'operations.gradients.model_none',
       'operations.scatters.data_model', 'operations.indexing.none_both'),
      **_SPMD)
  assert called.value == {}


@pytest.mark.parametrize('family', sorted({o.family for o in operations()}))
def test_each_gives_the_same_for_the_same_seed(family):
  for operation in operations():
    if operation.family == family:
      first, second = (expected_of(operation, 5) for _ in range(2))
      for one, other in zip(first[0], second[0]):
        assert compare(one, other, SAME_BITS) == 0, operation.name
      for one, other in zip(tensors_of(first[1]), tensors_of(second[1])):
        assert one.numel(), operation.name
        assert compare(one, other, SAME_BITS) == 0, operation.name


def test_seeds_give_other_numbers():
  operation = _OPERATIONS['matmul']
  assert not torch.equal(
      expected_of(operation, 1)[0][0],
      expected_of(operation, 2)[0][0])


@pytest.mark.parametrize('name', ['batch_norm_running', 'assign_slice'])
def test_a_call_leaves_its_inputs_as_they_were(name):
  operation = _OPERATIONS[name]
  inputs, _ = expected_of(operation, 1)
  fresh = operation.given(1)
  assert all(torch.equal(a, b) for a, b in zip(inputs, fresh))


@pytest.mark.parametrize(
    'name', ['matmul_bfloat16', 'linear', 'conv2d', 'linear_gradient'])
def test_contractions_are_exact_with_factors_in_bfloat16(name):
  """Devices that pass for float32 may multiply so."""
  operation = _OPERATIONS[name]
  inputs, _ = expected_of(operation, 3)
  assert all(
      torch.equal(tensor,
                  tensor.bfloat16().to(tensor.dtype)) for tensor in inputs)
  in_double = operation.call(*(tensor.double() for tensor in inputs))
  for one, other in zip(
      tensors_of(in_double), tensors_of(operation.call(*inputs))):
    assert torch.equal(one, other.double())


def test_each_case_says_what_a_failure_means():
  assert _CASES['operations.special_values.alone'].means == (
      'models compute something else than on a CPU (special values)')
  assert _CASES['operations.scans.replicated'].means.endswith(
      'when their tensors are replicated over a mesh')
  assert _CASES['operations.scans.none_model'].means.endswith(
      '(scans) when dimension 1 is split over model')
  assert _CASES['operations.scans.both_none'].means.endswith(
      "when dimension 0 is split over 'data' and 'model'")
  assert len({case.means for case in _CASES.values()}) == len(_CASES)


class FakeSession:
  """A device that is the CPU, and may refuse a dtype."""

  def __init__(self, refused: Optional[torch.dtype] = None):
    self._refused = refused

  def to_device(self, host: torch.Tensor) -> torch.Tensor:
    if host.dtype == self._refused:
      raise RuntimeError('UNIMPLEMENTED: no such type')
    return host.clone()


def run_on_cpu(monkeypatch, operation, start=FakeSession) -> str:
  monkeypatch.setattr(cases_module.torch_xla, 'sync', lambda wait: None)
  monkeypatch.setattr(cases_module, 'shards',
                      lambda result: [Shard('CPU:0', ..., result)])
  context = SimpleNamespace(seed=1, torch=start)
  return cases_module._run({operation.name: operation}, None, context,
                           operation.name)


def test_the_device_is_there_before_autograd_counts_devices(monkeypatch):
  order = []
  operation = dataclasses.replace(
      _OPERATIONS['exp'], call=lambda x: order.append('computed') or x)
  run_on_cpu(monkeypatch, operation,
             lambda: order.append('started') or FakeSession())
  assert order == ['started', 'computed', 'computed']


def test_a_part_says_how_close_it_was(monkeypatch):
  assert run_on_cpu(monkeypatch, _OPERATIONS['matmul']) == 'equal'
  off = dataclasses.replace(
      _OPERATIONS['exp'], call=_on_second_call(lambda x: x * (1 + 2e-6)))
  assert re.fullmatch(r'off by \de-06 relative', run_on_cpu(monkeypatch, off))


def _on_second_call(spoil, otherwise=lambda x: x):
  """The identity, whose second result is spoiled: the device's."""
  calls = iter((otherwise, spoil))

  def call(x):
    return next(calls)(x)

  return call


@pytest.mark.parametrize('name, spoil, text', [
    ('exp', lambda x: x + 1e-3, 'allowed 1e-05 relative'),
    ('exp', lambda x: x.double(), 'dtype float64, expected float32'),
    ('transpose', lambda x: x.T, 'shape'),
    ('add_int32', lambda x: x + 1, 'allowed none'),
])
def test_a_wrong_result_is_a_failure(monkeypatch, name, spoil, text):
  operation = dataclasses.replace(
      _OPERATIONS[name],
      inputs=_OPERATIONS[name].inputs[:1],
      call=_on_second_call(spoil))
  with pytest.raises(Failure, match=re.escape(text)):
    run_on_cpu(monkeypatch, operation)


def test_a_dtype_that_a_device_lacks_is_no_failure(monkeypatch):
  with pytest.raises(NotApplicable, match='the plugin has no float16: UNIMP'):
    run_on_cpu(monkeypatch, _OPERATIONS['exp_float16'],
               lambda: FakeSession(torch.float16))


def test_a_dtype_that_every_device_has_may_not_be_refused(monkeypatch):
  with pytest.raises(RuntimeError, match='UNIMPLEMENTED'):
    run_on_cpu(monkeypatch, _OPERATIONS['add_bfloat16'],
               lambda: FakeSession(torch.bfloat16))
