"""Annotations follow tensors: cleared, viewed, tied, donated, dying, odd ones.
"""

import json

from lazy_test import START, Ways
from processes import output_of
import pytest

_SCRIPT = '''
def results(program):
  module = proto.parse('HloModuleProto', program)
  entry, = (c for c in module.computations if c.id == module.entry_computation_id)
  root, = (i for i in entry.instructions if i.id == entry.root_id)
  return len(root.operand_ids) if root.opcode == 'tuple' else 1

@section
def cleared():
  a, b = put((8, 8), ('x', None), (0, None)), put((8, 8), ('y', None), (1, None))
  before = len(compiled)
  xs.clear_sharding(a)
  mark(a, ('x', None), (2, None))
  c = a + b
  sync()
  return {'same': [error(c, a.cpu() + b.cpu())],
          'said': [said(p) for p in compiled[before:] if p.tensors],
          'result': _XLAC._get_xla_sharding_spec(c)}

@section
def cleared_last():
  a, b = put((8, 8), ('x', None), (0, None)), put((8, 8), ('y', None), (1, None))
  xs.clear_sharding(b)
  c = a + b
  sync()
  return {'same': [error(c, a.cpu() + b.cpu())]}

@section
def views():
  w = put((8, 16), ('x', 'y'), (1, 2))
  expected = w.cpu()
  before, costs = len(compiled), []
  t, part = w.t(), w[2:6]
  out, out2 = t * 2, part + 1
  costs.append(counted(sync))
  w[2:6].add_(1)
  expected[2:6] += 1
  w.t().mul_(2)
  expected *= 2
  costs.append(counted(sync))
  # A view of a base that is written after it was taken, then marked.
  base = w * 1
  view = base[0:4]
  base.add_(1)
  mark(view, ('x', None), (4, None))
  view.mul_(2)
  costs.append(counted(sync))
  changed = expected + 1
  changed[0:4] *= 2
  return {'same': [costs, error(w, expected), error(base, changed),
                   error(view, changed[0:4])],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def tied():
  class Tied(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.embedding = torch.nn.Embedding(32, 16)
      self.head = torch.nn.Linear(16, 32, bias=False)
      self.head.weight = self.embedding.weight
    def forward(self, x):
      return self.head(self.embedding(x))
  reference = Tied()
  model = copy.deepcopy(reference).to('xla')
  model.head.weight = model.embedding.weight
  mark(model.head.weight, ('y', None), (0, None))
  mark(model.embedding.weight, ('y', None), (2, None))
  o, ro = (torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
           for m in (model, reference))
  costs, before = [], len(compiled)
  for _ in range(5):
    x = torch.randint(0, 32, (8, 4))
    for m, optimizer, given in ((reference, ro, x), (model, o, x.to('xla'))):
      optimizer.zero_grad()
      m(given).pow(2).mean().backward()
      optimizer.step()
    costs.append(counted(sync))
  return {'same': [costs, error(model.head.weight, reference.head.weight) < 1e-4],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def dying():
  w = put((8, 8), ('y', None), (1, None), False)
  sync()
  start, counts_, costs, before = living(), [], [], len(compiled)
  for _ in range(4):
    x = put((8, 8), ('x', None), (0, None), False)
    out = x @ w
    del x  # The program still starts from its data.
    costs.append(counted(sync))
    del out
    counts_.append(living() - start)
  del w
  sync()
  counts_.append(living() - start)
  return {'same': [costs, counts_],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def sharded_tensors():
  w = mark(torch.randn(8, 8).to('xla'), ('y', None), (1, None))
  x = mark(torch.randn(8, 8).to('xla'), ('x', None), (0, None))
  before = len(compiled)
  out = x @ w
  w.add_(1)
  cost = counted(sync)
  again = x @ w
  cost2 = counted(sync)
  return {'same': [type(w).__name__, cost, cost2,
                   error(out, x.cpu() @ (w.cpu() - 1)) < 1e-4],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def results_and_donations():
  model = mlp().to('xla')
  mark_mlp(model)
  unused = put((8, 8), ('x', None), (3, None))
  o = torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)
  before = len(compiled)
  for _ in range(3):
    x = put((8, 16), ('x', None), (0, None))
    o.zero_grad()
    model(x).pow(2).mean().backward()
    o.step()
    sync()
  for p in model.parameters():
    p.data.zero_()  # Does not start from its data.
  sync()
  mine = compiled[before:]
  # A binding is one result more, for _XLAC; the compiled function's user does
  # not see it.
  bindings = [p.sent.count(b'torch_xla.shardy.bind ') for p in mine]
  return {'same': [[results(p.handed_on) - b for p, b in zip(mine, bindings)],
                   [results(p.sent) - b for p, b in zip(mine, bindings)],
                   [donated(p) for p in mine],
                   sum(p.cpu().abs().sum().item() for p in model.parameters())]}

@section
def donated_by_the_user():
  given = put((8, 8), ('y', None), (1, None))
  v = put((8, 8), ('x', None), (0, None))
  expected = given.cpu()
  sync()
  _XLAC._set_buffer_donation(given, True)
  from torch_xla._dynamo.dynamo_bridge import alias_with_buffer_donor_config
  before = len(compiled)
  with alias_with_buffer_donor_config():
    out = v + 1  # Has nothing to do with `given`.
    sync()
  kept = error(given, expected)
  with alias_with_buffer_donor_config():
    out = given + 1
    sync()
  mine = compiled[before:]
  return {'same': [kept, [donated(p) for p in mine], error(out, expected + 1)]}

@section
def odd_ones():
  made, right = [], []
  for dtype in (torch.bfloat16, torch.int32, torch.int64, torch.bool,
                torch.float16, torch.uint8):
    made.append((torch.ones(8, 8, dtype=dtype), ('x', 'y'), (1, 0)))
  made += [(torch.ones(2, 2, 2, 2, 2), ('x', None, None, None, None),
            (1, None, 2, None, 3)),
           (torch.ones(8, 1), ('x', None), (0, 1)),
           (torch.tensor(3.), (), ()), (torch.ones(0, 8), (None, 'y'), (1, 2))]
  before, tensors = len(compiled), []
  for t, spec, priority in made:
    data = t.to('xla')
    mark(data, spec, priority)
    pending = t.to('xla') * torch.ones_like(t).to('xla')
    mark(pending, spec, priority)
    tensors.append((t, data, pending, data == data, pending * 1))
  cost = counted(sync)
  for t, data, pending, same, once in tensors:
    right += [torch.equal(data.cpu(), t), torch.equal(pending.cpu(), t),
              torch.equal(once.cpu(), t), bool(same.cpu().all())]
  return {'same': [cost, right],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def kept_by_autograd_alone():
  w = put((8, 8), ('x', None), (1, None)).requires_grad_()
  expected = 2 * w.detach().cpu()
  sync()
  before, loss = len(compiled), (w * w).sum()
  del w
  gc.collect()
  costs = [counted(sync)]
  loss.backward()
  costs.append(counted(sync))
  product, _ = loss.grad_fn.next_functions[0]
  leaf, _ = product.next_functions[0]
  return {'same': [costs, error(leaf.variable.grad, expected)],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def looked_at():
  w, v = put((8, 8), ('y', None), (0, None)), put((8, 8), ('x', None), (1, None))
  sync()
  costs, equal, results = [], [], []
  for looks in (0, 2, 0):
    w.add_(1)
    out = put((8, 8), ('x', None), (2, None)) + w + v  # An operand dies.
    texts = [torch_xla.shardy.lower_text([out]) for _ in range(looks)]
    equal.append(len(set(texts)) <= 1)
    costs.append(counted(sync))
    results.append(_XLAC._get_xla_sharding_spec(out))
  return {'same': [costs, equal], 'results': results}

@section
def after_a_failed_sync():
  w = put((8, 8), ('y', None), (1, None), False)
  x = put((8, 8), ('x', None), (0, None), False)
  sync()
  failed = fails_to_sync(x)
  before, out = len(compiled), x @ w
  w.add_(1)
  sync()
  return {'same': [failed],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def given_other_data():
  w = torch.nn.Parameter(torch.randn(8, 8).to('xla'))
  mark(w, ('y', None), (1, None))
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
  return {'same': [costs, out.sum().item(), out2.sum().item()]}
'''

