"""Priorities of what `torch.compile(backend='openxla')` gets and marks."""

from __future__ import annotations

from kinds import assert_right
from marks import placed, put, sync
import placements
import pytest
import torch
import torch_xla.distributed.spmd as xs
from torch_xla_form import SHARDY

ENVIRONMENT = SHARDY

_OVER_X, _OVER_Y = ('x', None), ('y', None)
_X_FIRST, _Y_FIRST = ((0, None), (1, None)), ((1, None), (0, None))


def _compiled(f):
  return torch.compile(f, backend='openxla')


@pytest.mark.parametrize(
    'order, winner', [(_X_FIRST, 'x'), (_Y_FIRST, 'y')],
    ids=['x first', 'y first'])
def test_of_arguments(order, winner, mesh, traces):
  f = _compiled(lambda a, b: a + b)
  for _ in range(3):
    x, y = (put(mesh, (8, 8), spec, priority)
            for spec, priority in zip((_OVER_X, _OVER_Y), order))
    out = f(x, y)
    sync()
    assert_right(out, x.cpu() + y.cpu(), 0)
    assert placed(out) == placements.of_spec(mesh, (winner, None))
  assert traces['n'] == 1


@pytest.mark.parametrize(
    'order, winner', [(_X_FIRST, 'x'), (_Y_FIRST, 'y')],
    ids=['x first', 'y first'])
def test_of_a_captured_weight(order, winner, mesh, traces):
  of_x, of_w = order
  w = put(mesh, (8, 16), _OVER_Y, of_w)
  f = _compiled(lambda a: a + w)
  for _ in range(3):
    x = put(mesh, (8, 16), _OVER_X, of_x)
    out = f(x)
    sync()
    assert_right(out, x.cpu() + w.cpu(), 0)
    assert placed(out) == placements.of_spec(mesh, (winner, None))
    assert placed(w) == placements.of_spec(mesh, _OVER_Y)
  assert traces['n'] == 1


def test_a_change_traces_once_and_takes_effect(mesh, traces):
  w = put(mesh, (8, 24), _OVER_Y, (1, None))
  x = put(mesh, (8, 24), _OVER_X, (0, None))
  f = _compiled(lambda a: a + w)
  expected, counts, seen = x.cpu() + w.cpu(), [], []
  for order in (_X_FIRST, _X_FIRST, _X_FIRST, _Y_FIRST, _Y_FIRST, _Y_FIRST):
    xs.mark_sharding(x, mesh, _OVER_X, priority=order[0])
    xs.mark_sharding(w, mesh, _OVER_Y, priority=order[1])
    before = traces['n']
    out = f(x)
    sync()
    counts.append(traces['n'] - before)
    seen.append(placed(out))
    assert_right(out, expected, 0)
  assert counts == [1, 0, 0, 1, 0, 0]
  x_placed, y_placed = (
      placements.of_spec(mesh, spec) for spec in (_OVER_X, _OVER_Y))
  assert seen == [x_placed] * 3 + [y_placed] * 3


def test_inputs_of_different_priorities(mesh):
  w = put(mesh, (8, 32), _OVER_Y, (1, None))
  first = put(mesh, (8, 32), _OVER_X, (0, None))
  second = put(mesh, (8, 32), _OVER_X, (2, None))
  f = _compiled(lambda a: a + w)
  for x, winner in ((first, 'x'), (first, 'x'), (second, 'y'), (second, 'y'),
                    (first, 'x')):
    out = f(x)
    sync()
    assert_right(out, x.cpu() + w.cpu(), 0)
    assert placed(out) == placements.of_spec(mesh, (winner, None))


@pytest.mark.parametrize(
    'order, winner', [(_X_FIRST, 'x'), (_Y_FIRST, 'y')],
    ids=['x first', 'y first'])
def test_of_marks_inside(order, winner, mesh, traces):
  """Marks by the operator that can stay in a graph; priorities are text."""
  w, where = put(mesh, (8, 40), _OVER_Y, order[1]), str(mesh)

  def g(x):
    h = torch.ops.xla.aot_mark_sharding(x * 2, where, str(_OVER_X),
                                        str(order[0]))
    return h + w

  f = _compiled(g)
  for _ in range(3):
    x = torch.randn(8, 40)
    out = f(x.to('xla'))
    sync()
    assert_right(out, x * 2 + w.cpu(), 1e-5)
    assert placed(out) == placements.of_spec(mesh, (winner, None))
  assert traces['n'] == 1


