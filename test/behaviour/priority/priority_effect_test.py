"""Which of two shardings that contradict each other goes first.

Nobody's own sharding ever gives way. What shows the effect is a tensor that has
none: the sum of one split over x and one split over y.
"""

from __future__ import annotations

from kinds import assert_right
from marks import FORMS, placed, plain, put, sync
import numpy as np
import placements
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla_form import form, SHARDY

ENVIRONMENT = SHARDY

_OVER_X, _OVER_Y = ('x', None), ('y', None)
_X_FIRST, _Y_FIRST = ((0, None), (1, None)), ((1, None), (0, None))

_ORDERS = {
    'x': [
        _X_FIRST,
        (None, (1, None)),
        ((None, None), (1, None)),
        ([0, None], [7, None]),
        ((2, None), (5, None)),
        ((0, None), (2**31 - 1, None)),
        ((np.int64(0), None), (np.int32(1), None)),
    ],
    'y': [
        _Y_FIRST,
        ((1, None), None),
        ((1, None), (None, None)),
        ((2**31 - 1, None), (12, None)),
    ],
}


def _sum(mesh, of_x, of_y, form='mark_sharding', is_pending=False):
  """The sum of a tensor over x and one over y; checks all but its placement."""
  a, b = torch.randn(16, 8), torch.randn(16, 8)
  on_x, on_y = a.to('xla'), b.to('xla')
  if is_pending:
    a, b, on_x, on_y = a * 2, b * 3, on_x * 2, on_y * 3
  on_x = FORMS[form](on_x, mesh, _OVER_X, of_x)
  on_y = FORMS[form](on_y, mesh, _OVER_Y, of_y)
  out = on_x + on_y
  sync()
  assert_right(out, a + b, 1e-5)
  assert placed(on_x) == placements.of_spec(mesh, _OVER_X)
  assert placed(on_y) == placements.of_spec(mesh, _OVER_Y)
  return out


@pytest.mark.parametrize(
    'is_pending', [False, True], ids=['parameters', 'activations'])
@pytest.mark.parametrize('winner, of_x, of_y', [
    pytest.param(winner, *order, id=f'{order[0]} and {order[1]}')
    for winner, orders in _ORDERS.items()
    for order in orders
])
def test_lower_goes_first(winner, of_x, of_y, is_pending, mesh):
  """And one that is missing is 0, whatever gaps there are."""
  out = _sum(mesh, of_x, of_y, is_pending=is_pending)
  assert placed(out) == placements.of_spec(mesh, (winner, None))


@pytest.mark.parametrize(
    'is_pending', [False, True], ids=['parameters', 'activations'])
@pytest.mark.parametrize('form', [f for f in FORMS if f != 'mark_sharding'])
def test_swapped_by_any_form(form, is_pending, mesh):
  for order, spec in ((_X_FIRST, _OVER_X), (_Y_FIRST, _OVER_Y)):
    out = _sum(mesh, *order, form, is_pending)
    assert placed(out) == placements.of_spec(mesh, spec)


def test_all_of_the_highest_is_as_none_at_all(mesh):
  without = placed(_sum(mesh, None, None))
  for priority in ((None, None), (0, None)):
    assert placed(_sum(mesh, priority, priority)) == without
  assert placed(_sum(mesh, (4, None), (4, None))) == without


def test_operands_swapped(mesh):
  """It is the priority that counts, not the order of operands."""
  a, b = put(mesh, (8, 8), _OVER_X, (1, None)), put(mesh, (8, 8), _OVER_Y)
  first, second = a + b, b + a
  sync()
  wanted = placements.of_spec(mesh, _OVER_Y)
  assert placed(first) == placed(second) == wanted


def test_rows_against_contraction(mesh):
  """Axis y splits the batch of a product or what is summed up, as said."""
  x, w = torch.randn(16, 32), torch.randn(32, 8)
  for order, hidden, result in ((_X_FIRST, ('y', None), ('y', None)),
                                (_Y_FIRST, (None, 'y'), (None, None))):
    on_x, on_w = x.to('xla'), w.to('xla')
    for t, priority in zip((on_x, on_w), order):
      xs.mark_sharding(t, mesh, _OVER_Y, priority=priority)
    h = torch.tanh(on_x)
    out = h @ on_w
    sync()
    assert_right(out, torch.tanh(x) @ w, 1e-4)
    assert placed(h) == placements.of_spec(mesh, hidden)
    assert placed(out) == placements.of_spec(mesh, result)