_BOTH = [["('x', None)", '(0, None)'], ["('y', None)", '(1, None)']]


@pytest.fixture(scope='module', name='ways')
def ways_fixture() -> Ways:
  return Ways(_SCRIPT)


def test_marked_again_after_clearing(ways):
  result = ways.on('cleared')
  assert result['said'] == [[
      'shardy', [["('x', None)", '(2, None)'], ["('y', None)", '(1, None)']]
  ]]
  # Now 'y' is propagated first.
  assert result['result'].startswith('{devices=[4,1,2]')


def test_clearing_any_annotated_tensor(ways):
  ways.on('cleared_last')


def test_views(ways):
  said = ways.on('views')['said']
  assert said and all(partitioner == 'shardy' for partitioner, _ in said)
  assert [["('x', 'y')", '(1, 2)']] in [tensors for _, tensors in said]
  assert any(["('x', None)", '(4, None)'] in tensors for _, tensors in said)


def test_tied_weights_have_the_last_annotation(ways):
  said = ways.on('tied')['said']
  assert said == [['shardy', [["('y', None)", '(2, None)']]]] * len(said) != []


def test_dead_tensors_keep_nothing_alive(ways):
  said = ways.on('dying')['said']
  assert said == [['shardy', _BOTH]]


def test_sharded_tensor_arguments(ways):
  """An in-place update through one leaves its data unknown: no priority."""
  said = ways.on('sharded_tensors')['said']
  assert said
  for partitioner, tensors in said:
    assert partitioner == 'shardy'
    assert ["('x', None)", '(0, None)'] in tensors


