"""Annotated tensors in lazy mode, in eager mode and in `torch_xla.compile`.

The same script runs in a process with Shardy on and in one with V2 alone,
where no priority has an effect and no binding is made. What a program costs
(traces, compiles, runs, donations) and computes must be the same. And it runs
with weights for tensors, which are bound in another way and to the same effect.
"""

import json
from typing import Any, Dict

from processes import output_of, run
import pytest

START = '''
import contextlib, copy, gc, json, os, sys
import numpy as np, torch, torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla import _XLAC
from torch_xla.shardy import proto

xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
shardy = torch_xla.shardy.current_mode() is torch_xla.shardy.Mode.SHARDY
everything = contextlib.ExitStack()
compiled = everything.enter_context(torch_xla.shardy.record())

def mark(t, spec, priority=None):
  return xs.mark_sharding(t, mesh, spec, priority=priority)

def put(shape, spec, priority=None, may_be_weight=True):
  t = torch.randn(shape).to('xla')
  if may_be_weight and os.environ.get('PUT') == 'weights':
    t = torch.nn.Parameter(t, requires_grad=False)
  mark(t, spec, priority)
  return t

def sync():
  torch_xla.sync(wait=True)

def fails_to_sync(t):
  """Whether a sync of what no backend knows says so."""
  unknown = _XLAC._xla_custom_call([t], 'no.such.target', [[8, 8]],
                                   [torch.float32], False, '', 1, {})
  try:
    sync()
    return False
  except ValueError as e:
    return 'no.such.target' in str(e)
  finally:
    del unknown  # The exception keeps this frame.

def counts():
  """Compiles, programs found in the cache and traces of torch.compile so far.

  The first two together are the syncs that executed something.
  """
  return [met.counter_value(c) or 0 for c in (
      'UncachedCompile', 'CachedCompile', 'DynamoExtractCompiledGraph')]

def living():
  """XLA tensors alive in C++."""
  gc.collect()
  return ((met.counter_value('CreateXlaTensor') or 0) -
          (met.counter_value('DestroyXlaTensor') or 0))

def counted(f):
  """What `f()` adds to the counts."""
  before = counts()
  f()
  return [b - a for a, b in zip(before, counts())]

def said(program):
  """Partitioner, and spec and priority of what is annotated."""
  return [program.partitioner.value,
          sorted({(t.spec, str(t.priority)) for t in program.tensors if t.spec})]

def donated(program):
  module = proto.parse('HloModuleProto', program.handed_on)
  return len(module.buffer_donor.entries)

def error(a, b):
  return (a.detach().cpu() - b.detach()).abs().max().item()

def mlp():
  torch.manual_seed(0)
  return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                             torch.nn.Linear(32, 8))

def mark_mlp(model, first=1, second=2):
  mark(model[0].weight, ('y', None), (first, None))
  mark(model[2].weight, (None, 'y'), (None, second))

def section(f):
  """Prints what f returns: equal in all modes, and of this one."""
  gc.collect()
  sync()
  torch.manual_seed(0)
  before = len(compiled)
  try:
    result = f()
  except Exception as e:
    result = {'error': f'{type(e).__name__}: {str(e).splitlines()[0]}'}
  mine = compiled[before:]
  result['leaked'] = sum(b'torch_xla.shardy' in p.handed_on for p in mine)
  print('SECTION', json.dumps([f.__name__, result]), flush=True)
'''

_MODES = {
    'on': {
        'XLA_USE_SHARDY': '1'
    },
    'weights': {
        'XLA_USE_SHARDY': '1',
        'PUT': 'weights'
    },
    'off': {
        'XLA_SHARDING_V2': '1'
    },
}


class Ways:
  """What a script's sections print with Shardy on, and with V2 alone."""

  def __init__(self, script: str, **variables: str):
    self._results: Dict[str, Dict[str, Any]] = {}
    for mode, settings in _MODES.items():
      output = output_of(
          START + script,
          PJRT_DEVICE='CPU',
          CPU_NUM_DEVICES='8',
          **settings,
          **variables)
      self._results[mode] = dict(
          json.loads(line.split(' ', 1)[1])
          for line in output.splitlines()
          if line.startswith('SECTION '))

  def on(self, section: str) -> Dict[str, Any]:
    """With Shardy on; what must be the same without has been compared."""
    on, weights, off = (self._results[mode][section] for mode in _MODES)
    assert 'error' not in off, off
    assert 'error' not in on, on
    assert on['same'] == off['same']
    assert weights == on
    assert on['leaked'] == 0
    assert not off.get('said') or all(p[0] == 'gspmd' for p in off['said'])
    return on


