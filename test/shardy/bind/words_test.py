"""`propagate=` and `unreduced=`, from the mark to the numbers."""

from collections.abc import Callable
import logging

import numpy as np
import pytest
from sections import SHARDY
import torch
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.annotate.constraint_words import (PropagateError,
                                                        UnreducedError)
from torch_xla.shardy.bind import binder
from torch_xla.shardy.hlo.compile_options import Partitioner

ENVIRONMENT = SHARDY
_ROWS = '{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}'
_BOTH = '{devices=[2,4]0,1,2,3,4,5,6,7}'


def _stored(t: torch.Tensor) -> str:
  return torch_xla._XLAC._get_xla_sharding_spec(t)


def _put(t: torch.Tensor, mesh: xs.Mesh, spec: tuple, **words) -> torch.Tensor:
  t = t.to('xla')
  xs.mark_sharding(t, mesh, spec, **words)
  return t


def _compiles() -> int:
  made = met.metric_data('CompileTime')
  return int(made[0]) if made else 0


def _marks(way: str, mesh: xs.Mesh,
           **words) -> Callable[[torch.Tensor], torch.Tensor]:
  """Marks what two tensors give, where it is made lazily or in a graph."""
  if way == 'lazily':
    return lambda t: xs.mark_sharding(t, mesh,
                                      ('x', None), **words).global_tensor
  texts = {word: repr(said) for word, said in words.items()}
  return lambda t: torch.ops.xla.dynamo_mark_sharding(t, list(range(
      8)), [2, 4], "('x', 'y')", "('x', None)", **texts)


_WAYS = pytest.mark.parametrize(
    'way',
    ['lazily', pytest.param('compiled', marks=pytest.mark.slow)])


@_WAYS
def test_open_and_closed_dimensions(way, mesh):
  """Only what is open is split further, and each word is a program."""
  torch.manual_seed(0)
  a, b = torch.randn(8, 16), torch.randn(8, 16)
  xa, xb = (_put(t, mesh, (None, 'y')) for t in (a, b))
  torch_xla.sync()
  seen = []
  for propagate in (None, (False, True), True, (True, False), (False, True)):
    mark = _marks(way, mesh, propagate=propagate)

    def add(u, v, mark=mark):
      return mark(u + v) * 2

    if way == 'compiled':
      torch._dynamo.reset()
      add = torch.compile(add, backend='openxla')
    before = _compiles()
    out = add(xa, xb)
    torch_xla.sync()
    seen.append((_stored(out), _compiles() - before))
    torch.testing.assert_close(out.cpu(), (a + b) * 2)
  assert [stored for stored, _ in seen] == [_ROWS, _BOTH, _BOTH, _ROWS, _BOTH]
  # The last is the second again: it is not compiled once more.
  assert [count for _, count in seen] == [1, 1, 1, 1, 0]


def test_what_is_said_of_an_argument_is_part_of_a_graph(mesh):
  """It stays stored as it is marked, and a compiled graph is traced anew."""
  torch.manual_seed(0)
  a, b = torch.randn(8, 16), torch.randn(8, 16)
  compiled = torch.compile(torch.add, backend='openxla')
  seen = []
  for propagate in (None, True, None):
    xa = _put(a, mesh, ('x', None), propagate=propagate)
    xb = _put(b, mesh, (None, 'y'))
    torch_xla.sync()
    with torch_xla.shardy.record() as programs:
      outs = [compiled(xa, xb) for _ in range(2)]
    told = {
        t.sdy for p in programs for t in p.tensors if t.spec == "('x', None)"
    }
    seen.append(told)
    assert _stored(xa) == _ROWS
    for out in outs:
      torch.testing.assert_close(out.cpu(), a + b)
  # The last is the first again, which is known.
  assert seen == [{'#sdy.sharding<@mesh, [{"x"}, {}]>'},
                  {'#sdy.sharding<@mesh, [{"x", ?}, {?}]>'},
                  set()]


def test_an_uneven_dimension_that_is_open(mesh):
  a = torch.arange(9. * 16).reshape(9, 16)
  xa = _put(a, mesh, ('x', None), propagate=True)
  xb = _put(torch.ones(9, 16), mesh, (None, 'y'))
  out = xa + xb
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  program, = programs
  assert program.partitioner is Partitioner.SHARDY
  torch.testing.assert_close(out.cpu(), a + 1)
  torch.testing.assert_close(xa.cpu(), a)


