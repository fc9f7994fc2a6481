"""Programs whose shardings are in V2: told apart, right, and read back."""

from __future__ import annotations

import itertools

from kinds import assert_right, assert_told_apart
from marks import compiles_of, sync
import numpy as np
import placements
import pytest
import torch
from torch_xla import _XLAC
import torch_xla.distributed.spmd as xs
from torch_xla_form import V2

ENVIRONMENT = V2
pytestmark = pytest.mark.usefixtures('mesh')

_ORDERS = {
    'plain': list(range(8)),
    'reversed': list(range(7, -1, -1)),
    'columns': [0, 4, 1, 5, 2, 6, 3, 7],
    'torus': [0, 1, 3, 2, 4, 5, 7, 6],
}
# One that is its own inverse would not show which way round it is read.
_SOME_ORDERS = [
    pytest.param(name, marks=[pytest.mark.nightly] * (name != 'columns'))
    for name in _ORDERS
]
_SPECS = [('x', 'y', None), ('y', 'x', None), (('x', 'y'), None, None),
          (('y', 'x'), None, None), (None, None, ('x', 'y', 'z')),
          ('z', None, 'x'), ('x', None, 'z'), ('x', None, None),
          ('z', None, None)]


def _cube(order='plain'):
  return xs.Mesh(np.array(_ORDERS[order]), (2, 2, 2), ('x', 'y', 'z'))


def _marked(value, mesh, spec):
  t = value.to('xla')
  xs.mark_sharding(t, mesh, spec)
  return t


# That differ only in the order of the devices.


def test_hashes_tell_placements_apart():
  value = torch.arange(512.).reshape(8, 8, 8)
  hashes = {}
  for order, spec in itertools.product(_ORDERS, _SPECS):
    mesh = _cube(order)
    key = frozenset(placements.of_spec(mesh, spec).items())
    pending = _marked(value, mesh, spec).sin() + 1
    hashes.setdefault(key, set()).add(_XLAC._get_graph_hash([pending]))
  # Of one placement written in different ways there may be several.
  for one, other in itertools.combinations(hashes, 2):
    for pair in itertools.product(hashes[one], hashes[other]):
      assert_told_apart(*pair, (one, other))


def test_hashes_of_equal_programs_are_equal():
  value = torch.zeros(8, 8, 8)
  for spec in _SPECS:
    first, second = (
        _XLAC._get_graph_hash([_marked(value, _cube(), spec) * 3])
        for _ in range(2))
    assert first == second


def test_no_program_is_another_order_s():
  """Neither is one compiled again that is there."""
  mesh, value = _cube(), torch.randn(8, 8)
  for f, width in ((lambda t: t.cumsum(0) * 2, 8), (lambda t: t.flip(0), 16)):
    value = torch.randn(8, width)
    for again in (False, True):
      for spec in (('x', 'y'), ('y', 'x'), ('x', 'z'), ('z', 'x')):
        t, outs = _marked(value, mesh, spec), []
        count = compiles_of(lambda: outs.append(f(t)))
        assert_right(outs[0], f(value), 1e-5, about=spec)
        assert count == (0 if again else 1), spec


def test_marks_inside_are_told_apart():
  mesh, value = _cube(), torch.randn(8, 24)
  for spec in (('x', 'y'), ('y', 'x'), (('x', 'z'), None), (('z', 'x'), None)):
    h = value.to('xla') * 2
    xs.mark_sharding(h, mesh, spec)
    out = h.cumsum(0)
    sync()
    assert_right(out, (value * 2).cumsum(0), 1e-4, about=spec)
    text = _XLAC._get_xla_sharding_spec(h)
    assert placements.of_text(text, 2) == placements.of_spec(mesh, spec)


# Right, and read back.


@pytest.mark.parametrize('order', _SOME_ORDERS)
def test_numbers_and_readback(order):
  """A result that can only be placed as its operand is, and its shards."""
  mesh, value = _cube(order), torch.arange(512.).reshape(8, 8, 8)
  for spec in _SPECS:
    t = _marked(value, mesh, spec)
    out = t * 2
    t.add_(1)
    sync()
    wanted = placements.of_spec(mesh, spec)
    for tensor, right in ((out, value * 2), (t, value + 1)):
      assert_right(tensor, right, 0, about=spec)
      text = _XLAC._get_xla_sharding_spec(tensor)
      assert placements.of_text(text, 3) == wanted, (spec, text)
    assert _XLAC._get_xla_sharding_specs(
        [t,
         out]) == [_XLAC._get_xla_sharding_spec(tensor) for tensor in (t, out)]


@pytest.mark.parametrize('order', _SOME_ORDERS)
def test_operands_of_different_placements(order):
  mesh = _cube(order)
  a, b, c = torch.randn(8, 16), torch.randn(16, 8), torch.randn(8, 8)
  for of_a, of_b, of_c in (
      (('x', 'y'), ('y', 'z'), ('x', 'z')),
      (('y', 'x'), ('z', 'x'), (('y', 'x'), None)),
      ((None, ('z', 'x')), (('z', 'x'), None), (None, 'y')),
  ):
    on_a, on_b, on_c = (_marked(value, mesh, spec)
                        for value, spec in ((a, of_a), (b, of_b), (c, of_c)))
    out = (on_a @ on_b + on_c).relu().sum(0)
    sync()
    assert_right(out, (a @ b + c).relu().sum(0), 1e-4)


@pytest.mark.parametrize('rows', [13, 5, 3])
def test_uneven_dimensions(rows):
  mesh, value = _cube('columns'), torch.randn(rows, 7)
  for spec in (('x', 'y'), (('z', 'x'), None), (None, ('x', 'y', 'z'))):
    t = _marked(value, mesh, spec)
    out = t.cumsum(0)
    t.mul_(2)
    sync()
    assert_right(out, value.cumsum(0), 1e-5)
    assert_right(t, value * 2, 0)


@pytest.mark.parametrize('order', _SOME_ORDERS)
def test_a_training_step(order):
  mesh = _cube(order)
  torch.manual_seed(0)
  reference = torch.nn.Linear(16, 8)
  model = torch.nn.Linear(16, 8)
  model.load_state_dict(reference.state_dict())
  model = model.to('xla')
  xs.mark_sharding(model.weight, mesh, ('z', 'y'))
  o, ro = (
      torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
      for m in (model, reference))
  for _ in range(3):
    x = torch.randn(8, 16)
    for m, optimizer, given in ((reference, ro, x),
                                (model, o, _marked(x, mesh, ('x', None)))):
      optimizer.zero_grad()
      m(given).square().mean().backward()
      optimizer.step()
    sync()
  text = _XLAC._get_xla_sharding_spec(model.weight)
  assert_right(model.weight, reference.weight, 1e-5)
  assert placements.of_text(text, 2) == placements.of_spec(mesh, ('z', 'y'))


def test_a_compiled_function(traces):
  f = torch.compile(lambda a, b: a @ b + 1, backend='openxla')
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  specs = [('x', 'y'), ('y', 'x'), ('x', 'y')]
  for i, spec in enumerate(specs):
    for _ in range(2):
      out = f(_marked(a, _cube(), spec), b.to('xla'))
      assert_right(out, a @ b + 1, 1e-5)
    assert traces['n'] == i + 1