_MLP = [["('x', None)", '(0, None)'], ["('y', None)", '(1, None)'],
        ["(None, 'y')", '(None, 2)']]

_SCRIPT = '''
def train(optimizer, wrap=lambda f: f, steps=5):
  reference, model = mlp(), mlp().to('xla')
  mark_mlp(model)
  mine, its = optimizer(model.parameters()), optimizer(reference.parameters())

  def one_step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss

  mine_step = wrap(lambda x: one_step(model, mine, x))
  before, steps_counts, errors, idle = len(compiled), [], [], []
  losses = []
  for _ in range(steps):
    x = torch.randn(8, 16)
    sharded = x.to('xla')
    mark(sharded, ('x', None), (0, None))
    def run():
      losses[:] = [mine_step(sharded)]
      sync()
    steps_counts.append(counted(run))
    idle.append(counted(sync))
    programs = compiled[before:]
    expected = one_step(reference, its, x)
    errors.append(error(losses.pop(), expected))
  errors += [error(a, b)
             for a, b in zip(model.parameters(), reference.parameters())]
  return {'same': [steps_counts, idle, max(errors) < 1e-4,
                   [donated(p) for p in programs]],
          'said': [said(p) for p in programs if p.tensors or not shardy]}

@section
def sgd():
  return train(lambda p: torch.optim.SGD(p, lr=.1, momentum=.9))

@section
def adam():
  return train(lambda p: torch.optim.Adam(p, lr=1e-2))

@section
def compiled_function():
  return train(lambda p: torch.optim.SGD(p, lr=.1, momentum=.9, nesterov=True),
               lambda f: torch_xla.compile(f, full_graph=True))

@section
def eager_mode():
  from torch_xla.experimental import eager_mode
  eager_mode(True)
  try:
    return train(lambda p: torch.optim.SGD(p, lr=.1, weight_decay=.1),
                 torch_xla.compile)
  finally:
    eager_mode(False)

@section
def changed():
  a, b = put((8, 8), ('x', None), (0, None)), put((8, 8), ('y', None), (1, None))
  sync()
  expected = a.cpu() + b.cpu()
  result, right, costs, before = [], [], [], len(compiled)
  def add():
    c = a + b
    sync()
    result.append(_XLAC._get_xla_sharding_spec(c))
    right.append(torch.equal(c.cpu(), expected))
  for pa, pb in [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1), (5, 2)]:
    mark(a, ('x', None), (pa, None))
    mark(b, ('y', None), (pb, None))
    compiles = met.counter_value('UncachedCompile')
    add()
    costs.append(met.counter_value('UncachedCompile') - compiles)
  return {'same': right, 'result': result, 'costs': costs,
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def marked_every_step():
  w = put((8, 8), ('y', None), (1, None))
  costs = []
  for _ in range(5):
    mark(w, ('y', None), (1, None))
    w.mul_(1.5)
    out = w.sum()
    costs.append(counted(sync))
  return {'same': costs}

@section
def read_before_sync():
  w, x = put((8, 8), ('y', None), (1, None)), put((8, 8), ('x', None), (0, None))
  values, costs, before = [], [], len(compiled)
  for _ in range(4):
    y = x @ w
    w.add_(1)
    costs.append(counted(lambda: values.append(y.sum().item())))
    y2 = y * 2
    costs.append(counted(sync))
    values.append(w.cpu().sum().item())
  return {'same': [costs, [round(v, 3) for v in values]],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def accumulated_gradients():
  reference, model = mlp(), mlp().to('xla')
  mark_mlp(model)
  o, ro = (torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
           for m in (model, reference))
  costs, before = [], len(compiled)
  for step in range(9):
    x = torch.randn(8, 16)
    sharded = x.to('xla')
    mark(sharded, ('x', None), (0, None))
    model(sharded).pow(2).mean().backward()
    reference(x).pow(2).mean().backward()
    costs.append(counted(sync))
    if step % 3 == 2:
      o.step(), ro.step()
      o.zero_grad(), ro.zero_grad()
      costs.append(counted(sync))
  errors = [error(a, b)
            for a, b in zip(model.parameters(), reference.parameters())]
  return {'same': [costs, max(errors) < 1e-4],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def two_models():
  pairs = []
  for sharded in (True, False):
    reference, model = mlp(), mlp().to('xla')
    if sharded:
      mark_mlp(model)
    pairs.append((reference, model,
                  *(torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
                    for m in (reference, model))))
  costs, before = [], len(compiled)
  for _ in range(4):
    for reference, model, ro, o in pairs:
      x = torch.randn(8, 16)
      for m, optimizer, data in ((reference, ro, x), (model, o, x.to('xla'))):
        optimizer.zero_grad()
        m(data).pow(2).mean().backward()
        optimizer.step()
      costs.append(counted(sync))
  errors = [error(a, b) for reference, model, _, _ in pairs
            for a, b in zip(model.parameters(), reference.parameters())]
  return {'same': [costs, max(errors) < 1e-4]}

@section
def exception():
  w = put((8, 8), ('y', None), (1, None))
  expected = w.cpu()
  @torch_xla.compile
  def f(fail):
    w.add_(1)
    if fail:
      raise KeyError('on purpose')
    return w * 2
  f(False)
  try:
    f(True)
    caught = False
  except KeyError:
    caught = True
  before = len(compiled)
  out = f(False)
  sync()
  again = counted(lambda: (f(False), sync()))
  return {'same': [caught, error(w, expected + 4) < 1e-5,
                   error(out, 2 * (expected + 3)) < 1e-5, again]}

@section
def intermediates():
  x, w = torch.randn(8, 16), torch.randn(16, 8)
  a, b = x.to('xla'), w.to('xla')
  mark(b, (None, 'y'), (None, 3))
  before, costs, right, outs = len(compiled), [], [], []
  def step():
    h = a @ b
    mark(h, ('x', None), (1, 2))
    k = torch.relu(h)
    xs.annotate_custom_sharding(k, mesh, (None, 'x'), priority=(None, 4))
    outs[:] = [k.sum(1)]
  for _ in range(3):
    costs.append(counted(lambda: (step(), sync())))
    right.append(error(outs.pop(), torch.relu(x @ w).sum(1)) < 1e-4)
  return {'same': [costs, right],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def fsdp():
  from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
      SpmdFullyShardedDataParallel as FSDPv2)
  on = xs.Mesh(np.arange(8), (8, 1), ('fsdp', 'model'))
  reference = mlp()
  def shard_output(output, mesh):
    xs.mark_sharding(output, mesh, ('fsdp', None), priority=(1, None))
  model = FSDPv2(mlp().to('xla'), mesh=on, shard_output=shard_output)
  o, ro = (torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
           for m in (model, reference))
  costs, errors, before = [], [], len(compiled)
  for _ in range(4):
    x = torch.randn(16, 16)
    data = x.to('xla')
    xs.mark_sharding(data, on, ('fsdp', None), priority=(0, None))
    for m, optimizer, given in ((reference, ro, x), (model, o, data)):
      optimizer.zero_grad()
      m(given).pow(2).mean().backward()
      optimizer.step()
    costs.append(counted(sync))
  errors = [error(a, b)
            for a, b in zip(model.parameters(), reference.parameters())]
  return {'same': [costs, max(errors) < 1e-4],
          'said': [said(p) for p in compiled[before:] if p.tensors]}

@section
def read_back_updated():
  w, v = put((8, 8), ('y', None), (0, None)), put((8, 8), ('x', None), (1, None))
  results = []
  for read in (False, True):
    sync()
    if read:
      w.add_(1)
      w.cpu()
    c = w + v
    sync()
    results.append(_XLAC._get_xla_sharding_spec(c))
  return {'same': [], 'results': results}
'''


