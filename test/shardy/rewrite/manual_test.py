"""Programs with manual regions: Shardy's numbers are GSPMD's, bit by bit."""

import manual_programs
from manual_programs import (begin, end, GSPMD, mesh_of, PROGRAMS, sharded,
                             SHARDY, STABLEHLO)
import processes
import programs
import pytest
import torch
import torch_xla
import torch_xla.runtime as xr

pytest.importorskip('jaxlib', reason='needs jaxlib: XLA prints the programs')

ENVIRONMENT = {}  # Beside the tests that need no child.
_IN_THE_CORE = ('backward', 'uneven', 'manual_result')
# GSPMD ends the process, or sums in another order.
_NOT_AS_GSPMD = ('loop_within', 'split_outside')
_ENVIRONMENTS = [SHARDY, pytest.param(STABLEHLO, marks=pytest.mark.nightly)]
_IDS = ['HLO', 'StableHLO']
_ALL = [
    name if name in _IN_THE_CORE else pytest.param(
        name, marks=pytest.mark.nightly) for name in PROGRAMS
]


@pytest.fixture(name='ran', scope='module')
def ran_fixture(request):
  """What the programs that are to be tested give: Shardy's way, and GSPMD's."""
  names = sorted({*_IN_THE_CORE} | {
      item.callspec.params['name']
      for item in request.session.items
      if item.path == request.path and
      'name' in getattr(getattr(item, 'callspec', None), 'params', {})
  })
  compared = [name for name in names if name not in _NOT_AS_GSPMD]
  return tuple(
      processes.call(manual_programs.run, those, **environment).value
      for those, environment in ((names, SHARDY), (compared, GSPMD)))


@pytest.mark.parametrize('name', _ALL)
def test_as_gspmd(name, ran):
  shardy, gspmd = ran
  one = shardy[name]
  assert {program[:3] for program in one.programs} == {('shardy', '', '')}
  assert any(b'xla.sdy.manual_computation_body' in text for text in one.texts)
  if name in _NOT_AS_GSPMD:
    return
  other = gspmd[name]
  assert {program[0] for program in other.programs} == {'gspmd'}
  assert len(one.results) == len(other.results) > 0
  for result, expected in zip(one.results, other.results):
    assert result.dtype == expected.dtype and torch.equal(result, expected)


def test_against_torch(ran):
  """What a few of them mean."""
  shardy, _ = ran
  torch.manual_seed(7)
  x = torch.randn(7, 7) + 5
  whole, rows, columns = shardy['uneven'].results
  padded = torch.zeros(8, 8)
  padded[:7, :7] = x
  torch.testing.assert_close(whole, x * 2 + 1)
  torch.testing.assert_close(rows, padded.reshape(2, 4, 8).sum(1)[:, :7])
  torch.testing.assert_close(columns, padded.reshape(8, 4, 2).sum(2)[:7] + 1)
  torch.manual_seed(7)
  x = torch.randn(8, 8)
  local = x.sin()
  total = local.reshape(2, 4, 4, 2).sum((1, 3))
  total = total.repeat_interleave(4, 0).repeat_interleave(2, 1)
  torch.testing.assert_close(shardy['manual_result'].results[0],
                             local * total + total)


def _step(first: str) -> tuple[torch.Tensor, set[tuple[int, ...]]]:
  """A sum in which rows and columns contend, and a region after it.

  Returns:
    The result, and what one device computes of the sum.
  """
  xr.use_spmd()
  torch.manual_seed(3)
  mesh = mesh_of()
  a = sharded(torch.randn(16, 16), mesh, ('y', None), (int(first != 'a'), None))
  b = sharded(torch.randn(16, 16), mesh, (None, 'y'), (None, int(first != 'b')))
  torch_xla.sync(wait=True)
  with programs.compiled_texts() as texts:
    with torch_xla.shardy.record() as records:
      local = begin((a + b).sin(), mesh, ('x', None))
      result = end(local.cumsum(0), mesh, ('x', None), (16, 16))
      torch_xla.sync(wait=True)
  assert [r.partitioner.value for r in records] == ['shardy']
  return result.cpu(), programs.computed_shapes(texts[0], 'add', 2)