def test_table_against_indices(mesh):
  rows, table = torch.randint(32, (64, 16)), torch.randn(32, 16)
  every = ('x', 'y')
  for order, result in (((0, 1), (every, None, None)), ((1, 0), (None, None,
                                                                 every))):
    on_rows, on_table = rows.to('xla'), table.to('xla')
    xs.mark_sharding(on_rows, mesh, (every, None), priority=(order[0], None))
    xs.mark_sharding(on_table, mesh, (None, every), priority=(None, order[1]))
    out = torch.nn.functional.embedding(on_rows, on_table)
    sync()
    assert_right(out, torch.nn.functional.embedding(rows, table), 0)
    assert placed(out) == placements.of_spec(mesh, result)


@pytest.mark.parametrize(
    'order, winner', [(_X_FIRST, 'x'), (_Y_FIRST, 'y')],
    ids=['x first', 'y first'])
def test_the_gradient_gets_the_same_priority(order, winner, mesh):
  of_gradient, of_other = order
  t = torch.randn(8, 8).to('xla').requires_grad_()
  other = put(mesh, (8, 8), _OVER_Y, of_other)
  marked = xs.mark_sharding_with_gradients(
      t, mesh, _OVER_X, priority=of_gradient)
  sync()  # Only the gradient is pending from here on.
  (marked * 2).sum().backward()
  out = t.grad + other
  sync()
  assert_right(t.grad, torch.full((8, 8), 2.), 0)
  assert placed(t.grad) == placements.of_spec(mesh, _OVER_X)
  assert placed(out) == placements.of_spec(mesh, (winner, None))


# Dimensions that nothing splits.


def _beside_one_over_x(mesh, priority):
  """An activation whose columns are split, beside a tensor split over x."""
  x = torch.randn(16, 16)
  u = x.to('xla') * 2
  xs.mark_sharding(u, mesh, (None, 'y'), priority=priority)
  b = put(mesh, (16, 16), _OVER_X, (0, None))
  out = u + b
  sync()
  assert_right(out, x * 2 + b.cpu(), 1e-5)
  assert placed(b) == placements.of_spec(mesh, _OVER_X)
  return placed(u)


def test_a_priority_opens_a_dimension_that_nothing_splits(mesh):
  """An activation may then be split further; without, it stays whole."""
  closed = placements.of_spec(mesh, (None, 'y'))
  assert _beside_one_over_x(mesh, None) == closed
  assert _beside_one_over_x(mesh, (None, 3)) == closed
  opened = placements.of_spec(mesh, ('x', 'y'))
  assert _beside_one_over_x(mesh, (1, None)) == opened
  assert _beside_one_over_x(mesh, (1, 2)) == opened


def test_what_has_data_stays_stored_as_marked_though_open(mesh):
  """Also when the program gets its memory and updates it."""
  w = put(mesh, (16, 16), (None, 'y'), (1, None))
  b = put(mesh, (16, 16), _OVER_X, (0, None))
  expected = w.cpu()
  for _ in range(4):
    out = w.sin() + b
    w.add_(b)
    sync()
    assert_right(out, expected.sin() + b.cpu(), 1e-5)
    assert placed(w) == placements.of_spec(mesh, (None, 'y'))
    expected += b.cpu()
    assert_right(w, expected, 1e-5)


def test_wholly_open(mesh):
  w = put(mesh, (16, 8), (None, None), (2, 2))
  b = put(mesh, (16, 8), _OVER_Y)
  out = w * 2 + b
  sync()
  assert_right(out, w.cpu() * 2 + b.cpu(), 1e-5)
  assert placed(w) == placements.of_spec(mesh, (None, None))
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)


# What else may be marked.


@pytest.mark.parametrize('rows', [13, 7, 3, 1])
@pytest.mark.parametrize(
    'of_x, of_y', [_X_FIRST, _Y_FIRST], ids=['x first', 'y first'])
def test_uneven_dimensions(rows, of_x, of_y, mesh):
  a, b = (put(mesh, (rows, 5), _OVER_X,
              of_x), put(mesh, (rows, 5), _OVER_Y, of_y))
  x, y = a.cpu(), b.cpu()
  for _ in range(2):
    out = (a + b) @ b.t()
    a.mul_(.5)
    sync()
    assert_right(out, (x + y) @ y.t(), 1e-4)
    x = x * .5
    assert_right(a, x, 0)
    assert placed(a) == placements.of_spec(mesh, _OVER_X)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.int64, torch.bool])