@pytest.fixture(scope='module', name='ways')
def ways_fixture() -> Ways:
  return Ways(_SCRIPT)


@pytest.mark.parametrize('section', ['sgd', 'adam', 'compiled_function'])
def test_training_keeps_priorities_and_costs_nothing(section, ways):
  result = ways.on(section)
  assert result['said']
  assert all(program == ['shardy', _MLP] for program in result['said'])


def test_eager_mode_with_a_compiled_step(ways):
  assert ['shardy', _MLP] in ways.on('eager_mode')['said']


def test_a_changed_priority_recompiles_once_and_takes_effect(ways):
  result = ways.on('changed')
  # Swapping back finds the first program in the cache.
  assert result['costs'] == [1, 0, 1, 0, 0, 1]
  over_x, over_y = result['result'][0], result['result'][2]
  assert over_x != over_y
  assert result['result'] == [over_x, over_x, over_y, over_y, over_x, over_y]
  assert [p for _, p in result['said']] == [[["('x', None)", f'({a}, None)'],
                                             ["('y', None)", f'({b}, None)']]
                                            for a, b in ((0, 1), (1, 0), (5, 2))
                                           ]


@pytest.mark.parametrize('section',
                         ['marked_every_step', 'two_models', 'exception'])
def test_as_without_priorities(section, ways):
  ways.on(section)