def test_gradients(mesh):
  """A gradient is as open as what it is of."""
  a = torch.ones(8, 16).to('xla').requires_grad_()
  weight = _put(torch.ones(8, 16), mesh, (None, 'y'))
  torch_xla.sync()
  y = xs.xla_sharding.mark_sharding_with_gradients(
      a * weight, mesh, ('x', None), propagate=(False, True))
  (y * weight).sum().backward()
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  told = [t.sdy for t in programs[0].tensors if t.spec == "('x', None)"]
  assert len(told) == 2 and all('[{"x"}, {?}]' in text for text in told)
  assert torch.equal(a.grad.cpu(), torch.ones(8, 16))


@_WAYS
def test_a_part_of_a_sum(way, mesh):
  """Whatever its operands are, and used or given, it is right, and told."""
  torch.manual_seed(0)
  a, b = torch.randn(8, 16), torch.randn(16, 8)
  mark = _marks(way, mesh, unreduced=('y',))

  def step(u, v):
    c = mark(u @ v)
    return torch.relu(c) + u.sum(), c

  wanted = torch.relu(a @ b) + a.sum(), a @ b
  if way == 'compiled':
    step = torch.compile(step, backend='openxla')
  for spec in ((None, 'y'), ('y', None)):
    xa, xb = _put(a, mesh, spec), _put(b, mesh, (None, None))
    torch_xla.sync()
    with torch_xla.shardy.record() as programs:
      made = step(xa, xb)
      torch_xla.sync()
    said = [p for p in programs if any('unreduced' in t.sdy for t in p.tensors)]
    assert [p.partitioner for p in said] == [Partitioner.SHARDY], spec
    assert '  [{"x"}, {}], unreduced={"y"}  ' in str(said[0])
    for t, wants in zip(made, wanted):
      torch.testing.assert_close(t.cpu(), wants, rtol=1e-4, atol=1e-4)
    # What is stored is whole, and is used as such.
    if way == 'lazily':
      assert not binder.annotation_of(made[1]).unreduced
    torch.testing.assert_close(
        (made[1] * 2).cpu(), wanted[1] * 2, rtol=1e-4, atol=1e-4)


def test_a_part_of_no_sum(mesh, caplog):
  """XLA would add four threes up: GSPMD partitions, and a warning says why."""
  a = torch.zeros(8, 16).to('xla')
  torch_xla.sync()
  c = torch.exp(a) + 2
  xs.mark_sharding(c, mesh, ('x', None), unreduced=('y',))
  out = c + 1
  with torch_xla.shardy.record() as programs, caplog.at_level(logging.WARNING):
    torch_xla.sync()
  assert programs[0].partitioner is Partitioner.GSPMD
  assert "axes ('y',) as unreduced: the value is no product" in caplog.text
  assert 'mark the product or the sum itself' in caplog.text
  assert torch.equal(out.cpu(), torch.full((8, 16), 4.))


def test_what_is_refused(mesh):
  t = torch.ones(8, 16).to('xla')
  with pytest.raises(PropagateError, match='3 entries for a tensor of rank 2'):
    xs.mark_sharding(t, mesh, ('x', None), propagate=(True, True, True))
  with pytest.raises(UnreducedError, match='on a tensor that has data'):
    xs.mark_sharding(t, mesh, ('x', None), unreduced=('y',))
  assert not _stored(t)


def test_what_is_said_of_a_layer_behind_a_compiled_function(mesh):
  """Each step tells it, in the program that is synced within backward."""
  torch.manual_seed(0)
  body, head = (torch.nn.Linear(8, 8).to('xla') for _ in range(2))
  xs.mark_sharding(
      head.weight, mesh, ('x', None), priority=(1, None), propagate=True)
  x = torch.ones(8, 8).to('xla')
  torch_xla.sync()
  compiled = torch.compile(body, backend='openxla')
  told = []
  for _ in range(2):
    body.zero_grad()
    head.zero_grad()
    with torch_xla.shardy.record() as programs:
      head(compiled(x)).square().sum().backward()
      torch_xla.sync()
    told += [t.sdy for p in programs for t in p.tensors if '"x"' in t.sdy]
  # The second step runs the first one's programs.
  assert told == ['#sdy.sharding<@mesh, [{"x", ?}p1, {?}]>']


@pytest.mark.environment(XLA_USE_SHARDY='0')
def test_with_shardy_off(caplog):
  """Neither has an effect, and a warning says so of those that were said."""
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  t = torch.ones(8, 16).to('xla')
  with caplog.at_level(logging.WARNING):
    xs.mark_sharding(t, mesh, ('x', None), propagate=True, unreduced=('y',))
    xs.mark_sharding(t, mesh, ('x', None), propagate=True, unreduced=('y',))
  said = 'mark_sharding(propagate=..., unreduced=...) has no effect'
  assert caplog.text.count(said) == 1
  assert _stored(t) == _ROWS
  torch.testing.assert_close((t + 1).cpu(), torch.full((8, 16), 2.))
