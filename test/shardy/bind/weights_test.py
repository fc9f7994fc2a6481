"""Weights where something happens to one of two between syncs.

The sections of `lazy_test` run with weights for tensors as well, and those of
the other modules at night.
"""

from __future__ import annotations

from collections.abc import Callable
import ctypes
import gc
import itertools
import os
import time

import pytest
from sections import counted, error, fails_to_sync, Run, Seen, SHARDY, sync
import torch
import torch_xla
from torch_xla import _XLAC
from torch_xla._dynamo.dynamo_bridge import alias_with_buffer_donor_config
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla.experimental import eager_mode

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


def donated_between_syncs(run: Run) -> Seen:
  w, v, total, before = _two(run)
  costs = []
  for _ in range(3):
    w.add_(1)
    v.add_(1)
    xm.unlazy([w])  # Runs a graph that takes the data which w had.
    w.add_(1)
    out = w + v
    costs.append(counted(sync))
  return Seen([costs, error(out, total + 9) < 1e-4], run.said(before))


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


def loaded_while_pending(run: Run) -> Seen:
  """What is loaded is placed at once: the next step is the same program."""
  w, v, _, before = _two(run)
  for t in (w, v):
    t.copy_(torch.ones(t.shape))
    t.add_(1)
  _, *right = _summed_twice(w, v, torch.full(w.shape, 4.))
  return Seen(right, run.said(before))


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


def cleared_while_pending(run: Run) -> Seen:
  w, v, total, before = _two(run)
  v.add_(1)
  xs.clear_sharding(w)
  out = w + v
  costs = [counted(sync)]
  out2 = w * 2
  costs.append(counted(sync, out2))
  return Seen([costs, error(out, total + 1) < 1e-5], run.said(before))


def second_model(run: Run) -> Seen:
  models = [torch.nn.Linear(16, n, bias=False).to('xla') for n in (16, 32)]
  costs, before = [], len(run.programs)
  for model in models:
    run.mark(model.weight, ('y', None), (1, None))
    o = torch.optim.SGD(model.parameters(), lr=.1)
    for _ in range(3):
      x = torch.randn(8, 16).to('xla')
      run.mark(x, ('x', None), (0, None))
      o.zero_grad()
      model(x).square().mean().backward()
      o.step()
      costs.append(counted(sync))
  return Seen([costs], run.said(before))


def donated_by_the_user(run: Run) -> Seen:
  w, v, _, _ = _two(run)
  _XLAC._set_buffer_donation(w, True)
  with alias_with_buffer_donor_config():
    out = w + 1
    out.cpu()
    v.add_(1)
    sync()
  out = v * 1
  sync()
  return Seen([bool(out.isfinite().all())])


def eager_in_between(run: Run) -> Seen:
  w, v, total, _ = _two(run)
  eager_mode(True)
  try:
    out = w + v
    sync()
    w.add_(1)
    sync()
  finally:
    eager_mode(False)
  costs = []
  for _ in range(3):
    w.add_(1)
    v.add_(1)
    costs.append(counted(sync))
  return Seen([costs, error(out, total) < 1e-5, error(w + v, total + 7) < 1e-5])


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


def looked_at(run: Run) -> Seen:
  w, v, _, before = _two(run)
  w.add_(1)
  run.mark(v, ('x', None), (2, None))  # As it is.
  out = w + v
  texts = {torch_xla.shardy.lower_text([out]) for _ in range(2)}
  costs = [counted(sync), counted(sync)]
  return Seen([len(texts), costs],
              run.said(before),
              more=[p in text for text in texts for p in ('}p1', '}p2')])


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


def donated_as_asked_for_by_a_compiled_graph(run: Run) -> Seen:
  w, v, total, _ = _two(run)

  @torch.compile(backend='openxla')
  def update(w, v):
    torch.ops.xla.dynamo_set_buffer_donor_(w, True)
    w.add_(1)
    return w + v

  for _ in range(4):
    update(w, v)
    w.add_(1)
    v.add_(1)
    sync()
  return Seen([error(w + v, total + 12) < 1e-4])


