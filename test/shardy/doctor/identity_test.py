"""Graphs that differ in which node is whose operand, and in nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import processes
import pytest
import torch
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.doctor import identity
from torch_xla.shardy.doctor.report import Status

ENVIRONMENT = {}  # Beside the tests that need no child.
_OFF = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '2'}
_MODES = {
    'off': _OFF,
    'v2': _OFF | {
        'XLA_SHARDING_V2': '1'
    },
    'shardy': _OFF | {
        'XLA_USE_SHARDY': '1'
    },
}
_A, _B = torch.tensor([6., 8.]), torch.tensor([2., 4.])

Graph = Callable[[torch.Tensor, torch.Tensor], list[torch.Tensor]]


def _leaves(last: bool) -> Graph:
  return lambda a, b: [(a - b) * (b / a if last else a / b)]


def _inner_nodes(last: bool) -> Graph:

  def graph(a, b):
    x, y = a - b, b - a
    return [torch.stack((x, y, y if last else x))]

  return graph


def _outputs(last: bool) -> Graph:

  def graph(a, b):
    x, y = a - b, b - a
    return [x, y, (y if last else x).clone()]

  return graph


def _put(is_spmd: bool) -> list[torch.Tensor]:
  pair = [_A.to('xla'), _B.to('xla')]
  if is_spmd:
    mesh = xs.Mesh(np.arange(2), (2,), ('x',))
    for t in pair:
      xs.mark_sharding(t, mesh, ('x',))
    torch_xla.sync()
  return pair


def _check(is_spmd: bool) -> None:
  compiles = lambda: met.counter_value('UncachedCompile') or 0
  for make in _leaves, _inner_nodes, _outputs:
    hashes, kept = [], []
    pairs = [_put(is_spmd) for _ in range(3)]
    before = compiles()
    for last, pair in zip((False, True, False), pairs):
      results = make(last)(*pair)
      # The same, of nodes that are elsewhere in memory.
      kept.append(make(last)(*pair))
      hashes.append(torch_xla._XLAC._get_graph_hash(results))
      assert hashes[-1] == torch_xla._XLAC._get_graph_hash(kept[-1])
      torch_xla._XLAC._xla_sync_multi(results, [], True, True)
      for result, expected in zip(results, make(last)(_A, _B)):
        torch.testing.assert_close(result.cpu(), expected)
    assert hashes[0] == hashes[2] != hashes[1], make.__name__
    assert compiles() - before == 2, make.__name__


@pytest.mark.environment(**_OFF)
def test_each_has_a_program_of_its_own():
  _check(is_spmd=False)


@pytest.mark.environment(**_OFF)
def test_a_node_that_is_there_twice_is_one_that_is_used_twice():
  """The second of a model's training steps may have it."""
  a, b = _put(is_spmd=False)
  once = a - b
  first, second = (
      torch_xla._XLAC._get_graph_hash([result])
      for result in (once * once, (a - b) * (a - b)))
  assert first == second


@pytest.mark.slow
@pytest.mark.parametrize('mode', [
    pytest.param(mode, marks=pytest.mark.environment(**variables))
    for mode, variables in _MODES.items()
])
def test_in_each_mode(mode):
  if is_spmd := mode != 'off':
    xr.use_spmd()
    _check(is_spmd)
  for last in (False, True):
    compiled = torch.compile(_leaves(last), backend='openxla')
    result, = compiled(*_put(is_spmd))
    torch.testing.assert_close(result.cpu(), *_leaves(last)(_A, _B))


def test_finding_where_they_are_not_told_apart(monkeypatch):
  monkeypatch.setattr(identity, '_run', lambda f: (-f(_A, _B), f(_A, _B)))
  found = identity.find()
  assert found.status is Status.WARNING
  assert found.found.endswith('[-1.3333333730697632, -2.0] for '
                              '[1.3333333730697632, 2.0]')


_NOT_LOADED = '''
import torch
{first}
import torch_xla
from torch_xla.shardy.doctor import identity
print(identity.find())
'''


@pytest.mark.nightly
@pytest.mark.parametrize('first, variables', [
    pytest.param("torch.__version__ = '2.10.0'", {}, id='torch'),
    pytest.param('', {'TORCH_USE_RTLD_GLOBAL': '1'}, id='global'),
])
def test_doctor_warns_where_they_are_not_told_apart(first, variables):
  done = processes.run(_NOT_LOADED.format(first=first), **_OFF, **variables)
  assert 'Status.WARNING' in done.stdout, done.stderr
  assert 'libgraph_identity.so has no effect' in done.stdout
