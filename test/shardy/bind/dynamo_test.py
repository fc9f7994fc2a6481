"""Annotated tensors in `torch.compile(backend='openxla')`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sections import (counted, donated, error, mlp, Run, Seen, SHARDY, sync, V2)
import torch

ENVIRONMENT = {}  # Beside the tests that need no child.
pytestmark = pytest.mark.slow  # The core has names_test.

_X = ("('x', None)", (0, None))
_Y = ("('y', None)", (1, None))
_MLP = [_X, _Y, ("(None, 'y')", (None, 2))]


def _openxla(f: Callable) -> Callable:
  torch._dynamo.reset()
  return torch.compile(f, backend='openxla')


def inference(run: Run) -> Seen:
  reference, model = mlp(), run.marked_mlp()
  f = _openxla(model)
  costs, errors, before = [], [], len(run.programs)
  with torch.no_grad():
    for _ in range(5):
      x = torch.randn(8, 16)
      data = x.to('xla')
      run.mark(data, ('x', None), (0, None))
      outs = []
      costs.append(counted(lambda: (outs.append(f(data)), sync())))
      errors.append(error(outs[0], reference(x)))
  return Seen([costs, max(errors) < 1e-4, len(outs)], run.said(before))


@pytest.mark.parametrize('section', [inference])
def test_inference(section, ways):
  assert ways.on(section).said == [('shardy', _MLP)]


def training(run: Run) -> Seen:
  reference, model = mlp(), run.marked_mlp()
  f = _openxla(model)
  o, ro = (
      torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
      for m in (model, reference))
  costs, errors, before = [], [], len(run.programs)
  for _ in range(6):
    x = torch.randn(8, 16)
    data = x.to('xla')
    run.mark(data, ('x', None), (0, None))
    losses = []

    def step(f, o, x):
      o.zero_grad()
      loss = f(x).pow(2).mean()
      loss.backward()
      o.step()
      losses.append(loss.detach())
      sync()

    costs.append(counted(lambda: step(f, o, data)))
    step(reference, ro, x)
    errors.append(error(*losses))
  errors += [
      error(a, b) for a, b in zip(model.parameters(), reference.parameters())
  ]
  return Seen(
      [costs,
       max(errors) < 1e-4, [donated(p) for p in run.programs[before:]]],
      run.said(before))


@pytest.mark.parametrize('section', [training])
def test_training(section, ways):
  seen = ways.on(section)
  assert seen.said
  assert all(partitioner == 'shardy' for partitioner, _ in seen.said)
  # Each program has those that it uses.
  told = [tensors for _, tensors in seen.said]
  assert _MLP in told and _MLP[1:] in told
  assert all(t in _MLP for tensors in told for t in tensors)


class _Counter(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.register_buffer('seen', torch.zeros(8, 8))

  def forward(self, x):
    self.seen.add_(x)
    return self.seen * 2


def buffers(run: Run) -> Seen:
  model, reference = _Counter().to('xla'), _Counter()
  run.mark(model.seen, ('y', None), (1, None))
  f = _openxla(model)
  costs, errors, before = [], [], len(run.programs)
  for step in range(5):
    x = torch.ones(8, 8)
    data, outs = x.to('xla'), []
    run.mark(data, ('x', None), (0, None))
    costs.append(counted(lambda: (outs.append(f(data)), sync())))
    errors.append(error(outs[0], reference(x)))
    if step > 2:
      with torch.no_grad():
        model.seen.mul_(2)
        reference.seen.mul_(2)
      costs.append(counted(sync))
  errors.append(error(model.seen, reference.seen))
  return Seen([costs[3:], max(errors)], run.said(before))


@pytest.mark.parametrize('section', [buffers])
def test_buffers_updated_in_place(section, ways):
  """Once settled it is as without priorities: two compiles more before.

  The bridge keeps the first step's input alive, and that is annotated, too.
  """
  seen = ways.on(section)
  assert seen.said
  assert all(partitioner == 'shardy' for partitioner, _ in seen.said)
  assert any(_Y in tensors for _, tensors in seen.said)


def graph_break(run: Run) -> Seen:
  w = run.put((16, 8), (None, 'y'), (None, 3))

  def g(x):
    h = x @ w
    torch._dynamo.graph_break()
    return (h.relu() @ w.t()).sum()

  f = _openxla(g)
  costs, errors, before = [], [], len(run.programs)
  for _ in range(3):
    x = torch.randn(8, 16)
    data, outs = x.to('xla'), []
    run.mark(data, ('x', None), (0, None))
    costs.append(counted(lambda: (outs.append(f(data)), sync())))
    errors.append(error(outs[0], ((x @ w.cpu()).relu() @ w.cpu().t()).sum()))
  return Seen([costs[1:], max(errors) < 1e-3], run.said(before))


@pytest.mark.parametrize('section', [graph_break])
def test_graph_breaks(section, ways):
  """The first step is left out: dynamo clears the counters in it."""
  tensors = [tensors for _, tensors in ways.on(section).said]
  assert tensors.count([_X, ("(None, 'y')", (None, 3))]) == 1
  assert all(("(None, 'y')", (None, 3)) in t for t in tensors)


def unused_and_returned_arguments(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (1, None))
  f = _openxla(lambda a, b: (a, b + 1, a))
  g = _openxla(lambda a: a)
  costs, right = [], []
  for _ in range(3):
    x = run.put((8, 8), ('x', None), (0, None))
    outs = []
    costs.append(counted(lambda: (outs.append((f(w, x), g(w))), sync())))
    (a, b, c), d = outs[0]
    right += [
        error(a, w.cpu()),
        error(b,
              x.cpu() + 1),
        error(c, w.cpu()),
        error(d, w.cpu())
    ]
  return Seen([costs, right])


@pytest.mark.parametrize('section', [unused_and_returned_arguments])
def test_unused_and_returned_arguments(section, ways):
  ways.on(section)


def pending_annotated_argument(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (1, None))
  f = _openxla(lambda a: a * 2)
  y = f(w)
  sync()
  expected = w.cpu()
  w.mul_(2)
  y = f(w)  # Updates w with a program of its own, and donates its old data.
  z = w + y
  sync()
  return Seen([error(z, expected * 6)])


@pytest.mark.parametrize('section', [pending_annotated_argument])
def test_annotated_argument_with_work_pending(section, ways):
  ways.on(section)


@pytest.mark.parametrize('mode', [
    pytest.param('XLA_USE_SHARDY', marks=pytest.mark.environment(**SHARDY)),
    pytest.param('XLA_SHARDING_V2', marks=pytest.mark.environment(**V2)),
])
def test_donated_argument(mode, run):
  del mode
  w = run.put((8, 8), ('y', None), (1, None))
  x = run.put((8, 8), ('x', None), (0, None))
  sync()

  @torch.compile(backend='openxla')
  def f(x):
    torch.ops.xla.dynamo_set_buffer_donor_(x, True)
    return x + 1

  expected = x.cpu() + 1
  y = f(x)
  z = w + 1
  sync()
  assert error(y, expected) + error(z, w.cpu() + 1) == 0
