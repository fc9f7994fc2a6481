"""Programs that Shardy must not have, or makes otherwise than is stored.

Each runs for real, on eight CPU devices, against plain torch.
"""

import logging

import environments
import numpy as np
import pytest
from shards import sharded
import torch
import torch_xla
from torch_xla.distributed.spmd import XLAShardedTensor
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.hlo.compile_options import Partitioner

ENVIRONMENT = environments.SHARDY
pytestmark = pytest.mark.usefixtures('spmd')
close = torch.testing.assert_close


def _run(compute, *tensors):
  """The result and the record of the one program that makes it."""
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    result = compute(*tensors)
    torch_xla.sync(wait=True)
  program, = programs
  return result, program


def _check_fell_back(program, reason: str) -> None:
  assert program.partitioner is Partitioner.GSPMD
  assert reason in program.note
  assert program.note.endswith(': GSPMD partitions')
  assert program.error is None
  assert b'torch_xla.shardy' not in program.handed_on
  assert b'xla.sdy' not in program.handed_on
  assert program.shardings.v1 == 0 or 'is no reshaped' in str(
      program.shardings.unconverted)


def test_what_runs_with_shardy_is_noted_as_such(mesh):
  """The other tests here mean little if nothing ever ran with Shardy."""
  a, b = torch.randn(8, 16), torch.randn(16, 8)
  y, program = _run(torch.matmul, sharded(a, mesh, ('x', None), (0, None)),
                    sharded(b, mesh, (None, 'y'), (None, 1)))
  assert program.partitioner is Partitioner.SHARDY and not program.note
  assert b'xla.sdy.meshes' in program.handed_on
  assert b'torch_xla.shardy' not in program.handed_on
  close(y.cpu(), a @ b)


@pytest.mark.parametrize('ids', [(7, 1, 2, 3, 4, 5, 6, 0),
                                 (3, 0, 6, 1, 7, 4, 2, 5)])
def test_meshes_of_different_device_orders(mesh, ids):
  """What was asked for, what is in use, and why is in the record."""
  other = xs.Mesh(np.array(ids), (4, 2), ('a', 'b'))
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  y, program = _run(torch.add, sharded(a, mesh, ('x', 'y'), (0, 1)),
                    sharded(b, other, ('a', None)))
  _check_fell_back(program, 'Shardy cannot be told of the sharding')
  close(y.cpu(), a + b)
  text = str(program)
  assert '  gspmd  8 partitions  ' in text and f'\n  note: {program.note}' in text
  tensor, = [t for t in program.tensors if t.priority]
  assert (tensor.spec, str(tensor.local_shape)) == ("('x', 'y')", 'f32[4,2]')


@pytest.mark.environment()  # Nothing was said yet.
def test_it_is_said_once(mesh, caplog):
  """Two programs of one kind: one warning, two notes."""
  other = xs.Mesh(np.array([7, 1, 2, 3, 4, 5, 6, 0]), (4, 2), ('a', 'b'))
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  x = sharded(a, mesh, ('x', None), (0, None))
  y = sharded(b, other, ('a', None), (1, None))
  torch_xla.sync(wait=True)
  with caplog.at_level(logging.WARNING):
    for compute in torch.add, torch.mul:
      z, program = _run(compute, x, y)
      assert 'cannot be told of the sharding' in program.note
      close(z.cpu(), compute(a, b))
  warnings = [
      r.getMessage()
      for r in caplog.records
      if r.name == 'torch_xla.shardy.compile.compiler'
  ]
  assert len(warnings) == 1, warnings
  assert 'official wheel' in warnings[0]


@pytest.mark.parametrize('shape, spec', [
    ((), ()),
    ((0, 8), ('x', 'y')),
    ((8, 0), (None, 'x')),
    ((1,), (None,)),
    ((8, 16), (('x', 'y'), None)),
    ((2, 4, 2, 8, 2), (None, 'y', None, 'x', None)),
], ids=str)  # yapf: disable
def test_shapes(mesh, shape, spec):
  """Even ones, and of no elements; uneven ones and types: `uneven_test`."""
  a, b = torch.randint(0, 2, shape), torch.randint(0, 2, shape)
  priority = tuple(range(len(shape))[::-1])
  x, y = sharded(a, mesh, spec, priority), sharded(b, mesh, spec)
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    z = torch.where(x == y, x, y).flip(0) if shape else x * y
    xs.mark_sharding(z, mesh, spec, priority=priority)
    torch_xla.sync(wait=True)
  assert all(p.error is None for p in programs)
  close(z.cpu(), torch.where(a == b, a, b).flip(0) if shape else a * b)
  close(x.cpu(), a)


