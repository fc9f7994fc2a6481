"""Weights, whose binding is made ahead, where something happens to one of them.

`lazy_test` and `tensors_test` run their scripts with weights as well.
"""

from lazy_test import START, Ways
from processes import output_of
import pytest

_SCRIPT = '''
import torch_xla.core.xla_model as xm
from torch_xla._dynamo.dynamo_bridge import alias_with_buffer_donor_config

sizes = iter(range(8, 800, 8))

def two():
  """Weights that have lived through a sync, and what they add up to.

  Of a new size, as no section is to find the program of another in the cache.
  """
  shape = (8, next(sizes))
  w, v = (torch.nn.Parameter(torch.randn(shape).to('xla'), requires_grad=False)
          for _ in range(2))
  mark(w, ('y', None), (1, None))
  mark(v, ('x', None), (2, None))
  sync()
  return w, v, (w.cpu() + v.cpu()), len(compiled)

def summed_twice(w, v, expected):
  """What two sums, an update apart, cost and whether they are right."""
  out = w + v
  costs = [counted(sync)]
  w.add_(1)
  v.add_(1)
  out2 = w + v
  costs.append(counted(sync))
  return [costs, error(out, expected) < 1e-5, error(out2, expected + 2) < 1e-5]

def of_syncs(before):
  return [said(p) for p in compiled[before:] if p.tensors]

@section
def one_of_two_dies():
  w, v, total, before = two()
  del w
  out = v + 1
  v.add_(1)
  costs = [counted(sync), counted(sync)]
  return {'same': [costs, error(out, v.cpu()) < 1e-5],
          'said': of_syncs(before)}

@section
def dies_while_pending():
  w, v, total, before = two()
  out = w + v
  v.add_(1)
  del w
  costs = [counted(sync)]
  v.add_(1)
  costs.append(counted(sync))
  return {'same': [costs, error(out, total) < 1e-5], 'said': of_syncs(before)}

@section
def read_while_pending():
  w, v, total, before = two()
  w.add_(1)
  w.cpu()
  v.add_(1)
  return {'same': summed_twice(w, v, total + 2), 'said': of_syncs(before)}

@section
def donated_between_syncs():
  w, v, total, before = two()
  costs = []
  for _ in range(3):
    w.add_(1)
    v.add_(1)
    xm.unlazy([w])  # Runs a graph that takes the data which w had.
    w.add_(1)
    out = w + v
    costs.append(counted(sync))
  return {'same': [costs, error(out, total + 9) < 1e-4],
          'said': of_syncs(before)}

@section
def donated_and_dead():
  w, v, total, before = two()
  w.add_(1)
  v.add_(1)
  xm.unlazy([w])
  del w
  return {'same': [counted(sync)], 'said': of_syncs(before)}

@section
def given_other_data_and_marked_as_before():
  w, v, total, before = two()
  w.data = torch.ones(w.shape).to('xla')
  mark(w, ('y', None), (1, None))
  w.add_(1)
  out = w * 1
  costs = [counted(sync)]
  return {'same': [costs, error(out, torch.full(w.shape, 2.)) < 1e-5],
          'said': of_syncs(before)}

@section
def loaded_while_pending():
  w, v, total, before = two()
  for t in (w, v):
    t.copy_(torch.ones(t.shape))
    t.add_(1)
  return {'same': summed_twice(w, v, torch.full(w.shape, 4.)),
          'said': of_syncs(before)}

@section
def marked_anew_while_pending():
  w, v, total, before = two()
  v.add_(1)
  mark(w, ('y', None), (7, None))
  out = w + v
  right = [counted(sync)]
  right.append(error(out, total + 1) < 1e-5)
  return {'same': right, 'said': of_syncs(before)}

@section
def cleared():
  w, v, total, before = two()
  xs.clear_sharding(w)
  out = w + v
  v.add_(1)
  costs = [counted(sync)]
  return {'same': [costs, error(out, total) < 1e-5], 'said': of_syncs(before)}

@section
def cleared_while_pending():
  w, v, total, before = two()
  v.add_(1)
  xs.clear_sharding(w)
  out = w + v
  costs = [counted(sync)]
  out2 = w * 2
  costs.append(counted(sync))
  return {'same': [costs, error(out, total + 1) < 1e-5],
          'said': of_syncs(before)}

@section
def second_model():
  models = [torch.nn.Linear(16, n, bias=False).to('xla') for n in (16, 32)]
  costs, before = [], len(compiled)
  for model in models:
    mark(model.weight, ('y', None), (1, None))
    o = torch.optim.SGD(model.parameters(), lr=.1)
    for _ in range(3):
      x = torch.randn(8, 16).to('xla')
      mark(x, ('x', None), (0, None))
      o.zero_grad()
      model(x).square().mean().backward()
      o.step()
      costs.append(counted(sync))
  return {'same': [costs], 'said': of_syncs(before)}

@section
def donated_by_the_user():
  w, v, total, before = two()
  _XLAC._set_buffer_donation(w, True)
  with alias_with_buffer_donor_config():
    out = w + 1
    out.cpu()
    v.add_(1)
    sync()
  out = v * 1
  sync()
  return {'same': [bool(out.isfinite().all())]}

@section
def eager_in_between():
  from torch_xla.experimental import eager_mode
  w, v, total, before = two()
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
  return {'same': [costs, error(out, total) < 1e-5,
                   error(w + v, total + 7) < 1e-5]}

@section
def failed_sync():
  w, v, total, before = two()
  result = [fails_to_sync(v)]
  before = len(compiled)
  w.add_(1)
  out = w + v
  sync()
  result.append(error(out, total + 1) < 1e-5)
  w.add_(1)
  out = w + v
  sync()
  result.append(error(out, total + 2) < 1e-5)
  return {'same': result, 'said': of_syncs(before)}

@section
def looked_at():
  w, v, total, before = two()
  w.add_(1)
  mark(v, ('x', None), (2, None))  # As it is.
  out = w + v
  texts = {torch_xla.shardy.lower_text([out]) for _ in range(2)}
  costs = [counted(sync), counted(sync)]
  return {'same': [len(texts), costs], 'said': of_syncs(before),
          'priorities': [p in text for text in texts for p in ('}p1', '}p2')]}

# Last: what torch.compile keeps, it frees at any time.
@section
def donated_by_a_compiled_graph():
  w, v, total, before = two()
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
  return {'same': [right]}

@section
def donated_as_asked_for_by_a_compiled_graph():
  from torch_xla._internal import custom_kernel  # Defines the operator.
  w, v, total, before = two()
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
  return {'same': [error(w + v, total + 12) < 1e-4]}

@section
def updated_between_calls_of_a_compiled_graph():
  w, v, total, before = two()
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
  return {'same': [right, error(w + v, total + 12) < 1e-4]}

@section
def compiled_between_steps():
  w, v, total, before = two()
  def step():
    w.add_(1)
    out = w + v
    return counted(sync)
  costs = [step()]
  graph = torch.compile(lambda w: w * 2, backend='openxla')
  graph(w)
  plain = torch.compile(lambda x: x * 3, backend='openxla')
  plain(torch.ones(4).to('xla'))
  costs.append(step())
  return {'same': [costs], 'said': of_syncs(before)}
'''

