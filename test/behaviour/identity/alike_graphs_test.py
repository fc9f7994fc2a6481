"""Graphs that differ in which node is whose operand, and in nothing else.

https://github.com/pytorch/xla/issues/8353
"""

from __future__ import annotations

from collections.abc import Callable

from kinds import assert_right, assert_told_apart
from marks import compiles_of
import pytest
import torch
from torch_xla import _XLAC
import torch_xla.distributed.spmd as xs
from torch_xla_form import OFF, SHARDY, V2

ENVIRONMENT = OFF
# What a feature of its own switches on is left out where that is not there.
_MODES = [
    pytest.param(mode, marks=[pytest.mark.environment(**variables), *more])
    for mode, variables, more in (('off', OFF, ()), ('v2', V2,
                                                     (pytest.mark.slow,)),
                                  ('shardy', SHARDY, (pytest.mark.slow,)))
]

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


_GRAPHS = {'leaves': _leaves, 'inner nodes': _inner_nodes, 'outputs': _outputs}


def _pair(mesh=None) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
  """Two tensors that look alike, on the host and on devices."""
  host = [torch.arange(8.) + 6, torch.arange(8.) + 2]
  pair = [t.to('xla') for t in host]
  if mesh is not None:
    for t in pair:
      xs.mark_sharding(t, mesh, ('y',))
  return host, pair


def _check(make: Callable[[bool], Graph], mesh=None) -> None:
  hashes, counts = [], []

  def step(graph: Graph, pair: list[torch.Tensor]) -> None:
    results.extend(graph(*pair))
    hashes.append(_XLAC._get_graph_hash(results))

  for last in (False, True, False):
    host, pair = _pair(mesh)
    results: list[torch.Tensor] = []
    counts.append(compiles_of(lambda: step(make(last), pair)))
    for got, right in zip(results, make(last)(*host)):
      assert_right(got, right)
  assert_told_apart(hashes[0], hashes[1])
  assert hashes[0] == hashes[2]
  assert counts == [1, 1, 0]


@pytest.mark.parametrize('name', _GRAPHS)
def test_each_has_a_program_of_its_own(name):
  _check(_GRAPHS[name])


@pytest.mark.parametrize('mode', _MODES)
def test_of_tensors_that_are_split_alike(mode, mesh):
  """In whatever mode, by syncs and by a compiled function."""
  for name in _GRAPHS:
    _check(_GRAPHS[name], mesh)
  for last in (False, True):
    host, pair = _pair(mesh)
    got, = torch.compile(_leaves(last), backend='openxla')(*pair)
    assert_right(got, *_leaves(last)(*host))


def test_a_node_that_is_there_twice_is_one_that_is_used_twice():
  """The second of a model's training steps may have it."""
  _, (a, b) = _pair()
  once = a - b
  first, second = (
      _XLAC._get_graph_hash([result])
      for result in (once * once, (a - b) * (a - b)))
  assert first == second
