"""What `_XLAC` knows of shardings, in V2 mode as in the official wheel.

The same script runs in a process with the mode off, which is the official
wheel, and in one with `XLA_SHARDING_V2=1`; what they print must be the same.
"""

from typing import Dict

from processes import error_of, output_of
import pytest

_START = '''
import sys
import numpy as np, torch, torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla import _XLAC

if 'no readback' in sys.argv:
  from torch_xla.shardy import door
  door.set_readback(None)
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
torch.manual_seed(0)

def put(shape, spec, on=mesh):
  t = torch.arange(float(np.prod(shape))).reshape(shape).to('xla')
  xs.mark_sharding(t, on, spec)
  return t

def sync():
  torch_xla.sync(wait=True)

def show(*tensors):
  print(*_XLAC._get_xla_sharding_specs(list(tensors)), sep='\\n')

def attempt(f):
  try:
    f()
    print('done')
  except Exception as e:
    # Cut off before the proto's text, which protobuf varies on purpose.
    print(type(e).__name__, str(e).splitlines()[0].split('goo.gle')[0])

_COUNTERS = ('UncachedCompile', 'DynamoExtractCompiledGraph')

def count(f):
  before = [met.counter_value(c) or 0 for c in _COUNTERS]
  f()
  print([(met.counter_value(c) or 0) - b for c, b in zip(_COUNTERS, before)])
'''

_SECTIONS = {
    'propagated':
        '''
x, w = put((16, 8), ('x', None)), put((8, 16), (None, 'y'))
a, b = x @ w, (x @ w) @ (x @ w).t()
c, d, e = a.sum(0), a.t() + 1, a.reshape(4, 4, 16)
f, g, h = a[:, :4], torch.cat([a, a]), x.sum()
sync()
show(x, w, a, b, c, d, e, f, g, h)
for t in (a, b, c, d, e, f, g, h):
  print(t.cpu().double().sum().item())
''',
    'marked':
        '''
both = xs.Mesh(np.arange(8), (2, 2, 2), ('z', 'x', 'y'))
ts = [put((8, 8), spec, both) for spec in [
    ('z', 'x'), ('y', 'z'), (('z', 'y'), 'x'), (('x', 'y'), None),
    (None, ('y', 'x', 'z')), (None, None)]]
show(*ts)
outs = [t + 1 for t in ts]
sync()
show(*outs)
''',
    'permuted':
        '''
for devices in ([0, 2, 4, 6, 1, 3, 5, 7], [7, 6, 5, 4, 3, 2, 1, 0]):
  t = put((8, 8), ('y', None), xs.Mesh(np.array(devices), (2, 4), ('x', 'y')))
  out = t * 2
  sync()
  show(t, out)
  print(out.cpu().sum().item())
''',
    'training':
        '''
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                            torch.nn.Linear(32, 16)).to('xla')
xs.mark_sharding(model[0].weight, mesh, ('y', None))
xs.mark_sharding(model[2].weight, mesh, (None, 'y'))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
  data = put((8, 16), ('x', None))
  optimizer.zero_grad()
  out = model(data)
  (out - data).pow(2).mean().backward()
  optimizer.step()
  count(sync)
  show(*model.parameters(), out)
show(*(s['exp_avg_sq'] for s in optimizer.state.values()))
''',
    'marked again':
        '''
t = put((8, 8), ('x', 'y'))
out = t + 1
sync()
show(out)
count(lambda: attempt(lambda: xs.mark_sharding(out, mesh, ('x', 'y'))))
attempt(lambda: xs.mark_sharding(out, mesh, ('y', 'x')))
attempt(lambda: xs.mark_sharding(t, mesh, ('x', 'y')))
part = (put((8, 8), ('y', None)) * 2)
sync()
attempt(lambda: xs.mark_sharding(part, mesh, ('y', None)))
show(out, part)
''',
    'resharded':
        '''
t = put((8, 8), ('x', 'y'))
out = t + 1
sync()
xs.clear_sharding(out)
show(out)
xs.mark_sharding(out, mesh, ('y', None))
show(out)
more = out * 2
sync()
show(more)
print(more.cpu().sum().item(), out.cpu().sum().item())
''',
    'shards':
        '''
out = put((8, 8), ('x', 'y')) + 1
sync()
for t in put((8, 6), ('x', 'y')), out:
  wrapped = xs.wrap_if_sharded(t)
  print(wrapped.sharding_type, wrapped.sharding_spec)
  for shard in wrapped.local_shards:
    # Without `shard_device`: the CPU has another name in V2 mode.
    print(shard.data.tolist(), shard.indices, shard.replica_id,
          shard.unpadded_data.shape)
shards = wrapped.local_shards
for shard in shards:
  shard.data.fill_(3)
wrapped.load_local_shards_(shards)
print(out.cpu().sum().item())
show(out)
''',
    'dynamo':
        '''
w = put((8, 8), (None, 'y'))
b = put((8, 8), ('x', None))
f = torch.compile(lambda x, b: ((x @ w).relu() + b, x.sum()), backend='openxla')
x = put((8, 8), ('x', None))
def step():
  global y
  y, z = f(x, b)
  sync()
for _ in range(4):
  count(step)
show(y)
x = y
for _ in range(3):
  count(step)
show(y)
print(y.cpu().sum().item())
''',
    'dtensor':
        '''
from torch.distributed.tensor import (DeviceMesh, Replicate, Shard,
                                      distribute_module, distribute_tensor,
                                      init_device_mesh)
line = init_device_mesh('xla', mesh_shape=(8,))
grid = DeviceMesh('xla', torch.arange(8).reshape(2, 4))
for on, placements in [(line, [Shard(0)]), (line, [Replicate()]),
                       (grid, [Shard(0), Shard(1)]),
                       (grid, [Shard(1), Replicate()]),
                       (grid, [Replicate(), Shard(0)])]:
  t = distribute_tensor(torch.randn(16, 8, device='xla'), on, placements)
  print(type(t).__name__, t.sharding_spec, t.sharding_type)
  out = t + 1
  sync()
  show(getattr(out, 'global_tensor', out))
  for attribute in ('_spec', 'placements', 'device_mesh'):
    attempt(lambda: print(attribute, getattr(t, attribute)))
  attempt(lambda: print(
      t.redistribute(on, [Replicate()] * on.ndim).sharding_spec))
model = distribute_module(
    torch.nn.Linear(8, 8).to('xla'), line,
    lambda name, m, on: [distribute_tensor(p, on, [Shard(0)])
                         for p in m.parameters()])
out = model(torch.ones(8, 8).to('xla'))
sync()
show(model.weight, out)
''',
    'manual':
        '''
fed = put((8, 8), ('x', 'y'))
shard = xs.enable_manual_sharding(fed, ('x', 'y'), mesh=mesh).global_tensor
whole = xs.disable_manual_sharding(shard + 1, ('x', 'y'), (8, 8), mesh=mesh)
out = whole.global_tensor * 2
sync()
show(fed, out)
print(out.cpu().sum().item())
''',
    'programs of torch_xla':
        '''
x = put((8, 8), ('x', 'y'))
y, z = x + 1, put((8, 8), ('y', None)) @ x
sync()
count(lambda: print(y.cpu().tolist(), z.cpu().tolist()))
count(lambda: print(y.cpu().sum().item()))
xs.mark_sharding(y, mesh, ('x', 'y'))
annotated = xs.annotate_custom_sharding(y, mesh, (None, 'x')).global_tensor
total = annotated.sum(1)
count(sync)
show(annotated, total)
print(total.cpu().tolist())
''',
}
_END = '''
print('end of section')
'''


