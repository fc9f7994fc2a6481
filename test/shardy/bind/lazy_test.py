"""Annotated tensors in lazy mode, in eager mode and in `torch_xla.compile`.

What a program costs (traces, compiles, runs, donations) and computes must be
the same with Shardy on and with V2 alone: see `sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from sections import (counted, donated, error, mlp, Run, said, Seen, SHARDY,
                      sync)
import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.spmd as xs
from torch_xla.shardy import current_mode, Mode

ENVIRONMENT = {}  # Beside the tests that need no child.
_X = ("('x', None)", (0, None))
_Y = ("('y', None)", (1, None))
_MLP = [_X, _Y, ("(None, 'y')", (None, 2))]

_Optimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


def _sgd(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
  return torch.optim.SGD(parameters, lr=.1, momentum=.9)


def _one_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer,
              x: torch.Tensor) -> torch.Tensor:
  optimizer.zero_grad()
  loss = model(x).pow(2).mean()
  loss.backward()
  optimizer.step()
  return loss


def _errors(model: torch.nn.Module, reference: torch.nn.Module) -> list[float]:
  return [
      error(a, b) for a, b in zip(model.parameters(), reference.parameters())
  ]


def _train(run: Run,
           optimizer: _Optimizer,
           wrap: Callable[[Callable], Callable] = lambda f: f) -> Seen:
  reference, model = mlp(), run.marked_mlp()
  mine, its = optimizer(model.parameters()), optimizer(reference.parameters())
  step = wrap(lambda x: _one_step(model, mine, x))
  before, costs, errors, idle = len(run.programs), [], [], []
  losses = []
  for _ in range(5):
    x = torch.randn(8, 16)
    sharded = x.to('xla')
    run.mark(sharded, ('x', None), (0, None))

    def step_and_sync():
      losses[:] = [step(sharded)]
      sync()

    costs.append(counted(step_and_sync))
    idle.append(counted(sync))
    programs = run.programs[before:]
    expected = _one_step(reference, its, x)
    errors.append(error(losses.pop(), expected))
  errors += _errors(model, reference)
  is_shardy = current_mode() is Mode.SHARDY
  return Seen(
      same=[costs, idle,
            max(errors) < 1e-4, [donated(p) for p in programs]],
      said=[said(p) for p in programs if p.tensors or not is_shardy])


def sgd(run: Run) -> Seen:
  return _train(run, _sgd)


def compiled_function(run: Run) -> Seen:
  return _train(run,
                lambda p: torch.optim.SGD(p, lr=.1, momentum=.9, nesterov=True),
                lambda f: torch_xla.compile(f, full_graph=True))


@pytest.mark.parametrize(
    'section',
    [sgd, pytest.param(compiled_function, marks=pytest.mark.slow)])
def test_training_keeps_priorities_and_costs_nothing(section, ways):
  seen = ways.on(section)
  assert seen.said
  assert all(program == ('shardy', _MLP) for program in seen.said)


def read_before_sync(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (1, None))
  x = run.put((8, 8), ('x', None), (0, None))
  values, costs, before = [], [], len(run.programs)
  for _ in range(4):
    y = x @ w
    w.add_(1)
    costs.append(counted(lambda: values.append(y.sum().item())))
    y2 = y * 2
    costs.append(counted(sync, y2))
    values.append(w.cpu().sum().item())
  return Seen([costs, [round(v, 3) for v in values]], run.said(before))


@pytest.mark.parametrize('section', [read_before_sync])
def test_value_read_before_a_sync(section, ways):
  assert ('shardy', [_X, _Y]) in ways.on(section).said


def accumulated_gradients(run: Run) -> Seen:
  reference, model = mlp(), run.marked_mlp()
  o, ro = (_sgd(m.parameters()) for m in (model, reference))
  costs, before = [], len(run.programs)
  for step in range(9):
    x = torch.randn(8, 16)
    sharded = x.to('xla')
    run.mark(sharded, ('x', None), (0, None))
    model(sharded).pow(2).mean().backward()
    reference(x).pow(2).mean().backward()
    costs.append(counted(sync))
    if step % 3 == 2:
      for optimizer in (o, ro):
        optimizer.step()
      for optimizer in (o, ro):
        optimizer.zero_grad()
      costs.append(counted(sync))
  return Seen([costs, max(_errors(model, reference)) < 1e-4], run.said(before))


@pytest.mark.slow
@pytest.mark.parametrize('section', [accumulated_gradients])
def test_gradients_accumulated_over_syncs(section, ways):
  seen = ways.on(section)
  assert ('shardy', _MLP) in seen.said
  assert all(partitioner == 'shardy' for partitioner, _ in seen.said)


def exception_in_a_compiled_function(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (1, None))
  expected = w.cpu()

  @torch_xla.compile
  def f(fail):
    w.add_(1)
    if fail:
      raise KeyError('on purpose')
    return w * 2

  f(False)
  try:
    f(True)
    caught = False
  except KeyError:
    caught = True
  out = f(False)
  sync()
  again = counted(lambda: (f(False), sync()))
  return Seen([
      caught,
      error(w, expected + 4) < 1e-5,
      error(out, 2 * (expected + 3)) < 1e-5, again
  ])


@pytest.mark.parametrize('section', [exception_in_a_compiled_function])
def test_as_without_priorities(section, ways):
  ways.on(section)


def intermediates(run: Run) -> Seen:
  x, w = torch.randn(8, 16), torch.randn(16, 8)
  a, b = x.to('xla'), w.to('xla')
  run.mark(b, (None, 'y'), (None, 3))
  before, costs, right, outs = len(run.programs), [], [], []

  def step():
    h = a @ b
    run.mark(h, ('x', None), (1, 2))
    k = torch.relu(h)
    xs.annotate_custom_sharding(k, run.mesh, (None, 'x'), priority=(None, 4))
    outs[:] = [k.sum(1)]

  for _ in range(3):
    costs.append(counted(lambda: (step(), sync())))
    right.append(error(outs.pop(), torch.relu(x @ w).sum(1)) < 1e-4)
  return Seen([costs, right], run.said(before))


@pytest.mark.parametrize('section', [intermediates])
def test_marked_intermediates(section, ways):
  expected = ('shardy', [("('x', None)", (1, 2)), ("(None, 'x')", (None, 4)),
                         ("(None, 'y')", (None, 3))])
  seen = ways.on(section)
  assert seen.said
  assert all(program == expected for program in seen.said)


@pytest.mark.environment(**SHARDY)
def test_priority_that_a_loader_does_not_take_is_warned_of(run, caplog):
  w = run.put((8, 8), ('y', None), (1, None))
  spec = xs.ShardingSpec(run.mesh, ('x', None), priority=(0, None))
  batches = [torch.randn(8, 8) for _ in range(4)]
  loader = pl.MpDeviceLoader(batches, 'xla', input_sharding=spec)
  for x, batch in zip(loader, batches):
    out = x @ w
    sync()
    assert error(out, batch @ w.cpu()) < 1e-4
  assert not any('x' in (t.spec or '') for p in run.programs for t in p.tensors)
  assert caplog.text.count('input_sharding of a loader places') == 1
