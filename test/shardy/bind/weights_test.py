"""Weights where something happens to one of two between syncs.

The sections of `lazy_test` run with weights for tensors as well, and those of
the other modules at night.
"""

from __future__ import annotations

import itertools

import pytest
from sections import counted, error, fails_to_sync, Run, Seen, sync
import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs

ENVIRONMENT = {}  # Beside the tests that need no child.
pytestmark = pytest.mark.slow  # The core has lazy_test, with weights.

_W = ("('y', None)", (1, None))
_V = ("('x', None)", (2, None))

_sizes = itertools.count(8, 8)


def _two(run: Run) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
  """Weights that have lived through a sync, what they add up to, and a start.

  Of a new size, as no section is to find the program of another in the cache.
  The start is the number of the programs compiled so far.
  """
  shape = (8, next(_sizes))
  w, v = (
      torch.nn.Parameter(torch.randn(shape).to('xla'), requires_grad=False)
      for _ in range(2))
  run.mark(w, ('y', None), (1, None))
  run.mark(v, ('x', None), (2, None))
  sync()
  return w, v, (w.cpu() + v.cpu()), len(run.programs)


def _summed_twice(w: torch.Tensor, v: torch.Tensor,
                  expected: torch.Tensor) -> list:
  """What two sums, an update apart, cost and whether they are right."""
  out = w + v
  costs = [counted(sync)]
  w.add_(1)
  v.add_(1)
  out2 = w + v
  costs.append(counted(sync))
  return [costs, error(out, expected) < 1e-5, error(out2, expected + 2) < 1e-5]


def one_of_two_dies(run: Run) -> Seen:
  w, v, _, before = _two(run)
  del w
  out = v + 1
  v.add_(1)
  costs = [counted(sync), counted(sync)]
  return Seen([costs, error(out, v.cpu()) < 1e-5], run.said(before))


def dies_while_pending(run: Run) -> Seen:
  w, v, total, before = _two(run)
  out = w + v
  v.add_(1)
  del w
  costs = [counted(sync)]
  v.add_(1)
  costs.append(counted(sync))
  return Seen([costs, error(out, total) < 1e-5], run.said(before))


def read_while_pending(run: Run) -> Seen:
  w, v, total, before = _two(run)
  w.add_(1)
  w.cpu()
  v.add_(1)
  return Seen(_summed_twice(w, v, total + 2), run.said(before))


def donated_and_dead(run: Run) -> Seen:
  w, v, _, before = _two(run)
  w.add_(1)
  v.add_(1)
  xm.unlazy([w])
  del w
  return Seen([counted(sync)], run.said(before))


def given_other_data_and_marked_as_before(run: Run) -> Seen:
  w, v, _, before = _two(run)
  w.data = torch.ones(w.shape).to('xla')
  run.mark(w, ('y', None), (1, None))
  w.add_(1)
  out = w * 1
  costs = [counted(sync)]
  return Seen([costs, error(out, torch.full(w.shape, 2.)) < 1e-5],
              run.said(before))


def marked_anew_while_pending(run: Run) -> Seen:
  w, v, total, before = _two(run)
  v.add_(1)
  run.mark(w, ('y', None), (7, None))
  out = w + v
  cost = counted(sync)
  return Seen([cost, error(out, total + 1) < 1e-5], run.said(before))


def cleared(run: Run) -> Seen:
  w, v, total, before = _two(run)
  xs.clear_sharding(w)
  out = w + v
  v.add_(1)
  costs = [counted(sync)]
  return Seen([costs, error(out, total) < 1e-5], run.said(before))


def failed_sync(run: Run) -> Seen:
  w, v, total, _ = _two(run)
  result = [fails_to_sync(v)]
  before = len(run.programs)
  w.add_(1)
  out = w + v
  sync()
  result.append(error(out, total + 1) < 1e-5)
  w.add_(1)
  out = w + v
  sync()
  result.append(error(out, total + 2) < 1e-5)
  return Seen(result, run.said(before))


# From here on last: what torch.compile keeps, it frees at any time.


def donated_by_a_compiled_graph(run: Run) -> Seen:
  w, v, total, _ = _two(run)

  @torch.compile(backend='openxla')
  def update(w, v):
    w.add_(1)
    return w + v

  outs = []
  for _ in range(3):
    outs.append(update(w, v))
    v.add_(1)  # In lazy mode: the sync starts from the weight before that.
    sync()
  # The weight that a graph took dies, and the other one is pending.
  outs.append(update(w, v))
  del w
  v.add_(1)
  sync()
  right = [error(out, total + 1 + 2 * i) < 1e-4 for i, out in enumerate(outs)]
  return Seen([right])


def compiled_between_steps(run: Run) -> Seen:
  w, v, _, before = _two(run)

  def step():
    w.add_(1)
    out = w + v
    return counted(sync, out)

  costs = [step()]
  graph = torch.compile(lambda w: w * 2, backend='openxla')
  graph(w)
  plain = torch.compile(lambda x: x * 3, backend='openxla')
  plain(torch.ones(4).to('xla'))
  costs.append(step())
  return Seen([costs], run.said(before))


@pytest.mark.parametrize('section,programs', [
    (one_of_two_dies, [[_V]]),
    (dies_while_pending, [[_V, _W], [_V]]),
    (marked_anew_while_pending, [[_V, ("('y', None)", (7, None))]]),
    (given_other_data_and_marked_as_before, [[_W]]),
    (cleared, [[_V]]),
    (read_while_pending, [[_W], [_V, _W], [_V, _W]]),
    (failed_sync, [[_V, _W]]),
    (compiled_between_steps, [[_V, _W], [_W]]),
])
def test_programs_are_told_of_the_weights_that_they_start_from(
    section, programs, ways):
  """And cost what they cost without priorities."""
  assert ways.on(section).said == [('shardy', p) for p in programs]


@pytest.mark.parametrize('section',
                         [donated_and_dead, donated_by_a_compiled_graph])
def test_as_without_priorities(section, ways):
  ways.on(section)
