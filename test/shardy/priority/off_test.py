"""With Shardy off nothing is bound, and `priority=` says that it does nothing.
"""

import json
from typing import Any, Dict

from processes import output_of, run
import pytest

_SCRIPT = '''
import json, logging, sys
import numpy as np, torch, torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla import _XLAC

class Warnings(logging.Handler):
  seen = []
  def emit(self, record):
    if record.levelno >= logging.WARNING:
      self.seen.append(record.getMessage())

logging.getLogger('torch_xla.shardy').addHandler(Warnings())
custom_calls = []
real_call = _XLAC._xla_custom_call
def custom_call(*args):
  custom_calls.append(args[1])
  return real_call(*args)
_XLAC._xla_custom_call = custom_call

xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
kwargs = lambda *p: {'priority': p} if 'priority' in sys.argv else {}
torch.manual_seed(0)
w = torch.randn(16, 8).to('xla')
xs.mark_sharding(w, mesh, ('y', None), **kwargs(1, None))
counters, values, hlo, specs = [], [], [], []
f = torch.compile(lambda x: (x @ w).relu(), backend='openxla')
for _ in range(3):
  x = torch.randn(8, 16).to('xla')
  xs.mark_sharding(x, mesh, ('x', None), **kwargs(0, None))
  h = x @ w
  xs.mark_sharding(h, mesh, (None, 'y'), **kwargs(2, 3))
  out = h.sum(1)
  w.mul_(.5)
  hlo.append(_XLAC._get_xla_tensors_hlo([out, h, w]))
  torch_xla.sync(wait=True)
  compiled = f(x)
  torch_xla.sync(wait=True)
  specs += _XLAC._get_xla_sharding_specs([out, h, w, compiled])
  values.append([out.cpu().tolist(), compiled.cpu().tolist()])
  counters.append([met.counter_value(c) or 0 for c in (
      'UncachedCompile', 'CachedCompile', 'DynamoExtractCompiledGraph')])
print('RESULT', json.dumps({
    'same': [counters, values, hlo, specs],
    'warnings': Warnings.seen, 'calls': custom_calls,
    'door': 'torch_xla.shardy.door' in sys.modules,
    'shim': 'libpjrt_shardy' in open('/proc/self/maps').read()}))
'''

_MODES = {'off': {}, 'v2': {'XLA_SHARDING_V2': '1'}}


def _run(with_priority: bool, mode: str) -> Dict[str, Any]:
  script = _SCRIPT
  if with_priority:
    script = "import sys; sys.argv.append('priority')\n" + script
  output = output_of(
      script, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', **_MODES[mode])
  line, = (l for l in output.splitlines() if l.startswith('RESULT '))
  return json.loads(line.split(' ', 1)[1])


@pytest.fixture(scope='module', name='plain')
def plain_fixture() -> Dict[str, Any]:
  return _run(False, 'off')


@pytest.fixture(scope='module', name='runs')
def runs_fixture() -> Dict[str, Dict[str, Any]]:
  return {mode: _run(True, mode) for mode in _MODES}


def test_no_priority_no_warning(plain):
  assert plain['warnings'] == []
  assert plain['calls'] == []


@pytest.mark.parametrize('mode', _MODES)
def test_one_warning_and_no_other_difference(mode, plain, runs):
  warning, = runs[mode]['warnings']
  assert 'priority' in warning and 'no effect' in warning
  assert 'XLA_USE_SHARDY=1' in warning
  assert runs[mode]['calls'] == []
  assert runs[mode]['same'] == plain['same']


def test_shim_is_only_loaded_with_a_mode_on(plain, runs):
  assert [plain['shim'], runs['off']['shim'],
          runs['v2']['shim']] == [False, False, True]
  assert [plain['door'], runs['off']['door'],
          runs['v2']['door']] == [False, False, True]


def test_wrong_priorities_are_errors_all_the_same():
  done = run(
      '''
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (8,), ('x',))
xs.mark_sharding(torch.ones(8).to('xla'), mesh, ('x',), priority=(-1,))
''',
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8')
  assert done.returncode == 1
  assert 'PriorityValueError' in done.stderr.splitlines()[-1]
