"""Annotations follow tensors: cleared, viewed, tied, donated, dying, odd ones.
"""

from __future__ import annotations

import gc
import weakref

import pytest
from sections import (counted, donated, error, fails_to_sync, living, Run, Seen,
                      sharding_of, SHARDY, sync)
import torch
import torch_xla
from torch_xla import _XLAC
from torch_xla._dynamo.dynamo_bridge import alias_with_buffer_donor_config
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.bind import binding
from torch_xla.shardy.hlo import messages, protos

ENVIRONMENT = {}  # Beside the tests that need no child.
_X = ("('x', None)", (0, None))
_Y = ("('y', None)", (1, None))


def cleared_last(run: Run) -> Seen:
  a = run.put((8, 8), ('x', None), (0, None))
  b = run.put((8, 8), ('y', None), (1, None))
  xs.clear_sharding(b)
  c = a + b
  sync()
  return Seen([error(c, a.cpu() + b.cpu())])


@pytest.mark.parametrize('section', [cleared_last])
def test_clearing_any_annotated_tensor(section, ways):
  ways.on(section)


def inference(run: Run) -> Seen:
  """Made so or marked so, each in that mode and out of it, then updated."""
  same = []
  for made_in, marked_in in (True, False), (False, True), (True, True):
    with torch.inference_mode(made_in):
      t = torch.randn(8, 8).to('xla')
      expected = t.cpu()
    with torch.inference_mode(marked_in):
      run.mark(t, ('x', 'y'), (0, 1))
      same.append(counted(sync))
      product = t @ t
      same.append(counted(sync))
      with torch.inference_mode():
        t.add_(1)
      same += [counted(sync), error(product, expected @ expected) < 1e-4]
      same += [error(t, expected + 1), sharding_of(t)]
  return Seen(same)


@pytest.mark.parametrize('section', [inference])
def test_inference_tensors(section, ways):
  ways.on(section)


def views(run: Run) -> Seen:
  w = run.put((8, 16), ('x', 'y'), (1, 2))
  expected = w.cpu()
  before, costs = len(run.programs), []
  t, part = w.t(), w[2:6]
  out, out2 = t * 2, part + 1
  costs.append(counted(sync, out, out2))
  w[2:6].add_(1)
  expected[2:6] += 1
  w.t().mul_(2)
  expected *= 2
  costs.append(counted(sync))
  # A view of a base that is written after it was taken, then marked.
  base = w * 1
  view = base[0:4]
  base.add_(1)
  run.mark(view, ('x', None), (4, None))
  view.mul_(2)
  costs.append(counted(sync))
  changed = expected + 1
  changed[0:4] *= 2
  return Seen([
      costs,
      error(w, expected),
      error(base, changed),
      error(view, changed[0:4])
  ], run.said(before))


@pytest.mark.parametrize('section', [views])
def test_views(section, ways):
  seen = ways.on(section)
  assert seen.said
  assert all(partitioner == 'shardy' for partitioner, _ in seen.said)
  assert [("('x', 'y')", (1, 2))] in [tensors for _, tensors in seen.said]
  assert any(("('x', None)", (4, None)) in tensors for _, tensors in seen.said)


def many_marks(run: Run) -> Seen:
  sync()
  walks = []
  collect = binding.collect_operands
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(binding, 'collect_operands',
                  lambda *args: walks.append(args) or collect(*args))
    kept = [run.put((8, 8), ('x', None), (1, None)) for _ in range(128)]
  return Seen(len(kept), more=len(walks))


@pytest.mark.parametrize('section', [many_marks])
def test_marks_of_a_model_do_not_walk_all_marks_each(section, ways):
  """After 8, 24, 56 and 120: one walk for 8 marks is quadratic in them."""
  assert ways.on(section).more == 4


def dying(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (1, None), may_be_weight=False)
  sync()
  alive, costs, before = [], [], len(run.programs)
  for _ in range(4):
    x = run.put((8, 8), ('x', None), (0, None), may_be_weight=False)
    out = x @ w
    del x  # The program still starts from its data.
    costs.append(counted(sync))
    del out
    alive.append(living())
  return Seen([costs, [b - a for a, b in zip(alive, alive[1:])]],
              run.said(before))


@pytest.mark.parametrize('section', [dying])
def test_dead_tensors_keep_nothing_alive(section, ways):
  assert ways.on(section).said == [('shardy', [_X, _Y])]


def sharded_tensors(run: Run) -> Seen:
  w = run.mark(torch.randn(8, 24).to('xla'), ('y', None), (1, None))
  x = run.mark(torch.randn(8, 8).to('xla'), ('x', None), (0, None))
  before = len(run.programs)
  out = x @ w
  w.add_(1)
  cost = counted(sync)
  again = x @ w
  cost2 = counted(sync, again)
  return Seen([
      type(w).__name__, cost, cost2,
      error(out,
            x.cpu() @ (w.cpu() - 1)) < 1e-4
  ], run.said(before))


@pytest.mark.slow
@pytest.mark.parametrize('section', [sharded_tensors])
def test_sharded_tensor_arguments(section, ways):
  """An in-place update through one changes the runtime's tensor itself."""
  assert ways.on(section).said == [('shardy', [_X, _Y])] * 2


def _results(program: bytes) -> int:
  module = messages.parse(protos.HloModuleProto, program)
  entry, = (
      c for c in module.computations if c.id == module.entry_computation_id)
  root, = (i for i in entry.instructions if i.id == entry.root_id)
  return len(root.operand_ids) if root.opcode == 'tuple' else 1