def test_programs_of_torch_xlas_own(mesh):
  """Reads, resharding, and items, before a sync and after."""
  a = torch.randn(8, 8)
  x = sharded(a, mesh, ('x', 'y'), (0, 1))
  assert x.sum().item() == pytest.approx(a.sum().item(), abs=1e-4)
  close(x.cpu(), a)
  torch_xla.sync(wait=True)
  close((x[2:5] * 2).cpu(), a[2:5] * 2)
  xs.clear_sharding(x)
  xs.mark_sharding(x, mesh, (None, 'x'), priority=(None, 3))
  close(x.cpu(), a)
  y, program = _run(lambda: x + 1)
  assert program.partitioner is Partitioner.SHARDY
  close(y.cpu(), a + 1)


def test_result_with_an_open_dimension(mesh):
  """Shardy may split it further; torch_xla knows how it is stored."""
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  x = sharded(a, mesh, ('x', None), (0, 1))
  y = sharded(b, mesh, (None, 'y'), (None, 0))

  def compute():
    z = x * y
    xs.mark_sharding(z, mesh, ('x', None), priority=(0, 1))
    return z

  z, program = _run(compute)
  assert program.partitioner is Partitioner.SHARDY
  close(z.cpu(), a * b)
  for shard in XLAShardedTensor(z).local_shards:
    close(shard.unpadded_data, (a * b)[tuple(shard.indices)])
  z.add_(1)
  torch_xla.sync(wait=True)
  close(z.cpu(), a * b + 1)


def test_backend_that_refuses_the_shardy_program(mesh, wrap):
  """GSPMD compiles it instead, and the backend's words are in the note."""
  tried = []

  def refuse(compilation, rest):
    hand_on = compilation.compile

    def compile_(program, options, program_format=None):
      tried.append(b'xla.sdy' in program)
      # No backend can read this one.
      hand_on(b'\xff' if tried[-1] else program, options)

    compilation.compile = compile_
    rest(compilation)

  a = torch.randn(8, 8)
  x = sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  undo = wrap(refuse)
  y, program = _run(torch.tanh, x)
  undo()
  assert tried == [True, False]
  _check_fell_back(program, 'the backend refused the program for Shardy')
  close(y.cpu(), a.tanh())


def test_backend_that_does_not_tell_what_it_made(mesh, wrap):
  """Then nothing can be checked, so Shardy's program is not used."""

  def keep_quiet(compilation, rest):
    made = compilation.compiled_program
    compilation.compiled_program = lambda: (made()[0], 'unheard-of')
    rest(compilation)

  a = torch.randn(8, 8)
  x = sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  wrap(keep_quiet)
  y, program = _run(torch.atan, x)
  _check_fell_back(program, 'the backend does not report')
  assert program.collectives is None
  close(y.cpu(), a.atan())


@pytest.mark.parametrize(
    'old, new, message',
    [
        (b'"tensors":', b'"tensorZ":', 'AnnotationTextError: damaged'),
        # Reads well, and is over the devices of another system.
        (b'"meshes":[[[2,4]', b'"meshes":[[[9,4]', ''),
    ])
def test_damaged_annotations(mesh, wrap, old, new, message):
  """An error of that compile, or GSPMD; never a crash or a wrong number."""
  hit = []

  def damage(compilation, rest):
    hit.append(old in compilation.program)
    compilation.program = compilation.program.replace(old, new)
    rest(compilation)

  a = torch.randn(8, 24)
  x = sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  undo = wrap(damage)
  with torch_xla.shardy.record() as programs:
    y = x.cos() if message else x.sin()
    try:
      torch_xla.sync(wait=True)
      raised = ''
    except Exception as e:
      raised = str(e)
  undo()
  assert any(hit)
  if message:
    assert 'torch_xla.shardy could not compile' in raised
    assert message in raised
  else:
    assert not raised
    program, = programs
    assert program.partitioner is Partitioner.GSPMD and program.note
    close(y.cpu(), a.sin())


# Last: what fails is kept alive, and bound to all programs after it.
def test_clear_sharding_of_one_of_two(mesh):
  a, b = torch.randn(4, 8), torch.randn(4, 8)
  x = sharded(a, mesh, ('x', 'y'), (0, 1))
  y = sharded(b, mesh, ('x', 'y'), (0, 1))
  torch_xla.sync(wait=True)
  xs.clear_sharding(y)
  close((x + y).cpu(), a + b)
