"""What priorities cost: another one a compile, the same none.

And what else lives in the process is none of a program's.
"""

from __future__ import annotations

import gc

from kinds import assert_right
from marks import compiles_of, placed, put, sync
import placements
import pytest
import torch
from torch_xla import _XLAC
import torch_xla.distributed.spmd as xs
from torch_xla_form import SHARDY

ENVIRONMENT = SHARDY

_OVER_X, _OVER_Y = ('x', None), ('y', None)


def _adds(mesh, a, b, orders):
  """The compiles and the placement of the sum, for each order of priorities."""
  expected, seen = a.cpu() + b.cpu(), []
  for of_a, of_b in orders:
    xs.mark_sharding(a, mesh, _OVER_X, priority=of_a)
    xs.mark_sharding(b, mesh, _OVER_Y, priority=of_b)
    sums = []
    count = compiles_of(lambda: sums.append(a + b))
    assert_right(sums[0], expected, 0)
    seen.append((count, placed(sums[0])))
  return seen


def test_a_change_compiles_once_and_takes_effect(mesh):
  a, b = put(mesh, (8, 24), _OVER_X), put(mesh, (8, 24), _OVER_Y)
  sync()
  seen = _adds(mesh, a, b,
               [((p, None), (q, None))
                for p, q in [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1), (5, 2)]])
  x, y = (placements.of_spec(mesh, spec) for spec in (_OVER_X, _OVER_Y))
  assert [placement for _, placement in seen] == [x, x, y, y, x, y]
  # Swapped back, it finds the first program in the cache.
  assert [count for count, _ in seen] == [1, 0, 1, 0, 0, 1]


def test_taken_away(mesh):
  """Marked without a priority, it has none any longer."""
  a, b = put(mesh, (8, 32), _OVER_X), put(mesh, (8, 32), _OVER_Y)
  sync()
  seen = _adds(mesh, a, b, [(None, None), ((1, None), None), (None, None)])
  assert seen[0][1] == seen[2][1] != seen[1][1]
  assert [count for count, _ in seen] == [1, 1, 0]


def test_marking_every_step_anew_costs_nothing(mesh):
  w = put(mesh, (8, 40), _OVER_Y, (1, None))
  counts = []
  for _ in range(5):
    xs.mark_sharding(w, mesh, _OVER_Y, priority=(1, None))
    w.mul_(1.5)
    counts.append(compiles_of(w.sum))
  assert counts == [1, 0, 0, 0, 0]


def test_fresh_inputs_every_step_cost_nothing(mesh):
  w = put(mesh, (8, 48), _OVER_Y, (1, None))
  counts = []
  for _ in range(4):
    x = put(mesh, (16, 8), _OVER_X, (0, None))
    counts.append(compiles_of(lambda: x @ w))
  assert counts == [1, 0, 0, 0]


def _pending(mesh, of_x, of_y):
  x = torch.ones(8, 56).to('xla')
  u, v = x * 2, x * 3
  xs.mark_sharding(u, mesh, _OVER_X, priority=of_x)
  xs.mark_sharding(v, mesh, _OVER_Y, priority=of_y)
  return u + v


def test_hashes_of_pending_graphs(mesh):
  """Marks inside a graph are part of it: those of equal graphs are equal."""
  orders = [((0, None), (1, None)), ((1, None), (0, None)),
            ((0, None), (2, None)), ((0, 1), (1, None)), (None, None)]
  of = lambda order: _XLAC._get_graph_hash([_pending(mesh, *order)])
  hashes = [of(order) for order in orders]
  assert len(set(hashes)) == len(orders)
  assert [of(order) for order in orders] == hashes


# What else there is.


def test_what_else_is_marked_costs_nothing_and_changes_nothing(mesh):
  a, b = put(mesh, (8, 64), _OVER_X, (1, None)), put(mesh, (8, 64), _OVER_Y)
  others, counts, shardings = [], [], []
  for priority in (None, (5, 7), (0, 0), (1, None)):
    sums = []
    counts.append(compiles_of(lambda: sums.append(a + b)))
    shardings.append(placed(sums[0]))
    others.append(put(mesh, (8, 8), (('x', 'y'), None), priority))
  assert counts == [1, 0, 0, 0]
  assert shardings == [placements.of_spec(mesh, _OVER_Y)] * 4


def test_what_dies_costs_nothing_and_changes_nothing(mesh):
  """Whenever garbage is collected."""
  w, counts, shardings = put(mesh, (8, 72), _OVER_Y, (0, None)), [], []
  gc.disable()
  try:
    for step in range(6):
      x = put(mesh, (8, 72), _OVER_X, (1, None))
      cycle = [x]
      cycle.append(cycle)
      sums = [x + w]
      counts.append(compiles_of(lambda: sums))
      shardings.append(placed(sums[0]))
      del x, cycle
      if step in (2, 4):
        gc.collect()
  finally:
    gc.enable()
  assert counts == [1, 0, 0, 0, 0, 0]
  assert shardings == [placements.of_spec(mesh, _OVER_Y)] * 6


def test_operands_that_die_before_the_sync(mesh):
  """The program still starts from their data, and goes by what was said."""
  a, b = (put(mesh, (8, 80), _OVER_X,
              (1, None)), put(mesh, (8, 80), _OVER_Y, (0, None)))
  expected = a.cpu() + b.cpu()
  out = a + b
  del a, b
  gc.collect()
  sync()
  assert_right(out, expected, 0)
  assert placed(out) == placements.of_spec(mesh, _OVER_Y)


@pytest.mark.parametrize('look', [
    lambda t: _XLAC._get_graph_hash([t]),
    lambda t: _XLAC._get_xla_tensors_hlo([t]),
    lambda t: _XLAC._get_xla_tensors_text([t]),
    lambda t: _XLAC._get_xla_sharding_specs([t]),
], ids=['hash', 'hlo', 'text', 'spec'])  # yapf: disable
def test_looking_at_a_pending_graph_changes_nothing(look, mesh):
  a, b = (put(mesh, (8, 88), _OVER_X,
              (1, None)), put(mesh, (8, 88), _OVER_Y, (0, None)))
  compiles_of(lambda: a + b)
  sums = [a + b]
  look(sums[0])
  assert compiles_of(lambda: sums) == 0
  assert placed(sums[0]) == placements.of_spec(mesh, _OVER_Y)