@pytest.mark.parametrize('section', [
    'results_and_donations',
    'donated_by_the_user',
    'given_other_data',
])
def test_as_without_priorities(section, ways):
  ways.on(section)


def test_looking_at_the_program_changes_nothing(ways):
  first, *others = ways.on('looked_at')['results']
  assert first and others == [first] * 2


def test_a_failed_sync_loses_no_priority(ways):
  said = ways.on('after_a_failed_sync')['said']
  assert said == [['shardy', _BOTH]]


def test_kept_by_autograd_alone(ways):
  """No Python name is left; the tensor and what was said of it are."""
  said = ways.on('kept_by_autograd_alone')['said']
  assert said == [['shardy', [["('x', None)", '(1, None)']]]] * 2


def test_odd_ones(ways):
  (partitioner, tensors), = ways.on('odd_ones')['said']
  assert partitioner == 'shardy'
  assert ["('x', 'y')", '(1, 0)'] in tensors


_UNFUNCTIONALIZED = '''
import weakref
w = put((8, 8), ('y', None), (0, None))
v = put((8, 8), ('x', None), (1, None))
for step in range(3):
  w.add_(1)
  c = w + v
  sync()
print('PROGRAMS', json.dumps([said(p) for p in compiled if p.tensors]))
gone = weakref.ref(w)
del w
gc.collect()
sync()
print('GONE', gone() is None)
'''


@pytest.fixture(scope='module', name='unfunctionalized')
def unfunctionalized_fixture() -> str:
  return output_of(
      START + _UNFUNCTIONALIZED,
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8',
      XLA_USE_SHARDY='1',
      XLA_DISABLE_FUNCTIONALIZATION='1')


def test_updated_in_place_without_functionalization(unfunctionalized):
  """What is updated in place loses its priority; the others keep theirs."""
  (line,) = (l for l in unfunctionalized.splitlines() if 'PROGRAMS' in l)
  programs = json.loads(line.split(' ', 1)[1])
  assert programs
  for partitioner, tensors in programs:
    assert partitioner == 'shardy'
    assert ["('x', None)", '(1, None)'] in tensors


def test_dies_without_functionalization(unfunctionalized):
  assert 'GONE True' in unfunctionalized