def _run(mode: Dict[str, str]) -> Dict[str, str]:
  """What each section prints in a process with `mode` set."""
  script = _START + _END.join([*_SECTIONS.values(), ''])
  output = output_of(script, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', **mode)
  *parts, _ = output.split('end of section\n')
  return dict(zip(_SECTIONS, parts, strict=True))


@pytest.fixture(scope='module', name='official')
def official_fixture() -> Dict[str, str]:
  return _run({})


@pytest.fixture(scope='module', name='v2')
def v2_fixture() -> Dict[str, str]:
  return _run({'XLA_SHARDING_V2': '1'})


@pytest.mark.parametrize('section', _SECTIONS)
def test_same_as_the_official_wheel(section, official, v2):
  expected = official[section]
  assert expected.strip()
  assert '<=[' not in expected
  assert v2[section] == expected


_ONE = _START + '''
t = put((8, 8), ('x', 'y'))
out = t + 1
sync()
show(out)
attempt(lambda: xs.mark_sharding(out, mesh, ('x', 'y')))
'''
_MODE = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_SHARDING_V2': '1',
}


def test_readback_is_what_makes_it_so():
  """Without it V2 gets into `_XLAC`, and an equal spec is taken for another."""
  without = output_of("import sys; sys.argv.append('no readback')\n" + _ONE,
                      **_MODE)
  assert without.startswith('{devices=[2,4]<=[8]}\nRuntimeError')
  assert 'Existing annotation must be cleared first' in without
  assert output_of(_ONE, **_MODE) == '{devices=[2,4]0,1,2,3,4,5,6,7}\ndone\n'


def test_exception_in_the_readback_is_an_error_of_the_compile():
  error = error_of(
      _START + '''
from torch_xla.shardy import door

def broken(program, program_format):
  raise KeyError(f'no rule for {program_format}')

door.set_readback(broken)
t = put((8, 8), ('x', 'y'))
try:
  out = t + 1
  sync()
except Exception as e:
  raise SystemExit(str(e).splitlines()[0])
''', **_MODE)
  assert "KeyError: 'no rule for hlo_with_config'" in error


def test_a_program_handed_back_is_what_is_read():
  output = output_of(
      _START + '''
from torch_xla.shardy import door, readback
seen = []

def watch(program, program_format):
  seen.append((len(program), program_format))
  return readback.to_v1(program, program_format)

door.set_readback(watch)
t = put((8, 8), ('x', 'y'))
out = t + 1
sync()
show(out)
print(len(seen) > 0, {f for _, f in seen})
''', **_MODE)
  assert output == ("{devices=[2,4]0,1,2,3,4,5,6,7}\n"
                    "True {'hlo_with_config'}\n")
