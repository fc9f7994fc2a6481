"""What each guard says of the smallest step that breaks it."""

import logging
import threading

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import guards
from torch_xla.shardy.guards import program_change

ENVIRONMENT = environments.SHARDY


@pytest.fixture(scope='module')
def mesh():
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))


def step(mesh, rows=8, rate=0.5, spec=('data', None), priority=None):
  w = torch.ones(rows, 16).to('xla')
  torch_xla.shardy.name_tensors({'w': w})
  xs.mark_sharding(w, mesh, spec, priority=priority)
  # A constant of the program; that of ones is 0.
  norm = torch.nn.functional.layer_norm(w, (16,), eps=rate)
  result = torch.sin(w) + norm
  torch_xla.sync()
  return result


@pytest.mark.parametrize('changed, said', [
    ({
        'rows': 16
    }, '(w): shape f32[8,16] -> f32[16,16]'),
    ({
        'rate': 0.25
    }, 'constant f32[] 0.5 -> f32[] 0.25'),
    ({
        'spec': (None, 'model')
    }, "(w): sharding ('data', None) -> (None, 'model')"),
    ({
        'priority': (1, None)
    }, '(w): priority none -> (1, None)'),
])
def test_recompile_says_what_changed_and_which_line(mesh, changed, said):
  step(mesh)
  with guards.no_recompile():
    step(mesh)
  with pytest.raises(guards.RecompileError) as raised:
    with guards.no_recompile():
      step(mesh, **changed)
  assert said in str(raised.value)
  assert 'guards_test.py' in str(raised.value).partition('\n')[0]
  assert 'in step' in str(raised.value).partition('\n')[0]


def test_recompile_budget_and_log(mesh, caplog):

  @guards.no_recompile(allowed=1)
  def one_more(rate):
    step(mesh, rate=rate)

  one_more(0.125)
  one_more(0.0625)  # Each call has its own.
  with caplog.at_level(logging.WARNING), guards.no_recompile(action='log'):
    step(mesh, rate=3.)
  assert 'constant f32[] 0.0625 -> f32[] 3.0' in caplog.text


def test_other_errors_are_left(mesh):
  with pytest.raises(KeyError):
    with guards.no_recompile():
      raise KeyError('theirs')


def test_reads_are_no_recompiles(mesh):
  kept = step(mesh)
  kept.cpu()
  with guards.no_recompile():
    np.testing.assert_allclose(kept.cpu(), np.full((8, 16), np.sin(1)), 1e-5)


def test_collectives_that_annotations_disagree_about(mesh):

  def disagree():
    a, b = torch.ones(16, 16).to('xla'), torch.ones(16, 16).to('xla')
    torch_xla.shardy.name_tensors({'a': a, 'b': b})
    xs.mark_sharding(a, mesh, ('data', None))
    xs.mark_sharding(b, mesh, (None, 'data'))
    kept = torch.sin(a + b)
    torch_xla.sync()
    return kept

  with pytest.raises(guards.ImplicitCollectiveError) as raised:
    with guards.no_implicit_collectives():
      disagree()
  text = str(raised.value)
  assert "a ('data', None)" in text and "b (None, 'data')" in text
  with guards.no_implicit_collectives(min_bytes=1 << 20):
    step(mesh, rate=11.)
  with guards.no_implicit_collectives():
    step(mesh, rate=13.)


def test_no_program_is_no_verdict(mesh, caplog):
  with caplog.at_level(logging.WARNING), guards.no_implicit_collectives():
    pass
  assert 'no program was compiled' in caplog.text


def test_tracing_is_told_from_compiled(mesh):
  del mesh
  compiled = torch.compile(lambda t: torch.sin(t) + 1, backend='openxla')
  x = torch.ones(8).to('xla')
  torch_xla.sync()
  with torch.no_grad():
    compiled(x)
    with guards.no_tracing():
      for _ in range(3):
        compiled(x)
  with pytest.raises(guards.TracingError, match='xla::cos'):
    with guards.no_tracing():
      kept = torch.cos(x)
      torch_xla.sync()
      del kept


def test_a_guard_is_used_again(mesh):
  guard = guards.no_tracing()
  for _ in range(2):
    with guard:
      pass
  assert guard(lambda: 7)() == 7


@pytest.mark.parametrize('wrong', [{'allowed': -1}, {'action': 'panic'}])
@pytest.mark.parametrize(
    'guard',
    [guards.no_recompile, guards.no_implicit_collectives, guards.no_tracing])
def test_bad_arguments(guard, wrong):
  with pytest.raises(ValueError, match=next(iter(wrong))):
    with guard(**wrong):
      pass


def test_other_threads_count(mesh):
  with pytest.raises(guards.RecompileError):
    with guards.no_recompile():
      thread = threading.Thread(target=step, args=(mesh, 8, 17.))
      thread.start()
      thread.join()


def test_arguments_are_paired_by_what_they_are():
  """One that is used earlier moves all others, and is the one that is told."""

  def argument(shape):
    return program_change.Argument(shape, 'none', 'none')

  before, after = (
      list(map(argument, shapes))
      for shapes in (('f32[16]', 'f32[16,16]', 'f32[8,16]'),
                     ('bf16[8,16]', 'f32[16]', 'f32[16,16]')))
  (pair,) = program_change._paired(before, after)
  assert pair == (0, argument('f32[8,16]'), argument('bf16[8,16]'))


def test_what_runs_later_is_refused():
  """A decorator's block would have ended by then."""

  async def waits():
    pass

  def gives():
    yield 1

  for function in (waits, gives):
    with pytest.raises(TypeError, match='use the guard with `with`'):
      guards.no_recompile()(function)
