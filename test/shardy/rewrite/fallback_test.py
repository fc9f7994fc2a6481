"""Programs that Shardy must not have, or makes otherwise than is stored.

Each runs for real, on eight CPU devices, against plain torch.
"""

import logging
import random

import environments
import numpy as np
import pytest
from shards import check_shards
import torch
import torch_xla
from torch_xla.distributed.spmd import XLAShardedTensor
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.hlo.compile_options import Partitioner

ENVIRONMENT = environments.SHARDY
pytestmark = pytest.mark.usefixtures('spmd')
close = torch.testing.assert_close


def _sharded(t: torch.Tensor, mesh: xs.Mesh, spec, priority=None):
  on_device = t.to('xla')
  xs.mark_sharding(on_device, mesh, spec, priority=priority)
  return on_device


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
  y, program = _run(torch.matmul, _sharded(a, mesh, ('x', None), (0, None)),
                    _sharded(b, mesh, (None, 'y'), (None, 1)))
  assert program.partitioner is Partitioner.SHARDY and not program.note
  assert b'xla.sdy.meshes' in program.handed_on
  assert b'torch_xla.shardy' not in program.handed_on
  close(y.cpu(), a @ b)


@pytest.mark.parametrize('ids', [(7, 1, 2, 3, 4, 5, 6, 0),
                                 (3, 0, 6, 1, 7, 4, 2, 5)])
def test_meshes_of_different_device_orders(mesh, ids):
  other = xs.Mesh(np.array(ids), (4, 2), ('a', 'b'))
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  y, program = _run(torch.add, _sharded(a, mesh, ('x', 'y'), (0, 1)),
                    _sharded(b, other, ('a', None), (2, None)))
  _check_fell_back(program, 'Shardy cannot be told of the sharding')
  close(y.cpu(), a + b)


@pytest.mark.environment()  # Nothing was said yet.
def test_it_is_said_once(mesh, caplog):
  """Two programs of one kind: one warning, two notes."""
  other = xs.Mesh(np.array([7, 1, 2, 3, 4, 5, 6, 0]), (4, 2), ('a', 'b'))
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  x = _sharded(a, mesh, ('x', None), (0, None))
  y = _sharded(b, other, ('a', None), (1, None))
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


@pytest.mark.parametrize(
    'shape, spec, dtype', [
        ((), (), torch.float32),
        ((0, 8), ('x', 'y'), torch.float32),
        ((8, 0), (None, 'x'), torch.int32),
        ((1,), (None,), torch.float32),
        ((2,), ('x',), torch.float32),
        ((8, 16), ('x', 'y'), torch.bfloat16),
        ((8, 16), ('y', None), torch.int64),
        ((8, 16), (('x', 'y'), None), torch.bool),
        ((2, 4, 2, 8, 2), (None, 'y', None, 'x', None), torch.float32),
        ((2, 4, 8, 4, 2), ('x', None, 'y', None, None), torch.int8),
        ((3, 5, 1, 7, 2), ('x', 'y', None, None, None), torch.float64),
    ],
    ids=str)
def test_shapes_and_types(mesh, shape, spec, dtype):
  a = torch.randint(0, 2, shape).to(dtype)
  b = torch.randint(0, 2, shape).to(dtype)
  priority = tuple(range(len(shape))[::-1])
  x, y = _sharded(a, mesh, spec, priority), _sharded(b, mesh, spec)
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    z = torch.where(x == y, x, y).flip(0) if shape else x * y
    xs.mark_sharding(z, mesh, spec, priority=priority)
    torch_xla.sync(wait=True)
  assert all(p.error is None for p in programs)
  expected = torch.where(a == b, a, b).flip(0) if shape else a * b
  close(z.cpu(), expected)
  close(x.cpu(), a)
  if shape and 0 not in shape and None not in spec:
    check_shards(z, expected, mesh, spec)


def test_programs_of_torch_xlas_own(mesh):
  """Reads, resharding, and items, before a sync and after."""
  a = torch.randn(8, 8)
  x = _sharded(a, mesh, ('x', 'y'), (0, 1))
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


@pytest.mark.parametrize('shape, spec', [((8, 8), ('x', 'y')),
                                         ((7, 8), ('y', None))])
def test_updates_in_place(mesh, shape, spec):
  """Five steps; the tensor keeps its layout, and its tiles on each device."""
  a, g = torch.randn(shape), torch.randn(shape)
  x, d = _sharded(a, mesh, spec, (1, 0)), _sharded(g, mesh, (None, 'y'),
                                                   (None, 2))
  placed = torch_xla._XLAC._get_xla_sharding_spec(x)
  torch_xla.sync(wait=True)
  for _ in range(5):
    x.mul_(0.5).add_(d, alpha=0.1)
    torch_xla.sync(wait=True)
    a.mul_(0.5).add_(g, alpha=0.1)
    assert torch_xla._XLAC._get_xla_sharding_spec(x) == placed
  close(x.cpu(), a)
  check_shards(x, a, mesh, spec)