def test_a_function_called_between_lazy_steps(mesh):
  """One input is that of a lazy graph, too, and dies before the sync."""
  w = put(mesh, (8, 8), _OVER_Y, (1, None))
  f = _compiled(lambda x: x @ w)
  for _ in range(3):
    x = put(mesh, (8, 8), _OVER_X, (0, None))
    expected = x.cpu() @ w.cpu() + x.cpu() + w.cpu()
    out = f(x) + x + w
    del x
    sync()
    assert_right(out, expected, 1e-4)
    assert placed(out) == placements.of_spec(mesh, _OVER_X)


def test_an_argument_updated_in_place_keeps_its_priority(mesh):

  def step(w, x):
    w.add_(1)
    return x * 2

  f = _compiled(step)
  w = put(mesh, (8, 48), _OVER_Y, (1, None))
  expected = w.cpu()
  for _ in range(4):
    x = put(mesh, (8, 48), _OVER_X, (0, None))
    out = f(w, x)
    sync()
    expected += 1
    assert_right(w, expected, 1e-5)
    assert_right(out, x.cpu() * 2, 0)
    assert placed(w) == placements.of_spec(mesh, _OVER_Y)
  for of_other, winner in (((0, None), 'x'), ((2, None), 'y')):
    out = w + put(mesh, (8, 48), _OVER_X, of_other)
    sync()
    assert placed(out) == placements.of_spec(mesh, (winner, None))


@pytest.mark.parametrize(
    'order, winner', [(_X_FIRST, 'x'), (_Y_FIRST, 'y')],
    ids=['x first', 'y first'])
@pytest.mark.parametrize('uses_result', [False, True])
def test_marks_within(uses_result, order, winner, mesh, traces):
  """The operator gives back a tensor, so the graph does not break there."""
  of_u, of_v = order
  of_mesh = (mesh.device_ids.tolist(), list(mesh.mesh_shape),
             str(mesh.axis_names))

  def add(u, v):
    u = u * 2
    marked = torch.ops.xla.dynamo_mark_sharding(u, *of_mesh, str(_OVER_X),
                                                str(of_u))
    return (marked if uses_result else u) + v

  f = _compiled(add)
  for _ in range(2):
    x = torch.randn(8, 16)
    v = put(mesh, (8, 16), _OVER_Y, of_v)
    out = f(x.to('xla'), v)
    sync()
    assert_right(out, x * 2 + v.cpu(), 1e-6)
    assert placed(out) == placements.of_spec(mesh, (winner, None))
  assert traces['n'] == 1


@pytest.mark.slow
def test_marks_with_gradients(mesh):
  """The graph breaks there; forward and backward are right all the same."""
  w = torch.randn(16, 8).to('xla').requires_grad_()
  f = _compiled(lambda x: xs.mark_sharding_with_gradients(
      x @ w, mesh, _OVER_X, priority=(1, None)).relu().sum())
  for _ in range(3):
    x = torch.randn(8, 16)
    w.grad = None
    f(x.to('xla')).backward()
    sync()
    cpu = w.detach().cpu().requires_grad_()
    (x @ cpu).relu().sum().backward()
    assert_right(w.grad, cpu.grad, 1e-4)


@pytest.mark.parametrize('stored', [None, (None, 'y')])
def test_a_constraint_on_an_argument_is_one_on_its_value(mesh, traces, stored):
  # Its clone is data, which a graph that marks it would keep as a constant.
  text = str(mesh)
  double = _compiled(
      lambda x: torch.ops.xla.aot_mark_sharding(x, text, "('x', None)") * 2)
  for step in range(3):
    x = torch.full((8, 8), float(step)).to('xla')
    if stored:
      xs.mark_sharding(x, mesh, stored)
    sync()
    result = double(x)
    assert_right(result.cpu(), torch.full((8, 8), 2. * step))
  assert traces['n'] == 1


# Python's guards do: to have C++ check shapes, gcc runs for seconds first.
@torch._dynamo.config.patch(enable_cpp_symbolic_shape_guards=False)
def test_a_cache_that_is_written_at_another_position_each_step(mesh):
  """Each is a graph of its own, traced after another updated the cache."""
  here = torch.zeros(2, 4, 8)
  cache = here.clone().to('xla')
  xs.mark_sharding(cache, mesh, (None, None, 'x'))

  def write(cache, x, at):
    cache[:, at:at + 1] = x
    return cache[:, :at + 1].sum(1)

  compiled = torch.compile(write, backend='openxla')
  for at in range(4):
    x = torch.randn(2, 1, 8)
    right = write(here, x, at)
    assert_right(compiled(cache, x.to('xla'), at), right)
    assert_right(cache, here)
