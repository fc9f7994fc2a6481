"""Annotated tensors in `torch.compile(backend='openxla')`."""

from lazy_test import START, Ways
from processes import output_of
import pytest

_SCRIPT = '''
def openxla(f):
  torch._dynamo.reset()
  return torch.compile(f, backend='openxla')

@section
def inference():
  model = mlp().to('xla')
  reference = mlp()
  mark_mlp(model)
  f = openxla(model)
  costs, errors, before = [], [], len(compiled)
  with torch.no_grad():
    for _ in range(5):
      x = torch.randn(8, 16)
      data = x.to('xla')
      mark(data, ('x', None), (0, None))
      outs = []
      costs.append(counted(lambda: (outs.append(f(data)), sync())))
      errors.append(error(outs[0], reference(x)))
  return {'same': [costs, max(errors) < 1e-4, len(outs)],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

def train(optimizer):
  model, reference = mlp().to('xla'), mlp()
  mark_mlp(model)
  f = openxla(model)
  o, ro = optimizer(model.parameters()), optimizer(reference.parameters())
  costs, errors, before = [], [], len(compiled)
  for _ in range(6):
    x = torch.randn(8, 16)
    data = x.to('xla')
    mark(data, ('x', None), (0, None))
    losses = []
    def step(f, o, x):
      o.zero_grad()
      loss = f(x).pow(2).mean()
      loss.backward()
      o.step()
      losses.append(loss.detach())
      sync()
    costs.append(counted(lambda: step(f, o, data)))
    step(reference, ro, x)
    errors.append(error(*losses))
  errors += [error(a, b)
             for a, b in zip(model.parameters(), reference.parameters())]
  return {'same': [costs, max(errors) < 1e-4,
                   [donated(p) for p in compiled[before:]]],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def training():
  return train(lambda p: torch.optim.SGD(p, lr=.1, momentum=.9))

@section
def training_adam():
  return train(lambda p: torch.optim.Adam(p, lr=1e-2))

@section
def inner_marks():
  w = put((16, 8), (None, 'y'), (None, 3))
  where = str(mesh)
  def g(x):
    h = torch.ops.xla.aot_mark_sharding(x @ w, where, "('x', None)", '(1, 2)')
    return h.relu()
  f = openxla(g)
  costs, errors, before = [], [], len(compiled)
  for _ in range(3):
    x = torch.randn(8, 16)
    data, outs = x.to('xla'), []
    costs.append(counted(lambda: (outs.append(f(data)), sync())))
    errors.append(error(outs[0], (x @ w.cpu()).relu()))
  return {'same': [costs, max(errors) < 1e-4],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def marks_with_gradients():
  w = torch.randn(16, 8).to('xla').requires_grad_()
  f = openxla(lambda x: xs.xla_sharding.mark_sharding_with_gradients(
      x @ w, mesh, ('x', None), priority=(1, None)).relu().sum())
  costs, errors, before = [], [], len(compiled)
  for _ in range(3):
    x = torch.randn(8, 16)
    data = x.to('xla')
    w.grad = None
    costs.append(counted(lambda: (f(data).backward(), sync())))
    cpu = w.detach().cpu().requires_grad_()
    (x @ cpu).relu().sum().backward()
    errors.append(error(w.grad, cpu.grad))
  return {'same': [costs[2:], max(errors) < 1e-4],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def buffers():
  class Counter(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.register_buffer('seen', torch.zeros(8, 8))
    def forward(self, x):
      self.seen.add_(x)
      return self.seen * 2
  model, reference = Counter().to('xla'), Counter()
  mark(model.seen, ('y', None), (1, None))
  f = openxla(model)
  costs, errors, before = [], [], len(compiled)
  for step in range(5):
    x = torch.ones(8, 8)
    data, outs = x.to('xla'), []
    mark(data, ('x', None), (0, None))
    costs.append(counted(lambda: (outs.append(f(data)), sync())))
    errors.append(error(outs[0], reference(x)))
    if step > 2:
      with torch.no_grad():
        model.seen.mul_(2), reference.seen.mul_(2)
      costs.append(counted(sync))
  errors.append(error(model.seen, reference.seen))
  return {'same': [costs[3:], max(errors)],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def changed():
  w, x = put((8, 8), ('y', None), (1, None)), put((8, 8), ('x', None), (0, None))
  f = openxla(lambda a: a + w)
  costs, results, right = [], [], []
  for priority in [1, 1, 1, None, 1, 1]:
    if priority is None:
      mark(w, ('y', None), (0, None))
      mark(x, ('x', None), (1, None))
    outs = []
    costs.append(counted(lambda: (outs.append(f(x)), sync())))
    results.append(_XLAC._get_xla_sharding_spec(outs[0]))
    right.append(error(outs[0], x.cpu() + w.cpu()))
  return {'same': right, 'costs': costs, 'results': results}

@section
def inputs_annotated_differently():
  w = put((8, 8), ('y', None), (1, None))
  first = put((8, 8), ('x', None), (0, None))
  second = put((8, 8), ('x', None), (2, None))
  f = openxla(lambda a: a + w)
  results = []
  for x in (first, first, second, second, first):
    out = f(x)
    sync()
    results.append(_XLAC._get_xla_sharding_spec(out))
  return {'same': [], 'results': results}

@section
def graph_break():
  w = put((16, 8), (None, 'y'), (None, 3))
  def g(x):
    h = x @ w
    torch._dynamo.graph_break()
    return (h.relu() @ w.t()).sum()
  f = openxla(g)
  costs, errors, before = [], [], len(compiled)
  for _ in range(3):
    x = torch.randn(8, 16)
    data, outs = x.to('xla'), []
    mark(data, ('x', None), (0, None))
    costs.append(counted(lambda: (outs.append(f(data)), sync())))
    errors.append(error(outs[0], ((x @ w.cpu()).relu() @ w.cpu().t()).sum()))
  return {'same': [costs[1:], max(errors) < 1e-3],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def unused_and_returned_arguments():
  w = put((8, 8), ('y', None), (1, None))
  f = openxla(lambda a, b: (a, b + 1, a))
  g = openxla(lambda a: a)
  costs, right = [], []
  for _ in range(3):
    x = put((8, 8), ('x', None), (0, None))
    outs = []
    costs.append(counted(lambda: (outs.append((f(w, x), g(w))), sync())))
    (a, b, c), d = outs[0]
    right += [error(a, w.cpu()), error(b, x.cpu() + 1), error(c, w.cpu()),
              error(d, w.cpu())]
  return {'same': [costs, right]}

def living_over(rows, calls):
  """XLA tensors alive after each call without a sync, the tracing left out."""
  w = put((256, 8), ('y', None), (1, None))
  f = openxla(lambda x: x @ w)
  alive = []
  for _ in range(calls + 2):
    x = put((rows, 256), ('x', None), (0, None))
    f(x).cpu()
    del x
    alive.append(living())
  return alive[2:]

@section
def no_syncs():
  large, small = living_over(1024, 4), living_over(8, 48)
  return {'same': [[b - a for a, b in zip(large, large[1:])],
                   max(small[24:]) - max(small[:24])]}

@section
def input_of_a_lazy_graph_too():
  w = put((8, 8), ('y', None), (1, None))
  f = openxla(lambda x: x @ w)
  def step(x):
    return f(x) + x + w
  results = []
  for _ in range(3):
    out = step(put((8, 8), ('x', None), (0, None)))  # It dies before the sync.
    sync()
    results.append(_XLAC._get_xla_sharding_spec(out))
  return {'same': [], 'results': results}

@section
def pending_annotated_argument():
  w = put((8, 8), ('y', None), (1, None))
  f = openxla(lambda a: a * 2)
  y = f(w)
  sync()
  expected = w.cpu()
  w.mul_(2)
  y = f(w)  # Updates w with a program of its own, and donates its old data.
  z = w + y
  sync()
  return {'same': [error(z, expected * 6)]}
'''

