"""Annotations of tensors that are given other data between syncs."""

from __future__ import annotations

import logging

import pytest
from sections import SHARDY
import torch
import torch_xla
from torch_xla import _XLAC
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.bind import binder

ENVIRONMENT = SHARDY


def _train(mesh: xs.Mesh, size: int, loads: bool, is_synced: bool = False):
  """The programs of two steps, and the losses."""
  torch.manual_seed(0)
  model = torch.nn.Sequential(
      torch.nn.Linear(16, size), torch.nn.Linear(size, 8))
  state = {k: v.clone() for k, v in model.state_dict().items()}
  model.to('xla')
  xs.mark_sharding(model[0].weight, mesh, ('y', None), priority=(1, None))
  xs.mark_sharding(model[1].weight, mesh, (None, 'y'), priority=(None, 2))
  if is_synced:
    torch_xla.sync()
  if loads:
    model.load_state_dict(state)
  optimizer = torch.optim.SGD(model.parameters(), lr=.1)
  losses = []
  with torch_xla.shardy.record() as programs:
    for _ in range(2):
      x = torch.ones(8, 16).to('xla')
      xs.mark_sharding(x, mesh, ('x', None), priority=(0, None))
      loss = model(x).square().mean()
      loss.backward()
      optimizer.step()
      optimizer.zero_grad()
      torch_xla.sync()
      losses.append(loss.item())
  return [p for p in programs if p.tensors and any(t.spec for t in p.tensors)
         ], losses


@pytest.mark.parametrize('is_synced', [False, True], ids=['new', 'synced'])
def test_a_resumed_run_is_the_program_of_a_fresh_one(is_synced, mesh):
  size = 40 if is_synced else 24
  fresh, losses = _train(mesh, size, loads=False)
  resumed, same_losses = _train(mesh, size, loads=True, is_synced=is_synced)
  assert fresh and not resumed  # It compiles none.
  assert losses == same_losses


def test_both_data_of_a_tensor_are_bound(mesh):
  w = torch.full((8, 56), 2.).to('xla')
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    before = w + 1
    w.copy_(torch.full((8, 56), 3.))
    after = w * 2
    del w  # What it was given stays bound.
    torch_xla.sync()
  assert [(t.spec, t.priority) for t in programs[0].tensors if t.spec
         ] == 2 * [("('y', None)", (1, None))]
  assert (before.unique().tolist(), after.unique().tolist()) == ([3.], [6.])


def test_a_tensor_marked_while_pending(mesh):
  w = torch.zeros(8, 72, device='xla')
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  w.copy_(torch.ones(8, 72))
  with torch_xla.shardy.record() as programs:
    out = w * 2
    torch_xla.sync()
  assert [t.priority for t in programs[-1].tensors if t.spec] == [(1, None)]
  assert out.unique().tolist() == [2.]
  assert binder.annotation_of(w) is not None


def test_updates_of_a_pending_tensor(mesh):
  """Each of them, also with another tensor marked in between."""
  w = torch.zeros(8, 120, device='xla')
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  w.uniform_()
  x = torch.zeros(8, 120, device='xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(4, None))
  w.uniform_()
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  # The next priority, for whatever has none, would be 5.
  said = {t.sdy for t in programs[-1].tensors if '"y"' in t.sdy}
  assert len(said) == 1 and '{"y"}p1' in said.pop()


def test_a_tensor_that_is_placed_otherwise_stays_so(mesh):
  """The annotation says nothing of it, and the update no other thing."""
  w = torch.zeros(8, 88).to('xla')
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  torch_xla.sync()
  w.data = torch.ones(8, 88).to('xla')
  w.copy_(torch.ones(8, 88))
  out = w * 2
  torch_xla.sync()
  assert out.unique().tolist() == [2.]
  assert 'devices' not in _XLAC._get_xla_sharding_spec(w)


def test_a_read_without_annotations_is_said(mesh, caplog):
  w = torch.ones(8, 104).to('xla')
  torch_xla.shardy.name_tensors({'table': w})
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  torch_xla.sync()
  out = (w * 3).sum()
  with torch_xla.shardy.record() as programs, caplog.at_level(logging.WARNING):
    torch_xla._XLAC._xla_warm_up_cache([out], [])
  assert [p.lost for p in programs] == [('table',)]
  assert '1 without their annotation: table' in str(programs[0])
  assert sum('table' in r.getMessage() for r in caplog.records) == 1
  torch_xla.sync()


def test_a_read_counts_what_it_goes_without(mesh):
  w = torch.zeros(8, 96).to('xla')
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  w.data = torch.ones(8, 96).to('xla')
  with torch_xla.shardy.record() as programs:
    assert (w + 1).sum().item() == 2 * 8 * 96
  assert [p.lost for p in programs] == [('a tensor of shape (8, 96)',)]
