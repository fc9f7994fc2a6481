"""What reads compute goes with its binding, and costs what it did without."""

from __future__ import annotations

from collections.abc import Callable
import io
import os
import signal
import threading
import time

import pytest
from sections import counted, Run, Seen, SHARDY, sharding_of
import torch
import torch_xla
from torch_xla import _XLAC
import torch_xla.core.xla_model as xm
from torch_xla.shardy.bind import binder, graph_data
from torch_xla.shardy.compile import ledger


def _copied(t: torch.Tensor) -> None:
  torch.zeros(16, 16).copy_(t)


def _saved(t: torch.Tensor) -> None:
  xm.save({'t': t}, io.BytesIO())


def _branched(t: torch.Tensor) -> None:
  assert t.sum() > 0


# Each in a way of its own to `_XLAC`.
_READS: list[Callable[[torch.Tensor], None]] = [
    torch.Tensor.cpu,
    lambda t: t.sum().item(),
    _copied,
    _branched,
    lambda t: torch.equal(t, t + 1),
    lambda t: torch.histc(t, 4),
    _saved,
    lambda t: _XLAC._get_local_shards([t]),
    lambda t: _XLAC._xla_sync_live_tensors('', [], True),
    lambda t: _XLAC._xla_step_marker('', [], True),
]


def each_read(run: Run) -> Seen:
  """Every read twice, of a sum whose operands are about its first dimension."""
  w, v = (run.put((16, 16), (axis, None), (priority, None))
          for axis, priority in zip('xy', (1, 0)))
  torch_xla.sync()
  costs, told = [], []
  for place, read in enumerate(_READS):
    for _ in range(2):
      before = len(run.programs)
      t = torch.nn.functional.relu(w + v) + place
      run.mark(t, (None, None))
      costs.append(counted(read, t)[:2])
      told += run.said(before)
  return Seen(costs, told)


def seen_after(run: Run) -> Seen:
  """What a read gives data is laid out as priorities say."""
  shardings = []
  for priority in (0, 1), (1, 0):
    w, v = (run.put((16, 16), (axis, None), (p, None))
            for axis, p in zip('xy', priority))
    t = w + v
    t.cpu()
    shardings.append(sharding_of(t))
  return Seen(None, shardings=shardings)


def in_a_step(run: Run) -> Seen:
  """A read between the layers of a step, now and then, of what dies."""
  w = run.put((16, 16), ('x', None), (1, None))
  v = run.put((16, 16), ('y', None), (0, None))
  torch_xla.sync()
  costs, values = [], []
  for step in range(4):
    w.copy_(torch.ones(16, 16))
    h = w + v * 0
    if step % 2:
      values.append((h * 3).sum().item())
    out = h @ v * 0 + w
    w.mul_(2)
    costs.append(counted(torch_xla.sync))
    values.append([out.cpu().sum().item(), w.cpu().sum().item()])
  return Seen([costs, values])


def in_front_of_a_graph(run: Run) -> Seen:
  """Layers whose result a compiled function takes."""
  w = run.put((16, 16), ('x', None), (1, None))
  v = run.put((16, 16), ('y', None), (0, None))
  torch_xla.sync()
  f = torch.compile(lambda t: t * 2, backend='openxla')
  before = len(run.programs)

  def step() -> float:
    return f(w - v).sum().item()

  costs = [counted(step)[::2] for _ in range(3)]
  return Seen(costs, run.said(before))


@pytest.mark.slow
@pytest.mark.parametrize('section', [each_read])
def test_each_read_is_bound_and_costs_nothing(section, ways):
  """Reads of the same, and a sync of it, have one program."""
  seen = ways.on(section)
  operands = [("('x', None)", (1, None)), ("('y', None)", (0, None))]
  told = 'shardy', [*operands, ('(None, None)', None)]
  assert seen.said == [told] * sum(compiled for compiled, _ in seen.same)
  assert len(seen.said) > 4


@pytest.mark.parametrize('section', [seen_after])
def test_priorities_decide_what_a_read_computes(section, ways):
  one, other = ways.on(section).shardings
  assert one != other


@pytest.mark.slow
@pytest.mark.parametrize('section', [in_a_step, in_front_of_a_graph])
def test_as_without_priorities(section, ways):
  ways.on(section)


@pytest.mark.environment(**SHARDY)
def test_data_without_annotation_is_not_lost(run, caplog):
  """It is laid out as an annotated tensor that was used since the last sync."""
  w = run.put((8, 8), ('x', None), (1, None))
  torch_xla.sync()
  t = w + 1
  value, copy, resized = t.cpu(), torch.zeros(8, 8), torch.zeros(0)
  torch.ops.aten._copy_from(t * 2, copy)
  torch.ops.aten._copy_from_and_resize(t * 3, resized)
  assert torch.equal(copy, value * 2) and torch.equal(resized, value * 3)
  assert not caplog.records


@pytest.mark.environment(**SHARDY)
def test_graphs_of_another_build_are_said_to_be_unknown(run, caplog,
                                                        monkeypatch):
  monkeypatch.setattr(graph_data, '_DATA_IN_NODE', 608)
  w = run.put((8, 8), ('x', None), (1, None))
  before = len(run.programs)
  (w + 1).cpu()
  assert [
      p.tensors for p in run.programs[before:] if any(t.spec for t in p.tensors)
  ] == []
  assert 'has no priority here' in caplog.text


@pytest.mark.environment(**SHARDY)
def test_a_read_that_waited_for_a_sync_has_nothing_to_compute(run):
  w = run.put((8, 8), ('x', None), (1, None))
  t = w + 1
  reading = threading.Thread(target=t.cpu)
  with binder._execution:
    reading.start()
    time.sleep(.2)
    torch_xla.sync()
  reading.join()
  assert torch.equal(t.cpu(), w.cpu() + 1)


@pytest.mark.environment(**SHARDY)
@pytest.mark.parametrize('read',
                         [lambda t: torch_xla.sync(), lambda t: t.sum().item()])
def test_training_goes_on_after_ctrl_c(run, read):
  w = run.put((8, 8), ('x', None), (1, None))
  before = w.cpu()
  w.mul_(2)
  double = w * 2
  with ledger.process_ledger.watch(
      lambda *_: os.kill(os.getpid(), signal.SIGINT)):
    with pytest.raises(KeyboardInterrupt):
      read(double)
  w.add_(1)
  torch_xla.sync()  # Starts from what the interrupted one left.
  torch.testing.assert_close(double.cpu(), before * 4)
  torch.testing.assert_close(w.cpu(), before * 2 + 1)
