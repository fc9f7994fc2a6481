"""Training with annotated tensors where programs leave as StableHLO."""

from __future__ import annotations

from collections.abc import Callable
import functools
import os

import pytest
from sections import error, mlp, Run, SHARDY, sync
import torch
from torch_xla.shardy import current_mode, Mode
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.mode import leaves_as_stablehlo

_VARIABLE = 'XLA_STABLEHLO_COMPILE'
_ON = pytest.mark.environment(**SHARDY, XLA_STABLEHLO_COMPILE='1')


def _marking(run: Run, model: torch.nn.Module) -> Callable:
  """The model's forward pass, with a marked intermediate tensor."""

  def forward(x):
    hidden = model[0](x)
    run.mark(hidden, ('x', None), (0, 3))
    return model[2](model[1](hidden))

  return forward


def _step(forward: Callable, optimizer: torch.optim.Optimizer,
          x: torch.Tensor) -> torch.Tensor:
  optimizer.zero_grad()
  loss = forward(x).pow(2).mean()
  loss.backward()
  optimizer.step()
  return loss.detach()


def _train(run: Run, model: torch.nn.Module,
           step: Callable[[torch.optim.Optimizer, torch.Tensor], torch.Tensor]):
  """Trains `model` with marked inputs, and checks each step's numbers."""
  reference = mlp()
  mine, its = (
      torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
      for m in (model, reference))
  for _ in range(3):
    x = torch.randn(8, 16)
    data = x.to('xla')
    run.mark(data, ('x', None), (0, None))
    loss = step(mine, data)
    sync()
    assert error(loss, _step(reference, its, x)) < 1e-5
  for a, b in zip(model.parameters(), reference.parameters()):
    assert error(a, b) < 1e-5


def _check(run: Run, caplog: pytest.LogCaptureFixture) -> None:
  """Shardy partitioned all programs, and nothing of ours is in them."""
  assert current_mode() is Mode.SHARDY
  assert run.programs
  for program in run.programs:
    assert (program.format, program.form) == ('mlir', 'sdy')
    assert program.partitioner is Partitioner.SHARDY
    assert program.error is None and program.note == ''
    assert b'torch_xla.shardy.' not in program.handed_on
  assert any(
      tensor.priority for program in run.programs for tensor in program.tensors)
  assert not [
      record for record in caplog.records
      if record.name.startswith('torch_xla.shardy')
  ]


@_ON
def test_lazy(run, caplog):
  model = run.marked_mlp()
  forward = _marking(run, model)
  _train(run, model, lambda optimizer, x: _step(forward, optimizer, x))
  _check(run, caplog)


@pytest.mark.slow
@_ON
def test_torch_compile(run, caplog):
  model = run.marked_mlp()
  forward = torch.compile(model, backend='openxla')
  _train(run, model, lambda optimizer, x: _step(forward, optimizer, x))
  _check(run, caplog)


@_ON
def test_mark_inside_torch_compile(run, caplog):
  w = run.put((16, 8), (None, 'y'), (None, 3))
  where = str(run.mesh)

  @functools.partial(torch.compile, backend='openxla')
  def f(x):
    h = torch.ops.xla.aot_mark_sharding(x @ w, where, "('x', None)", '(1, 2)')
    return h.relu()

  for _ in range(3):
    x = torch.randn(8, 16)
    out = f(x.to('xla'))
    sync()
    assert error(out, (x @ w.cpu()).relu()) < 1e-5
    w.mul_(2)
  _check(run, caplog)


@pytest.mark.environment(**SHARDY)
def test_the_variable_means_what_it_means_to_xlac(run, monkeypatch):
  """`_XLAC` asks at each compile."""
  texts = None, 'true', 'false', '1', '0', '2', '', 'yes', ' 1', '-1', '1x'
  for number, text in enumerate(texts):
    if text is not None:
      monkeypatch.setenv(_VARIABLE, text)
    before = len(run.programs)
    t = torch.full((number + 1,), 2.).to('xla') * 3
    sync()
    assert t.tolist() == [6.] * (number + 1)
    formats = {p.format for p in run.programs[before:]}
    assert formats == {'mlir' if leaves_as_stablehlo(os.environ) else 'hlo'
                      }, text