_W = ["('y', None)", '(1, None)']
_V = ["('x', None)", '(2, None)']


@pytest.fixture(scope='module', name='ways')
def ways_fixture() -> Ways:
  return Ways(_SCRIPT)


@pytest.mark.parametrize('section,programs', [
    ('one_of_two_dies', [[_V]]),
    ('dies_while_pending', [[_V, _W], [_V]]),
    ('marked_anew_while_pending', [[_V, ["('y', None)", '(7, None)']]]),
    ('given_other_data_and_marked_as_before', [[_V, _W]]),
    ('cleared', [[_V]]),
    ('cleared_while_pending', [[_V, _W], [_V]]),
    ('second_model', [[["('x', None)", '(0, None)'], _W]] * 2),
    ('compiled_between_steps', [[_V, _W], [_W]]),
    ('looked_at', [[_V, _W]]),
])
def test_programs_are_told_of_the_weights_that_they_start_from(
    section, programs, ways):
  """And cost what they cost without priorities."""
  assert ways.on(section)['said'] == [['shardy', p] for p in programs]


@pytest.mark.parametrize('section', [
    'donated_and_dead',
    'donated_between_syncs',
    'donated_by_a_compiled_graph',
    'donated_as_asked_for_by_a_compiled_graph',
    'donated_by_the_user',
    'loaded_while_pending',
    'updated_between_calls_of_a_compiled_graph',
    'eager_in_between',
])
def test_as_without_priorities(section, ways):
  ways.on(section)


@pytest.mark.parametrize('section,programs', [
    ('read_while_pending', [[_W], [_V, _W]]),
    ('failed_sync', [[_V], [_V, _W]]),
])
def test_one_program_without_the_priority_of_an_update(section, programs, ways):
  """What the update started from is not known any more; a warning says so."""
  assert ways.on(section)['said'] == [['shardy', p] for p in programs]


def test_text_of_a_program_tells_the_priorities_of_weights(ways):
  assert ways.on('looked_at')['priorities'] == [True, True]


_MEMORY = '''
import torch_xla.core.xla_model as xm

def freed(f):
  """MB that this process has less of after f()."""
  def used():
    gc.collect()
    xm.wait_device_ops()
    with open('/proc/self/statm', encoding='ascii') as file:
      return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20
  before = used()
  f()
  return before - used()

def weights():
  """Three, each 16 MB on each of eight devices."""
  made = []
  for _ in range(3):
    made.append(torch.nn.Parameter(torch.zeros(2**24).to('xla'),
                                   requires_grad=False))
    mark(made[-1], ('y',), (1,))
  sync()
  return made

ws = weights()
print('ALL', freed(ws.clear))
ws = weights()
ws[0].add_(1)
print('PENDING', freed(ws.clear))
ws = weights()
kept = ws[0]
kept.add_(1)
print('NEEDED', freed(ws.clear))
print('SYNCED', freed(sync))
'''


def test_dead_weights_free_their_memory_at_once():
  """The next model may need it; a pending graph may need it until the sync."""
  output = output_of(
      START + _MEMORY,
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8',
      XLA_USE_SHARDY='1',
      MALLOC_MMAP_THRESHOLD_='1000000')  # Freed means returned to the system.
  freed = {
      name: float(value) for name, value in map(str.split, output.splitlines())
  }
  assert freed['ALL'] > 350
  assert freed['PENDING'] > 350
  assert freed['NEEDED'] < 50
  assert 200 < freed['SYNCED'] < 300
