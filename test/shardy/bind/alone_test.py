"""A program depends on its own graph alone: not on what else lives, or died.

What a program costs and is must be the same whatever other tensors are
annotated, and whenever garbage is collected: see `sections`.
"""

from __future__ import annotations

from collections.abc import Callable
import gc
import hashlib
import pathlib

import processes
import pytest
from sections import (counted, error, fails_to_sync, Run, Seen, SHARDY,
                      sharding_of, sync)
import torch
from torch_xla import _XLAC

ENVIRONMENT = {}  # Beside the tests that need no child.
_STEPS = 9


class _Cycle:
  """Holds a tensor until garbage is collected."""

  def __init__(self, t: torch.Tensor):
    self.t, self.itself = t, self


def _steps(run: Run, width: int, keep: Callable[[torch.Tensor],
                                                object]) -> Seen:
  """Training steps, each with a new annotated input that `keep` gets.

  Args:
    width: of the weight, so that no other section has these programs.
  """
  w = run.put((8, width), ('y', None), (1, None)).requires_grad_()
  optimizer = torch.optim.SGD([w], lr=.1)
  reference = w.detach().cpu().requires_grad_()
  costs, before = [], len(run.programs)
  for _ in range(_STEPS):
    x = run.put((16, 8), ('x', None), (0, None), may_be_weight=False)
    keep(x)
    (x @ w).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    (x.cpu() @ reference).square().mean().backward()
    with torch.no_grad():
      reference -= .1 * reference.grad
      reference.grad = None
    del x
    costs.append(counted(sync))
  return Seen([costs, error(w, reference) < 1e-4], run.said(before))


def cycles(run: Run) -> Seen:
  gc.disable()
  try:
    return _steps(run, 24, _Cycle)
  finally:
    gc.enable()


def cycles_collected_now_and_then(run: Run) -> Seen:
  """Collects cycles as often as the collector would with so low a threshold."""
  count = iter(range(_STEPS))

  def keep(x: torch.Tensor) -> None:
    _Cycle(x)
    if next(count) in (2, 3, 6):
      gc.collect()

  gc.disable()
  try:
    return _steps(run, 32, keep)
  finally:
    gc.enable()


_SAID = [('shardy', [("('x', None)", (0, None)), ("('y', None)", (1, None))])]


@pytest.mark.parametrize('section', [
    cycles,
    pytest.param(cycles_collected_now_and_then, marks=pytest.mark.slow),
])
def test_what_else_lives_costs_nothing(section, ways):
  """There are as many programs as with V2 alone: one, and then none."""
  assert ways.on(section).said == _SAID


def unrelated(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (0, None))
  stored = torch.randn(8, 8).to('xla')  # Of which nobody says anything.
  _XLAC._xla_mark_sharding(stored, run.mesh.get_op_sharding(('x', None)))
  shardings, told, others = [], [], []
  for change in (torch.sin, torch.cos):
    before = len(run.programs)
    out = change(w + stored)
    sync()
    shardings.append(sharding_of(out))
    told.append([(t.spec, t.priority, t.sdy)
                 for p in run.programs[before:]
                 for t in p.tensors])
    # Another priority, which unsaid ones would come after.
    others.append(run.put((8, 8), (('x', 'y'), None), (5, 7)))
  return Seen([], shardings=shardings, more=told)


@pytest.mark.parametrize('section', [unrelated])
def test_an_unrelated_annotation_changes_nothing(section, ways):
  seen = ways.on(section)
  assert seen.shardings[0] == seen.shardings[1]
  first, second = seen.more
  assert first == second
  assert any(spec is None and 'p1' in sdy for spec, _, sdy in first)


def repaired(run: Run) -> Seen:
  """What a failed sync leaves cannot be synced, and is let go of."""
  w = run.put((8, 88), ('y', None), (1, None))
  sync()
  value = torch.randn(8, 88)
  w.copy_(torch.zeros(8, 88))  # Updates the runtime's tensor itself.
  failed = fails_to_sync(torch.ones(8, 8).to('xla'))
  w.data = value.to('xla')
  out = w * 2
  sync()
  return Seen([failed, error(out, 2 * value)])


@pytest.mark.parametrize('section', [repaired])
def test_a_failed_sync_is_none_of_the_next(section, ways):
  ways.on(section)


def programs_of_training(threshold: int, extra: int) -> list[str]:
  """Hashes of all that reaches the backend in a training with cycles.

  Args:
    threshold: of the collector of garbage.
    extra: annotated tensors that have nothing to do with it.
  """
  with Run.start() as run:
    gc.collect()
    gc.set_threshold(threshold)
    kept = [
        run.put((8, 8 * n), (('x', 'y'), None), (n, None))
        for n in range(1, extra + 1)
    ]
    torch.manual_seed(0)
    model = run.marked_mlp()
    norm = torch.nn.BatchNorm1d(8).to('xla')
    for t in (norm.weight, norm.running_mean):
      run.mark(t, ('x',), (4,))
    optimizer = torch.optim.AdamW([*model.parameters(), *norm.parameters()])
    sync()
    for step in range(12):
      garbage = [_Cycle([n]) for n in range(40)]
      x = run.put((8, 16), ('x', None), (0, None))
      _Cycle(x)  # With data: a result that waits would be the program's.
      loss = norm(model(x)).square().mean()
      loss.backward()
      optimizer.step()
      optimizer.zero_grad()
      if step % 4 == 3:
        loss.item()
      del garbage, x, loss
      if step % 5 == 4 and kept:
        kept.pop()
      sync()
    return [hashlib.sha256(p.handed_on).hexdigest() for p in run.programs]


@pytest.mark.slow
def test_two_processes_hand_the_same_programs_to_the_backend():
  """Whatever their hash seeds, collectors and other annotated tensors are."""
  here = pathlib.Path(__file__).parent
  script = (f'import sys; sys.path[:0] = {[str(here), str(here.parents[1])]}; '
            f'import {__name__} as t; print(*t.programs_of_training(%d, %d))')
  first = processes.call(programs_of_training, 50, 0, **SHARDY).value
  second = processes.output_of(
      script % (5000, 4), **SHARDY, PYTHONHASHSEED='2').split()
  assert len(first) > 2
  assert first == second