@pytest.mark.parametrize('environment', _ENVIRONMENTS, ids=_IDS)
def test_priorities_decide_outside(environment):
  """The region's own wish, its rows along x, comes after those of users."""
  results = []
  # Where rows are not along y, along which columns are, they can be along x.
  for first, local in ('a', (4, 16)), ('b', (8, 4)):
    result, shapes = processes.call(_step, first, **environment).value
    assert shapes == {local}
    results.append(result)
  assert torch.equal(*results)


def _read() -> str:
  """Reads a manual tensor; the process is none the worse."""
  xr.use_spmd()
  mesh = mesh_of()
  x = sharded(torch.ones(8, 8), mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  local = begin(x + 1, mesh, ('x', None)) * 2
  with pytest.raises((ValueError, RuntimeError)) as raised:
    torch_xla.sync(wait=True)
    local.cpu()
  del local
  message = str(raised.value)
  del raised
  assert (x + 1).cpu().eq(2).all()
  return message


@pytest.mark.parametrize('environment', _ENVIRONMENTS, ids=_IDS)
def test_a_manual_tensor_that_is_read(environment):
  """GSPMD ends the process on it, as on what `manual_text_test` refuses."""
  message = processes.call(_read, **environment).value
  assert message.startswith('torch_xla.shardy could not compile: '
                            'ManualShardingError: ')
  assert ', which is manual: call disable_manual_sharding before' in message


def _two_orders() -> tuple[torch.Tensor, str, str]:
  """A region, in a program with meshes that have nothing in common."""
  xr.use_spmd()
  torch.manual_seed(3)
  mesh, other = mesh_of(), mesh_of((8,), ('d',), (7, 1, 2, 3, 4, 5, 6, 0))
  x = sharded(torch.randn(8, 8), mesh, ('x', None), (0, None))
  y = sharded(torch.randn(8, 8), other, ('d', None), (0, None))
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as records:
    local = begin(x.sin(), mesh, ('x', 'y'))
    result = end(local.cumsum(0), mesh, ('x', 'y'), (8, 8)) + y
    torch_xla.sync(wait=True)
  program, = records
  return result.cpu(), program.partitioner.value, program.note


def test_falls_back():
  result, partitioner, note = processes.call(_two_orders, **SHARDY).value
  expected, _, _ = processes.call(_two_orders, **GSPMD).value
  assert partitioner == 'gspmd'
  assert note.startswith('Shardy cannot be told of the sharding ')
  assert torch.equal(result, expected)


def _compiled_by_torch() -> None:
  xr.use_spmd()
  torch.manual_seed(7)
  mesh = mesh_of()
  x = sharded(torch.randn(8, 8), mesh, ('x', None), (0, None))
  w = sharded(torch.randn(8, 8), mesh, (None, 'y'), (None, 1))

  def compute(x):
    return manual_programs.local_cumsum(x @ w, False).cos()

  torch_xla.sync(wait=True)
  expected = compute(x).cpu()
  compiled = torch.compile(compute, backend='openxla')
  with torch_xla.shardy.record() as programs:
    results = [compiled(x), compiled(x)]
    torch_xla.sync(wait=True)
  with_regions = [p for p in programs if b'manual_computation' in p.handed_on]
  assert with_regions
  for p in with_regions:
    assert (p.partitioner.value, p.note) == ('shardy', '')
    told = [t.sdy for t in p.tensors if t.parameter is not None]
    assert any('{"y"}p1' in text for text in told)
  for result in results:
    assert torch.equal(result.cpu(), expected)


@pytest.mark.slow
@pytest.mark.parametrize('environment', _ENVIRONMENTS, ids=_IDS)
def test_torch_compile(environment):
  processes.call(_compiled_by_torch, **environment)