def test_value_read_before_a_sync(ways):
  assert ['shardy', [_MLP[0], _MLP[1]]] in ways.on('read_before_sync')['said']


def test_gradients_accumulated_over_syncs(ways):
  said = ways.on('accumulated_gradients')['said']
  assert ['shardy', _MLP] in said
  assert all(program[0] == 'shardy' for program in said)


def test_marked_intermediates(ways):
  said = ways.on('intermediates')['said']
  assert said == [[
      'shardy',
      [["('x', None)", '(1, 2)'], ["(None, 'x')", '(None, 4)'],
       ["(None, 'y')", '(None, 3)']]
  ]] * len(said) != []


def test_fsdp(ways):
  said = ways.on('fsdp')['said']
  assert said and all(program[0] == 'shardy' for program in said)
  priorities = {p for program in said for _, p in program[1]}
  assert {'(0, None)', '(1, None)', 'None'} <= priorities


_GROWING = '''
w, kept = put((8, 8), ('y', None), (1, None)), []
for _ in range(11):
  kept.append(put((8, 8), ('x', None), (0, None)))
  out = kept[-1] @ w
  sync()
  assert error(out, kept[-1].cpu() @ w.cpu()) < 1e-4
'''


def _errors_of(script: str) -> str:
  """What a script that succeeds with Shardy on prints on stderr."""
  done = run(
      START + script,
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8',
      XLA_USE_SHARDY='1')
  assert done.returncode == 0, done.stderr
  return done.stderr


def test_ever_more_living_annotated_tensors_are_warned_of():
  """Each is a parameter of every program: nothing tells which it uses."""
  said = _errors_of(_GROWING)
  assert said.count('annotated tensors are alive, more at each') == 1


def test_a_fresh_annotated_input_at_each_sync_is_not_warned_of():
  script = _GROWING.replace('kept.append(',
                            'kept = [(').replace('(0, None)))', '(0, None)))]')
  assert script != _GROWING
  assert 'annotated tensors are alive' not in _errors_of(script)


_LOADER = '''
import torch_xla.distributed.parallel_loader as pl
w = put((8, 8), ('y', None), (1, None))
spec = xs.ShardingSpec(mesh, ('x', None), priority=(0, None))
batches = [torch.randn(8, 8) for _ in range(4)]
loader = pl.MpDeviceLoader(batches, 'xla', input_sharding=spec)
for x, batch in zip(loader, batches):
  out = x @ w
  sync()
  assert error(out, batch @ w.cpu()) < 1e-4
assert not any('x' in (t.spec or '') for p in compiled for t in p.tensors)
'''


def test_priority_that_a_loader_does_not_take_is_warned_of():
  said = _errors_of(_LOADER)
  assert said.count('input_sharding of a loader places') == 1


def test_weight_updated_and_read_before_a_sync_keeps_its_priority(ways):
  not_read, read = ways.on('read_back_updated')['results']
  assert read == not_read