def test_other_types(dtype, mesh):
  a, b = (torch.randint(0, 2, (8, 8)).to(dtype) for _ in range(2))
  on_x, on_y = a.to('xla'), b.to('xla')
  xs.mark_sharding(on_x, mesh, _OVER_X, priority=(1, None))
  xs.mark_sharding(on_y, mesh, _OVER_Y, priority=(0, None))
  out = torch.where(on_x == on_y, on_x, on_y)
  sync()
  assert_right(out, torch.where(a == b, a, b), 0)
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)


def test_scalars_and_one_dimension(mesh):
  scalar, row = torch.tensor(2.).to('xla'), torch.arange(8.).to('xla')
  xs.mark_sharding(scalar, mesh, (), priority=())
  xs.mark_sharding(row, mesh, (('x', 'y'),), priority=(3,))
  out = row * scalar
  sync()
  assert_right(out, torch.arange(8.) * 2, 0)
  assert placed(row) == placements.of_spec(mesh, (('x', 'y'),))


@pytest.mark.parametrize(
    'order', [[7, 6, 5, 4, 3, 2, 1, 0], [0, 4, 1, 5, 2, 6, 3, 7],
              [5, 2, 7, 0, 3, 6, 1, 4]],
    ids=str)
@pytest.mark.skipif(
    form() == 'native',
    reason='a mesh that permutes its devices is left to GSPMD there, with a '
    'warning: the importer of XLA takes no device lists')
def test_meshes_whose_devices_are_in_another_order(order, mesh):
  del mesh
  permuted = xs.Mesh(np.array(order), (2, 4), ('x', 'y'))
  for order, spec in ((_X_FIRST, _OVER_X), (_Y_FIRST, _OVER_Y)):
    assert placed(_sum(permuted, *order)) == placements.of_spec(permuted, spec)


def test_marked_anew_the_last_priority_counts(mesh):
  a, b = (put(mesh, (8, 8), _OVER_X,
              (0, None)), put(mesh, (8, 8), _OVER_Y, (1, None)))
  wrapped = xs.mark_sharding(a, mesh, _OVER_X, priority=(2, None))
  assert plain(wrapped) is a
  assert xs.mark_sharding(wrapped, mesh, _OVER_X, priority=(4, None)) is wrapped
  out = a + b
  sync()
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)


def test_cleared(mesh):
  """What is cleared has no say, and can be marked again."""
  a, b = (put(mesh, (8, 8), _OVER_X,
              (0, None)), put(mesh, (8, 8), _OVER_Y, (1, None)))
  x, y = a.cpu(), b.cpu()
  xs.clear_sharding(a)
  assert torch_xla._XLAC._get_xla_sharding_spec(a) == ''
  out = a + b
  sync()
  assert_right(out, x + y, 0)
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)
  xs.mark_sharding(a, mesh, _OVER_X, priority=(2, None))
  out = a + b
  sync()
  assert_right(out, x + y, 0)
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)


def test_wrappers_as_operands(mesh):
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  wrapped = [
      xs.mark_sharding(t.to('xla'), mesh, spec, priority=priority)
      for t, spec, priority in zip((a, b), (_OVER_X, _OVER_Y), _Y_FIRST)
  ]
  out = plain(wrapped[0] + wrapped[1])
  sync()
  assert_right(out, a + b, 1e-6)
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)


@pytest.mark.parametrize(
    'count',
    [
        pytest.param(
            4,
            marks=pytest.mark.environment(
                XLA_PARAMETER_WRAPPING_THREADSHOLD='2')),
        # LLVM takes minutes to optimize what is computed of so many.
        pytest.param(
            3300,
            marks=(pytest.mark.nightly,
                   pytest.mark.environment(
                       XLA_FLAGS='--xla_backend_optimization_level=0'))),
    ])
def test_parameters_that_come_as_one_tuple(count, mesh):
  """The runtime hands them over so from 3200 parameters on."""
  host, device, marked = [], [], []
  for i in range(count):
    host.append(torch.randn(8, 8))
    spec, priority = ((_OVER_X, (1, None)), (_OVER_Y, (0, None)))[i % 2]
    device.append(host[-1].to('xla'))
    xs.mark_sharding(device[-1], mesh, spec, priority=priority)
    marked.append(placements.of_spec(mesh, spec))
  for _ in range(2):
    total = torch.stack(device).sum(0)
    device[0].mul_(.5)
    sync()
    assert_right(total, torch.stack(host).sum(0), 1e-2)
    assert placed(total) == placements.of_spec(mesh, _OVER_Y)
    host[0] = host[0] * .5
    assert_right(device[0], host[0], 0)
    assert [placed(t) for t in device] == marked
