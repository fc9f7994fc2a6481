"""A marked tensor that is pending is computed once, and lies as it is marked.

Nothing that shares its value may keep it unmarked: that would be one more
result of the program, whole on each device.
"""

from __future__ import annotations

from collections.abc import Callable
import itertools
import os

import numpy as np
import processes
import pytest
from sections import DEVICES, SHARDY, V2
import torch
import torch_xla
from torch_xla import _XLAC
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.annotate.call_target import is_binding
from torch_xla.shardy.hlo import messages, protos

_MODES = {'off': DEVICES, 'v2': V2, 'shardy': SHARDY}

# Takes a tensor with data that no one has marked, and how to mark one; gives
# what is looked at after a sync, a marked one first. No two have one program.
_Case = Callable[[torch.Tensor, Callable], list[torch.Tensor]]


def made(data, mark):
  t = data * 2
  mark(t)
  mark(t)
  return [t]


def updated_before(data, mark):
  t = data * 2
  t.add_(1)
  t[0] = 5
  mark(t)
  return [t]


def updated_after(data, mark):
  t = data * 2
  mark(t)
  t.add_(1)
  return [t]


def marked_and_updated(data, mark):
  mark(data)
  data.mul_(2)
  mark(data)
  return [data]


def seen_in_a_view(data, mark):
  t = data * 2
  view = t.view(8, 16)
  mark(t)
  t.add_(1)
  return [t, view]


def view_of_it(data, mark):
  t = data * 2
  view = t.view(8, 16)
  mark(view)
  return [view, t]


def aliases(data, mark):
  t = data * 2
  detached, same = t.detach(), t.data
  mark(t)
  return [t, detached, same]


def saved_for_backward(data, mark):
  w = data.requires_grad_()
  t = (w * 3).exp()
  mark(t)
  (t * t).sum().backward()
  return [t.detach(), w.grad]


def constrained_data(data, mark):
  before = data * 2
  mark(data, constrains=True)
  after = data * 3
  return [data, before, after]


def dies(data, mark):
  t = data * 2
  mark(t)
  return [t.sum()]


# What their programs have for results.
_CASES: dict[_Case, int] = {
    made: 1,
    updated_before: 1,
    updated_after: 1,
    marked_and_updated: 1,
    seen_in_a_view: 2,
    view_of_it: 2,
    aliases: 1,
    saved_for_backward: 2,
    constrained_data: 3,
    dies: 1
}


def _seen() -> dict[str, tuple[int, int, list[float]]]:
  """The results of each case, the first one's bytes on a device, and sums."""
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))

  def mark(t: torch.Tensor, constrains: bool = False) -> None:
    how = xs.annotate_custom_sharding if constrains else xs.mark_sharding
    how(t, mesh, ('x', 'y'))

  seen = {}
  for case in _CASES:
    data = torch.ones(16, 8).to('xla')
    torch_xla.sync()
    tensors: list[torch.Tensor] = []
    results = _results_of(lambda: tensors.extend(case(data, mark)))
    (part, _), *_ = _XLAC._get_local_shards(tensors[:1])[0]
    seen[case.__name__] = (results, part.nbytes,
                           [t.sum().item() for t in tensors])
  return seen


def _results_of(trace: Callable[[], None]) -> int:
  """The results of all that a trace and a sync execute, bindings aside."""
  path = os.environ.get('XLA_SAVE_TENSORS_FILE')
  if path is None:
    with torch_xla.shardy.record() as programs:
      trace()
      torch_xla.sync(wait=True)
    return sum(len(_roots(program.sent)) for program in programs)
  path += '.0'
  before = os.path.getsize(path) if os.path.exists(path) else 0
  trace()
  torch_xla.sync(wait=True)
  with open(path, encoding='utf-8') as file:
    file.seek(before)
    return file.read().count(', ROOT=')


def _roots(program: bytes) -> list[str]:
  module = messages.parse(protos.HloModuleProto, program)
  entry, = (
      c for c in module.computations if c.id == module.entry_computation_id)
  by_id = {i.id: i for i in entry.instructions}
  roots = [by_id[i] for i in by_id[entry.root_id].operand_ids]
  return [i for i in roots if not is_binding(i.custom_call_target)]


@pytest.fixture(
    scope='module',
    params=[
        pytest.param((mode, is_functional),
                     marks=[] if mode == 'shardy' or is_functional else
                     [pytest.mark.nightly])
        for mode, is_functional in itertools.product(_MODES, (True, False))
    ],
    ids=lambda p: f'{p[0]}-{"" if p[1] else "not-"}functional',
    name='seen')
def seen_fixture(request, tmp_path_factory):
  mode, is_functional = request.param
  variables = dict(_MODES[mode])
  if not is_functional:
    variables['XLA_DISABLE_FUNCTIONALIZATION'] = '1'
  if mode == 'off':
    path = tmp_path_factory.mktemp('graphs') / 'saved'
    variables['XLA_SAVE_TENSORS_FILE'] = str(path)
  return processes.call(_seen, **variables).value


@pytest.mark.parametrize('case', _CASES, ids=lambda case: case.__name__)
def test_computed_once(case, seen):
  results, nbytes, sums = seen[case.__name__]
  right = case(torch.ones(16, 8), lambda *_, **__: None)
  assert sums == pytest.approx([t.sum().item() for t in right])
  assert results == _CASES[case]
  assert nbytes == (4 if case is dies else 16 * 8 * 4 // 8)