_MLP = [["('x', None)", '(0, None)'], ["('y', None)", '(1, None)'],
        ["(None, 'y')", '(None, 2)']]


@pytest.fixture(scope='module', name='ways')
def ways_fixture() -> Ways:
  return Ways(_SCRIPT)


def test_inference(ways):
  assert ways.on('inference')['said'] == [['shardy', _MLP]]


@pytest.mark.parametrize('section', ['training', 'training_adam'])
def test_training(section, ways):
  said = ways.on(section)['said']
  assert said and all(partitioner == 'shardy' for partitioner, _ in said)
  # Every priority in forward and in the update; backward has what it uses.
  assert sum(tensors == _MLP for _, tensors in said) >= 1
  assert all(t in _MLP for _, tensors in said for t in tensors)


def test_marks_inside(ways):
  assert ways.on('inner_marks')['said'] == [[
      'shardy', [["('x', None)", '(1, 2)'], ["(None, 'y')", '(None, 3)']]
  ]]


def test_marks_with_gradients(ways):
  """The first two steps compile: the second one program more than off."""
  said = ways.on('marks_with_gradients')['said']
  assert any(["('x', None)", '(1, None)'] in tensors for _, tensors in said)


def test_buffers_updated_in_place(ways):
  """As without priorities once it has settled: two compiles more before.

  The bridge keeps the first step's input alive, and that is annotated, too.
  """
  said = ways.on('buffers')['said']
  assert said and all(partitioner == 'shardy' for partitioner, _ in said)
  assert any(["('y', None)", '(1, None)'] in tensors for _, tensors in said)