def updated_between_calls_of_a_compiled_graph(run: Run) -> Seen:
  w, v, total, _ = _two(run)
  double = torch.compile(lambda x: x * 2, backend='openxla')
  outs = []
  for _ in range(3):
    for _ in range(2):
      outs.append(double(w))
      w.add_(1)
      v.add_(1)
    sync()
  start = total - v.cpu() + 6
  right = [error(out, 2 * (start + i)) < 1e-4 for i, out in enumerate(outs)]
  return Seen([right, error(w + v, total + 12) < 1e-4])


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
    pytest.param(cleared_while_pending, [[_V]], marks=pytest.mark.nightly),
    pytest.param(
        second_model, [[("('x', None)", (0, None)), _W]] * 2,
        marks=pytest.mark.nightly),
    (read_while_pending, [[_W], [_V, _W], [_V, _W]]),
    (failed_sync, [[_V, _W]]),
    (compiled_between_steps, [[_V, _W], [_W]]),
    (looked_at, [[_V, _W]]),
])
def test_programs_are_told_of_the_weights_that_they_start_from(
    section, programs, ways):
  """And cost what they cost without priorities."""
  assert ways.on(section).said == [('shardy', p) for p in programs]


@pytest.mark.parametrize('section', [
    donated_and_dead,
    pytest.param(donated_between_syncs, marks=pytest.mark.nightly),
    donated_by_a_compiled_graph,
    pytest.param(
        donated_as_asked_for_by_a_compiled_graph, marks=pytest.mark.nightly),
    donated_by_the_user,
    pytest.param(loaded_while_pending, marks=pytest.mark.nightly),
    pytest.param(
        updated_between_calls_of_a_compiled_graph, marks=pytest.mark.nightly),
    pytest.param(eager_in_between, marks=pytest.mark.nightly),
])
def test_as_without_priorities(section, ways):
  ways.on(section)


@pytest.mark.parametrize('section', [looked_at])
def test_text_of_a_program_tells_the_priorities_of_weights(section, ways):
  assert ways.on(section).more == [True, True]


_M_MMAP_THRESHOLD = -3


def _freed(f: Callable[[], object]) -> float:
  """MB that this process has less of after f()."""

  def now() -> float:
    with open('/proc/self/statm', encoding='ascii') as file:
      return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20

  def used() -> float:
    gc.collect()
    xm.wait_device_ops()
    # The runtime's threads give memory back, on a busy machine later.
    readings: list[int] = []
    while len(readings) < 5 or len(set(readings[-5:])) > 1:
      time.sleep(.02)
      readings.append(round(now()))
    return readings[-1]

  before = used()
  f()
  return before - used()


def _large_weights(run: Run) -> list[torch.Tensor]:
  """Three, each 16 MB on each of eight devices."""
  made = []
  for _ in range(3):
    made.append(
        torch.nn.Parameter(torch.zeros(2**24).to('xla'), requires_grad=False))
    run.mark(made[-1], ('y',), (1,))
  sync()
  return made


@pytest.mark.nightly
@pytest.mark.environment(**SHARDY)
def test_dead_weights_free_their_memory_at_once(run):
  """The next model may need it; a pending graph may need it until the sync."""
  # Freed means returned to the system.
  assert ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1000000) == 1
  weights = _large_weights(run)
  assert _freed(weights.clear) > 350
  weights = _large_weights(run)
  weights[0].add_(1)
  # Its death may depend on the collector of garbage, a program must not.
  assert 200 < _freed(weights.clear) < 300
  # The next model's first weight finds nothing pending.
  assert _freed(lambda: weights.extend(_large_weights(run))) > -300
  kept = weights[0]
  kept.add_(1)
  assert _freed(weights.clear) > 200