def results_and_donations(run: Run) -> Seen:
  model = run.marked_mlp()
  unused = run.put((8, 8), ('x', None), (3, None))
  o = torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)
  before = len(run.programs)
  for _ in range(3):
    x = run.put((8, 16), ('x', None), (0, None))
    o.zero_grad()
    model(x).pow(2).mean().backward()
    o.step()
    sync(unused)
  for p in model.parameters():
    p.data.zero_()  # Does not start from its data.
  sync()
  mine = run.programs[before:]
  # A binding is one result more, for _XLAC; the compiled function's user does
  # not see it.
  bindings = [p.sent.count(b'torch_xla.shardy.bind ') for p in mine]
  return Seen([[_results(p.handed_on) - b for p, b in zip(mine, bindings)],
               [_results(p.sent) - b for p, b in zip(mine, bindings)],
               [donated(p) for p in mine],
               sum(p.cpu().abs().sum().item() for p in model.parameters())])


def donated_by_the_user(run: Run) -> Seen:
  given = run.put((8, 8), ('y', None), (1, None))
  v = run.put((8, 8), ('x', None), (0, None))
  expected = given.cpu()
  sync()
  _XLAC._set_buffer_donation(given, True)
  before = len(run.programs)
  with alias_with_buffer_donor_config():
    out = v + 1  # Has nothing to do with `given`.
    sync()
  kept = error(given, expected)
  with alias_with_buffer_donor_config():
    out = given + 1
    sync()
  mine = run.programs[before:]
  return Seen([kept, [donated(p) for p in mine], error(out, expected + 1)])


def kept_by_autograd_alone(run: Run) -> Seen:
  w = run.put((8, 8), ('x', None), (1, None)).requires_grad_()
  expected = 2 * w.detach().cpu()
  sync()
  before, loss = len(run.programs), (w * w).sum()
  del w
  gc.collect()
  costs = [counted(sync)]
  loss.backward()
  costs.append(counted(sync))
  product, _ = loss.grad_fn.next_functions[0]
  leaf, _ = product.next_functions[0]
  return Seen([costs, error(leaf.variable.grad, expected)], run.said(before))


@pytest.mark.slow
@pytest.mark.parametrize('section', [kept_by_autograd_alone])
def test_kept_by_autograd_alone(section, ways):
  """No Python name is left; the tensor and what was said of it are."""
  assert ways.on(section).said == [('shardy', [("('x', None)", (1, None))])] * 2


def looked_at(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (0, None))
  v = run.put((8, 8), ('x', None), (1, None))
  sync()
  costs, equal, shardings = [], [], []
  for looks in (0, 2, 0):
    w.add_(1)
    # An operand dies.
    out = run.put((8, 8), ('x', None), (2, None)) + w + v
    texts = [torch_xla.shardy.lower_text([out]) for _ in range(looks)]
    equal.append(len(set(texts)) <= 1)
    costs.append(counted(sync))
    shardings.append(sharding_of(out))
  return Seen([costs, equal], shardings=shardings)


@pytest.mark.slow
@pytest.mark.parametrize('section', [looked_at])
def test_looking_at_the_program_changes_nothing(section, ways):
  first, *others = ways.on(section).shardings
  assert first and others == [first] * 2


def after_a_failed_sync(run: Run) -> Seen:
  w = run.put((8, 8), ('y', None), (1, None), may_be_weight=False)
  x = run.put((8, 8), ('x', None), (0, None), may_be_weight=False)
  sync()
  failed = fails_to_sync(x)
  before, out = len(run.programs), x @ w
  w.add_(1)
  sync(out)
  return Seen([failed], run.said(before))


@pytest.mark.parametrize('section', [after_a_failed_sync])
def test_a_failed_sync_loses_no_priority(section, ways):
  assert ways.on(section).said == [('shardy', [_X, _Y])]


def given_other_data(run: Run) -> Seen:
  w = torch.nn.Parameter(torch.randn(8, 8).to('xla'))
  run.mark(w, ('y', None), (1, None))
  sync()
  w.data = torch.ones(8, 8).to('xla')
  costs = []
  for _ in range(2):
    out = w + 1
    costs.append(counted(sync))
  w.data = torch.ones(4, 4, 4, dtype=torch.bfloat16).to('xla')
  for _ in range(2):
    out2 = w + 1
    costs.append(counted(sync))
  return Seen([costs, out.sum().item(), out2.sum().item()])


@pytest.mark.parametrize('section', [
    pytest.param(results_and_donations, marks=pytest.mark.slow),
    donated_by_the_user, given_other_data
])
def test_as_without_priorities(section, ways):
  ways.on(section)


_WITHOUT_FUNCTIONALIZATION = pytest.mark.environment(
    **SHARDY, XLA_DISABLE_FUNCTIONALIZATION='1')


def _updated_in_place(run: Run) -> torch.Tensor:
  """A tensor that has been used and updated in place, and synced."""
  w = run.put((8, 8), ('y', None), (0, None))
  v = run.put((8, 8), ('x', None), (1, None))
  for _ in range(3):
    w.add_(1)
    c = w + v
    sync(c)
  return w


@_WITHOUT_FUNCTIONALIZATION
def test_updated_in_place_without_functionalization(run):
  """It is the runtime's tensor itself that is updated."""
  _updated_in_place(run)
  assert run.said(0) == [('shardy', [("('x', None)", (1, None)),
                                     ("('y', None)", (0, None))])]


@_WITHOUT_FUNCTIONALIZATION
def test_dies_without_functionalization(run):
  gone = weakref.ref(_updated_in_place(run))
  gc.collect()
  sync()
  assert gone() is None
