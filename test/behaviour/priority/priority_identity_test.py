"""A program is found again by which tensor was said what.

The tensors have one shape and one placement, so nothing but that tells them
apart in a graph.
"""

from __future__ import annotations

import itertools

from kinds import assert_right
from marks import compiles_of, placed, put, sync
import placements
import torch
import torch_xla.distributed.spmd as xs
from torch_xla_form import SHARDY

ENVIRONMENT = SHARDY

_SPEC = ('y', None)
_FIRST, _LAST = (0, None), (1, None)
_ORDERS = [(_FIRST, _LAST), (_LAST, _FIRST)]


def _outer(a, b):
  """A sum of products of which either's dimension over y may stay split."""
  return a[:, None, :] * b[None, :, :]


def _winners(mesh, rounds, compute=_outer):
  """The compiles, and whose split won, for each of the tensors of `rounds`."""
  a, b = (
      placements.of_spec(mesh, spec)
      for spec in (('y', None, None), (None, 'y', None)))
  seen = []
  for tensors in rounds:
    outs = []
    compiled = compiles_of(lambda t=tensors: outs.append(compute(*t)))
    seen.append((compiled, {
        str(a): 'a',
        str(b): 'b'
    }.get(str(placed(outs[0])))))
    assert_right(outs[0], compute(*(t.cpu() for t in tensors)), 0)
  return seen


def _pairs(mesh, width, orders=_ORDERS * 2):
  for order in orders:
    pair = [put(mesh, (16, width), _SPEC, priority) for priority in order]
    sync()
    yield pair


def test_swapped_priorities(mesh):
  seen = _winners(mesh, _pairs(mesh, 8))
  assert seen == [(1, 'a'), (1, 'b'), (0, 'a'), (0, 'b')]


def test_swapped_in_a_compiled_function(mesh):
  compute = torch.compile(_outer, backend='openxla')
  seen = []
  for pair in _pairs(mesh, 16):
    out = compute(*pair)
    sync()
    seen.append(placed(out))
    assert_right(out, _outer(*(t.cpu() for t in pair)), 0)
  assert seen[0] == seen[2] != seen[1] == seen[3]


def test_swapped_in_the_graph(mesh):
  """Marked alike, used in another order."""
  pairs = _pairs(mesh, 24, _ORDERS[:1] * 4)
  rounds = [
      pair if is_straight else pair[::-1]
      for pair, is_straight in zip(pairs, itertools.cycle([True, False]))
  ]
  seen = _winners(mesh, rounds)
  assert seen == [(1, 'a'), (1, 'b'), (0, 'a'), (0, 'b')]


def test_swapped_between_updates(mesh):
  """Weights that each step updates, as an optimizer does."""
  a, b = put(mesh, (16, 32), _SPEC), put(mesh, (16, 32), _SPEC)
  sync()

  def step(of_a, of_b):
    for t, priority in ((a, of_a), (b, of_b)):
      xs.mark_sharding(t, mesh, _SPEC, priority=priority)
    out = _outer(a, b)
    a.add_(1)
    b.add_(1)
    return out

  seen = []
  for order in [*_ORDERS, *_ORDERS, _ORDERS[1]]:
    outs = []
    compiled = compiles_of(lambda o=order: outs.append(step(*o)))
    seen.append((compiled, placed(outs[0])))
    assert placed(a) == placements.of_spec(mesh, _SPEC)
  assert [compiled for compiled, _ in seen] == [1, 1, 0, 0, 0]
  assert seen[0][1] == seen[2][1] != seen[1][1] == seen[3][1] == seen[4][1]


def test_beside_one_that_nobody_marked(mesh):
  """A result that lies as the tensor it was made of, which is marked."""
  rounds = []
  for is_straight in (True, False, True):
    marked = put(mesh, (16, 40), _SPEC, _LAST)
    unmarked = marked * 1
    sync()
    pair = marked, unmarked
    rounds.append(pair if is_straight else pair[::-1])
  assert _winners(mesh, rounds) == [(1, 'a'), (1, 'b'), (0, 'a')]


def test_of_aliases(mesh):
  """What is said of an alias last is said of the data."""
  seen = []
  for place in (0, 1, 0):
    pair = [put(mesh, (16, 48), _SPEC, _FIRST) for _ in range(2)]
    alias = pair[place].detach()
    xs.mark_sharding(alias, mesh, _SPEC, priority=_LAST)
    sync()
    seen += _winners(mesh, [pair])
  assert seen == [(1, 'b'), (1, 'a'), (0, 'b')]


def test_of_aliases_of_what_is_used(mesh):
  """All in all the same is said, of other data."""
  seen = []
  for of_b, place, of_alias in [(2, 0, 1), (1, 1, 2)] * 2:
    pair = [put(mesh, (16, 56), _SPEC, (p, None)) for p in (0, of_b)]
    sync()
    for t in pair:
      t.add_(1)
    sync()
    alias = pair[place].detach()

    def step(pair=pair, alias=alias, of_alias=of_alias):
      out = _outer(*pair)
      xs.mark_sharding(alias, mesh, _SPEC, priority=(of_alias, None))
      return out

    seen.append(compiles_of(step))
  assert seen == [1, 1, 0, 0]