@pytest.mark.parametrize('names', [('data parallel', 'é"\\'),
                                   ('}]>', '@mesh'), None])
def test_odd_axis_names(names):
  """They stay out of Shardy's text, and are in the record."""
  mesh = xs.Mesh(np.arange(8), (2, 4), names)
  a = torch.randn(8, 48)
  x = _sharded(a, mesh, (1, 0), (1, 0))
  torch_xla.sync(wait=True)
  z, program = _run(lambda: x.clone().sigmoid() + len(names or ()))
  assert program.partitioner is Partitioner.SHARDY
  tensor, = [t for t in program.tensors if str(t.shape) == 'f32[8,48]']
  assert tensor.sdy == '#sdy.sharding<@mesh, [{"axis_1"}p1, {"axis_0"}p0]>'
  if names:
    assert repr(names[1]) in tensor.spec
  close(z.cpu(), a.sigmoid() + len(names or ()))


def test_result_with_an_open_dimension(mesh):
  """Shardy may split it further; torch_xla knows how it is stored."""
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  x = _sharded(a, mesh, ('x', None), (0, 1))
  y = _sharded(b, mesh, (None, 'y'), (None, 0))

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
  x = _sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  undo = wrap(refuse)
  y, program = _run(torch.tanh, x)
  undo()
  assert tried == [True, False]
  _check_fell_back(program, 'the backend refused the program for Shardy')
  close(y.cpu(), a.tanh())


def test_backend_that_refuses_both(mesh, wrap):

  def refuse(compilation, rest):
    hand_on = compilation.compile
    compilation.compile = lambda program, options, _: hand_on(b'\xff', options)
    rest(compilation)

  a = torch.randn(8, 8)
  x = _sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  undo = wrap(refuse)
  with torch_xla.shardy.record() as programs:
    with pytest.raises((RuntimeError, ValueError)):
      x.sinh().cpu()
  undo()
  assert programs[-1].error
  # The tensor and the process are none the worse.
  close(x.exp().cpu(), a.exp())


def test_backend_that_does_not_tell_what_it_made(mesh, wrap):
  """Then nothing can be checked, so Shardy's program is not used."""

  def keep_quiet(compilation, rest):
    made = compilation.compiled_program
    compilation.compiled_program = lambda: (made()[0], 'unheard-of')
    rest(compilation)

  a = torch.randn(8, 8)
  x = _sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  wrap(keep_quiet)
  y, program = _run(torch.atan, x)
  _check_fell_back(program, 'the backend does not report')
  assert program.collectives is None
  close(y.cpu(), a.atan())


@pytest.mark.parametrize(
    'old, new, compute, message',
    [
        (b'"tensors":', b'"tensorZ":', torch.sin,
         'AnnotationTextError: damaged'),
        (b'[0,[[0],[]]', b'[7,[[0],[]]', torch.tan,
         'AnnotationTextError: damaged'),
        (b'[0,[[0],[]]', b'[0,[[8],[]]', torch.abs, 'names axis 8 of a mesh'),
        (b'[0,[[0],[]],[0,', b'[0,[[0],[]],[x,', torch.neg,
         'AnnotationTextError: damaged'),
        # Reads well, and is over the devices of another system.
        (b'"meshes":[[[2,4]', b'"meshes":[[[9,4]', torch.cos, ''),
    ])
