"""What the binder keeps, and when: in one process, with Shardy."""

import threading

import pytest
from sections import counted, fails_to_sync, Run, SHARDY, sync
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.shardy import bind, door

ENVIRONMENT = SHARDY


def _product(run: Run, input_first: bool) -> list[int]:
  """What a sync costs, of an input and a weight annotated in either order."""
  x, w = torch.randn(8, 16).to('xla'), torch.randn(16, 8).to('xla')
  marks = [(x, ('x', None), (0, None)), (w, (None, 'y'), (None, 1))]
  for t, spec, priority in marks if input_first else reversed(marks):
    run.mark(t, spec, priority)
  out = x @ w
  return counted(sync, out)


def test_the_order_of_annotation_makes_no_other_program(run):
  """A thread that loads inputs runs now ahead of the model, now behind."""
  assert _product(run, input_first=True) == [1, 0, 0]
  assert _product(run, input_first=False) == [0, 1, 0]


def test_another_thread_annotates_between_syncs(run):
  """A sync fails where it meets a tensor on its way from a node to data."""
  w, t = run.put((8, 8), ('x', None), (0, None)), torch.randn(8, 8).to('xla')
  annotated = threading.Event()
  during = []

  def annotate() -> None:
    run.mark(t, ('y', None), (1, None))
    annotated.set()

  def watch(compilation, rest) -> None:
    thread.start()
    during.append(annotated.wait(1))
    rest(compilation)

  thread = threading.Thread(target=annotate)
  undo = door.wrap(watch)
  out = w * 3
  sync(out)
  undo()
  thread.join()
  assert during == [False]
  assert annotated.is_set()


def test_another_thread_annotates_after_a_sync_that_failed(run):
  w, t = run.put((8, 8), ('x', None), (0, None)), torch.randn(8, 8).to('xla')
  assert fails_to_sync(w)
  thread = threading.Thread(
      target=run.mark, args=(t, ('y', None), (1, None)), daemon=True)
  thread.start()
  thread.join(20)
  assert bind.binder.annotation_of(t).priority == (1, None)


@pytest.mark.parametrize('clears', [True, False])
def test_clearing_a_pending_tensor(run, clears):
  """It lies as its mark asked for all the same."""
  t = torch.ones(8, 8).to('xla') * 2
  run.mark(t, (None, None), (1, None))
  if clears:
    xs.clear_sharding(t)
  sync(t)
  assert (bind.binder.annotation_of(t) is None) == clears


def test_a_pending_mark_counts_once_it_has_data(run):
  """The last one, of several."""
  t = torch.ones(8, 8).to('xla') * 2
  run.mark(t, ('x', None), (1, None))
  run.mark(t, ('x', None), (3, None))
  sync(t)
  assert bind.binder.annotation_of(t).priority == (3, None)
  with torch_xla.shardy.record() as programs:
    out = t + 1
    sync(out)
  assert run.said(len(run.programs) - 1) == [('shardy', [("('x', None)",
                                                          (3, None))])]
  assert len(programs) == 1


def test_constraining_a_weight_keeps_what_was_said_of_it(run):
  """Also of one that was updated, whose old data nobody has."""
  w = run.put((8, 8), ('x', None), (0, None))
  w.add_(1)
  sync()
  out, before = w * 2, len(run.programs)
  xs.annotate_custom_sharding(w, run.mesh, ('x', None))
  sync(out)
  assert (0, None) in [
      t.priority
      for t in run.programs[before].tensors
      if t.parameter is not None
  ]