def test_a_changed_priority_traces_once_and_takes_effect(ways):
  result = ways.on('changed')
  assert [c[0] for c in result['costs']] == [1, 0, 0, 1, 0, 0]
  over_x, over_y = result['results'][0], result['results'][3]
  assert over_x != over_y
  assert result['results'] == [over_x] * 3 + [over_y] * 3


def test_inputs_that_are_annotated_differently(ways):
  first, _, second, _, again = ways.on(
      'inputs_annotated_differently')['results']
  assert first != second
  assert again == first


def test_graph_breaks(ways):
  """In the first step dynamo clears the counters."""
  said = ways.on('graph_break')['said']
  assert [t for _, t in said].count([["('x', None)", '(0, None)'],
                                     ["(None, 'y')", '(None, 3)']]) == 1
  assert all(["(None, 'y')", '(None, 3)'] in t for _, t in said)


def test_unused_and_returned_arguments(ways):
  ways.on('unused_and_returned_arguments')


def test_annotated_argument_with_work_pending(ways):
  ways.on('pending_annotated_argument')


def _own(script: str, mode: str) -> str:
  return output_of(
      START + script, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', **{mode: '1'})


_DONATED = '''
w, x = put((8, 8), ('y', None), (1, None)), put((8, 8), ('x', None), (0, None))
sync()
@torch.compile(backend='openxla')
def f(x):
  torch.ops.xla.dynamo_set_buffer_donor_(x, True)
  return x + 1
expected = x.cpu() + 1
y = f(x)
z = w + 1
sync()
print('RIGHT', error(y, expected) + error(z, w.cpu() + 1))
'''


@pytest.mark.parametrize('mode', ['XLA_USE_SHARDY', 'XLA_SHARDING_V2'])
def test_donated_argument(mode):
  assert 'RIGHT 0.0' in _own(_DONATED, mode)


def test_inference_without_syncs_holds_few_inputs(ways):
  """Of large ones the last, of small ones no more after the tenth call."""
  ways.on('no_syncs')


def test_input_of_a_lazy_graph_too(ways):
  results = ways.on('input_of_a_lazy_graph_too')['results']
  # 'x' is propagated first.
  assert [r[:15] for r in results] == ['{devices=[2,1,4'] * 3