def test_damaged_annotations(mesh, wrap, old, new, compute, message):
  """An error of that compile, or GSPMD; never a crash or a wrong number."""
  hit = []

  def damage(compilation, rest):
    hit.append(old in compilation.program)
    compilation.program = compilation.program.replace(old, new)
    rest(compilation)

  a = torch.randn(8, 24)
  x = _sharded(a, mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  undo = wrap(damage)
  with torch_xla.shardy.record() as programs:
    y = compute(x)
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
    close(y.cpu(), compute(a))


def _random_spec(rng: random.Random, mesh: xs.Mesh, rank: int):
  axes = list(mesh.axis_names)
  rng.shuffle(axes)
  spec = []
  for _ in range(rank):
    if not axes or rng.random() < 0.4:
      spec.append(None)
    elif len(axes) > 1 and rng.random() < 0.2:
      spec.append((axes.pop(), axes.pop()))
    else:
      spec.append(axes.pop())
  return tuple(spec)


def _random_priority(rng: random.Random, rank: int):
  if rng.random() < 0.4:
    return None
  return tuple(rng.choice([None, 0, 1, 2, 5]) for _ in range(rank))


def _random_step(rng, pool, meshes, marked) -> None:
  """Does the same, once, to a tensor on the host and to one on devices."""
  (a, x), (b, y) = rng.choice(pool), rng.choice(pool)
  kind = rng.choice(('add', 'matmul', 'mean', 'cat', 'update', 'flip', 'take',
                     'softmax', 'flat', 'mark', 'mark'))
  if kind in ('add', 'matmul', 'cat') and a.shape != b.shape:
    kind = 'flip'
  dim = rng.randrange(a.dim())
  if kind == 'add':
    pool.append((a + b, x + y))
  elif kind == 'matmul' and a.dim() > 1:
    pool.append(
        ((a @ b.transpose(-1, -2)).tanh(), (x @ y.transpose(-1, -2)).tanh()))
  elif kind == 'mean' and a.dim() > 1:
    pool.append((a.mean(dim), x.mean(dim)))
  elif kind == 'cat':
    pool.append((torch.cat([a, b], dim), torch.cat([x, y], dim)))
  elif kind == 'update':
    a.mul_(0.5).add_(1)
    x.mul_(0.5).add_(1)
  elif kind == 'flip':
    pool.append((a.flip(dim), x.flip(dim)))
  elif kind == 'take':
    index = torch.randint(0, a.shape[dim], (5,))
    pool.append((a.index_select(dim,
                                index), x.index_select(dim, index.to('xla'))))
  elif kind == 'softmax':
    pool.append((a.softmax(-1), x.softmax(-1)))
  elif kind == 'flat':
    pool.append((a.reshape(-1).cumsum(0), x.reshape(-1).cumsum(0)))
  elif kind == 'mark':
    mesh = rng.choice(meshes)
    spec = _random_spec(rng, mesh, a.dim())
    priority = _random_priority(rng, a.dim())
    a, x = a * 1, x * 1
    xs.mark_sharding(x, mesh, spec, priority=priority)
    pool.append((a, x))
    is_open = any(
        s is None and p is not None for s, p in zip(spec, priority or ()))
    if not is_open:
      marked.append((a, x, mesh, spec))


def _random_mesh(rng: random.Random) -> xs.Mesh:
  shape, names = rng.choice([((2, 4), ('x', 'y')), ((8,), ('d',)),
                             ((2, 2, 2), ('a', 'b', 'c')),
                             ((1, 8), ('one', 'eight'))])
  ids = list(range(8))
  if rng.random() < 0.2:
    rng.shuffle(ids)
  return xs.Mesh(np.array(ids), shape, names)


_partitioners = set()


@pytest.mark.parametrize('seed', [
    *range(4),
    *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 16))
])
def test_random_programs(seed):
  """Numbers, and what each device holds, whoever partitions."""
  rng = random.Random(seed)
  torch.manual_seed(seed)
  sizes = (1, 3, 5, 7, 8, 12) if seed % 4 == 0 else (8, 16)
  shape = [rng.choice(sizes) for _ in range(rng.choice((1, 2, 2, 3)))]
  meshes = [_random_mesh(rng) for _ in range(rng.choice((1, 1, 2)))]
  pool, marked = [], []
  for _ in range(3):
    mesh = rng.choice(meshes)
    spec = _random_spec(rng, mesh, len(shape))
    a = torch.randn(shape)
    x = _sharded(a, mesh, spec, _random_priority(rng, len(shape)))
    pool.append((a, x))
    marked.append((a, x, mesh, spec))
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    for _ in range(2):
      for _ in range(rng.randint(2, 4)):
        _random_step(rng, pool, meshes, marked)
      torch_xla.sync(wait=True)
  for a, x in pool:
    close(x.cpu(), a, rtol=1e-4, atol=1e-4)
  for a, x, mesh, spec in marked:
    check_shards(x, a, mesh, spec)
  _partitioners.update((p.partitioner, bool(p.note)) for p in programs)


def test_random_programs_went_to_shardy():
  """And to GSPMD with a reason alone."""
  assert (Partitioner.SHARDY, False) in _partitioners
  assert (Partitioner.GSPMD, False) not in _partitioners


# Last: what fails is kept alive, and bound to all programs after it.
def test_clear_sharding_of_one_of_two(mesh):
  a, b = torch.randn(4, 8), torch.randn(4, 8)
  x = _sharded(a, mesh, ('x', 'y'), (0, 1))
  y = _sharded(b, mesh, ('x', 'y'), (0, 1))
  torch_xla.sync(wait=True)
  xs.clear_sharding(y)
  close((x + y).cpu(), a + b)


def test_data_of_another_rank(mesh):
  x = _sharded(torch.randn(8, 8), mesh, (None, None), (0, 1))
  w = _sharded(torch.randn(8, 8), mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  a = torch.randn(3)
  x.data = a.to('xla')
  torch_xla.sync(wait=True)
  y, program = _run(lambda: (x.exp(), w.exp()))
  close(y[0].cpu(), a.exp())
  told, = [t for t in program.tensors if str(t.shape) == 'f32[3]']
  assert told.sdy in ('', '#sdy.sharding<@mesh, [{}]>')
