"""The doctor's findings about processes that keep or break the contract."""

import ctypes.util
import json
import os

import pytest
from processes import output_of
from torch_xla.shardy.doctor import Finding, Report, Status, versions
from torch_xla.shardy.doctor.variables import (Kind, Moment, Timing, Variable,
                                               misread, timing)

_TABLE = '''\
STATUS   CHECK              FOUND
ok       torch              torch 2.9.0
error    probe.computation  bytes are wrong, and a-path/a-path/a-path/a-path/a-p
                            ath/a-path/a-path/a-path/a-path/a-path/a-path/a-path
                            /libtpu.so does not fit
                            -> the device, its driver or its plugin is broken,
                               or they do not match

1 error(s), 0 warning(s)'''


def test_table_fits_80_columns():
  report = Report((
      Finding('torch', Status.OK, 'torch 2.9.0'),
      Finding(
          'probe.computation', Status.ERROR,
          f'bytes are wrong, and {"a-path/" * 12}libtpu.so does not fit',
          'the device, its driver or its plugin is broken, or they do not '
          'match'),
  ))
  assert str(report) == _TABLE
  assert max(map(len, _TABLE.splitlines())) <= 80
  assert not report.ok


def test_json_is_sorted_and_says_all():
  finding = Finding('spmd', Status.WARNING, 'off', 'turn it on')
  report = Report((finding,))
  data = json.loads(report.to_json())
  assert data == {
      'schema':
          1,
      'ok':
          True,
      'findings': [{
          'check': 'spmd',
          'found': 'off',
          'remedy': 'turn it on',
          'status': 'warning'
      }]
  }
  assert report.to_json() == json.dumps(data, indent=2, sort_keys=True)
  assert Finding.from_dict(data['findings'][0]) == finding


_FLAGS = Variable('XLA_FLAGS', Moment.RUNTIME, Kind.XLA_FLAGS)
_PATH = Variable('XLA_PERSISTENT_CACHE_PATH', Moment.CACHE)
_DEBUG = Variable('XLA_IR_DEBUG', Moment.IMPORT, Kind.FLAG)
_OWN = '--xla_cpu_enable_fast_math=false'


@pytest.mark.parametrize(
    'variable, start, now, seen, passed, expected',
    [
        # Whatever was set, it is not read yet.
        (_PATH, None, 'a', None, False, Timing.IN_TIME),
        (_PATH, 'a', 'a', None, True, Timing.IN_TIME),
        (_PATH, None, 'a', None, True, Timing.UNKNOWN),
        (_PATH, 'a', None, None, True, Timing.UNKNOWN),
        (_PATH, None, 'a', 'a', True, Timing.IN_TIME),
        (_PATH, 'a', 'b', 'a', True, Timing.LATE),
        # What was set after import is known to be late; what was set between
        # start and tracking may have been before import.
        (_DEBUG, None, '1', None, True, Timing.UNKNOWN),
        (_DEBUG, None, '1', '1', True, Timing.UNKNOWN),
        (_DEBUG, '1', '1', '1', True, Timing.IN_TIME),
        (_DEBUG, '0', '1', '0', True, Timing.LATE),
        # torch_xla's own additions are nobody's change.
        (_FLAGS, None, f' {_OWN}', None, True, Timing.IN_TIME),
        (_FLAGS, '--a=1', f'--a=1 {_OWN}', None, True, Timing.IN_TIME),
        (_FLAGS, None, f'{_OWN} --a=1', f' {_OWN}', True, Timing.LATE),
    ])
def test_timing(variable, start, now, seen, passed, expected):
  environment = lambda value: {} if value is None else {variable.name: value}
  seen_then = None if seen is None else environment(seen)
  assert timing(variable, environment(start), environment(now), seen_then,
                passed) is expected


def test_timing_where_the_first_environment_is_unknown():
  now = {_PATH.name: 'a'}
  assert timing(_PATH, None, now, None, True) is Timing.UNKNOWN
  assert timing(_PATH, None, {}, None, True) is Timing.IN_TIME


@pytest.mark.parametrize('kind, value, wrong', [
    (Kind.FLAG, '1', False),
    (Kind.FLAG, 'true', False),
    (Kind.FLAG, 'True', True),
    (Kind.FLAG, 'on', True),
    (Kind.MODE_FLAG, 'on', False),
    (Kind.MODE_FLAG, 'enabled', True),
    (Kind.COUNT, '8', False),
    (Kind.COUNT, '0', True),
    (Kind.COUNT, '-1', True),
    (Kind.COUNT, 'eight', True),
    (Kind.COUNT, '', True),
])
def test_misread(kind, value, wrong):
  assert bool(misread(Variable('V', None, kind), value)) is wrong


@pytest.mark.parametrize('torch, torch_xla, status', [
    ('2.9.0+cu128', '2.9.0+shardy.1', Status.OK),
    ('2.9.1', '2.9.0', Status.OK),
    ('2.10.0', '2.9.0', Status.ERROR),
])
def test_torch_goes_with_torch_xla(torch, torch_xla, status):
  assert versions.judge_torch(torch, torch_xla).status is status


@pytest.mark.parametrize('version, needed, status', [
    ('0.0.21', True, Status.OK),
    ('0.0.9', True, Status.ERROR),
    ('0.0.9', False, Status.OK),
    ('0.0.42.1', True, Status.WARNING),
    (None, True, Status.OK),
])
def test_libtpu_goes_with_torch_xla(version, needed, status):
  finding = versions.judge_package('libtpu', version, '0.0.21', needed)
  assert finding.status is status
  assert bool(finding.remedy) is (status is not Status.OK)


def test_torch_xla_of_two_installations():
  assert versions.judge_torch_xla('2.9.0', '2.8.0').status is Status.ERROR
  assert versions.judge_torch_xla('2.9.0', None).status is Status.WARNING


def test_pins_are_those_of_the_wheel():
  assert {'libtpu', 'jaxlib', 'jax'} <= set(versions.pins())


@pytest.mark.parametrize('library, reason', [
    ('/nonexistent/plugin.so', 'cannot open shared object file'),
    (__file__, 'invalid ELF header'),
    (ctypes.util.find_library('m'), 'is no PJRT plugin'),
])
def test_library_that_is_no_plugin(library, reason):
  finding = versions.judge_plugin(library, True)
  assert finding.status is Status.ERROR
  assert library in finding.found and reason in finding.found


def test_api_version_of_a_real_plugin():
  plugin = pytest.importorskip('xla_plugins.xla_cpu_pjrt')
  library = os.path.join(list(plugin.__path__)[0], 'xla_cpu_pjrt.so')
  assert versions.api_version(library) == (0, 81)
  assert versions.judge_plugin(library, True).status is Status.OK
  # Older structs are refused where no shim fits them (measured: Execute is).
  assert versions.judge_plugin(library, False).status is Status.WARNING


_HEAD = '''
import json, os, sys
import torch, torch_xla, torch_xla.runtime as xr
assert 'torch_xla.shardy.doctor' not in sys.modules
ATTRIBUTES = lambda: [dict(vars(o)) for o in (torch_xla._XLAC, torch,
                                              torch.Tensor)]
before = ATTRIBUTES()
from torch_xla.shardy import doctor
assert ATTRIBUTES() == before  # Tracking off: nothing is installed.

def show(name):
  report = doctor.check()
  print(json.dumps([name, json.loads(report.to_json())['findings']]))

up = torch_xla._XLAC._xla_runtime_is_initialized
'''


def checks_of(script: str, **variables: str):
  """What `show` showed in `script`: name -> check -> (status, text)."""
  shown = {}
  for line in output_of(_HEAD + script, **variables).splitlines():
    name, findings = json.loads(line)
    shown[name] = {}
    for f in findings:
      text = f'{f["found"]} -> {f["remedy"]}'
      shown[name].setdefault(f['check'], []).append((f['status'], text))
  return shown


def statuses(findings) -> dict:
  """Each check that is not simply OK, with its statuses."""
  found = {check: [s for s, _ in several] for check, several in findings.items()}
  return {c: s for c, s in found.items() if s != ['ok']}


_TRACKED = '''
doctor.track_first_tensor()
doctor.track_first_tensor()
show('tracked')
xr.global_runtime_device_count()
show('counted')
device = torch_xla.device()
show('device')
w = torch.ones(2).to(device)  # Here.
assert ATTRIBUTES() == before  # Tracking ends with what it looked for.
show('tensor')
os.environ['XLA_FLAGS'] += ' --xla_dump_to=x'
os.environ['XLA_IR_DEBUG'] = '1'
os.environ['XLA_USE_BF16'] = '1'
os.environ['XLA_PERSISTENT_CACHE_PATH'] = 'x'  # Nothing is compiled yet.
os.environ['CPU_NUM_DEVICES'] = '3'
os.environ['XLA_USE_SHARDY'] = '1'
show('environment')
import warnings
warnings.simplefilter('ignore')
xr.use_spmd()
show('spmd')
'''


def test_a_process_that_does_all_too_late():
  shown = checks_of(_TRACKED, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='4')
  assert statuses(shown['tracked']) == {}
  assert statuses(shown['counted']) == {}
  assert shown['counted']['spmd'][0][1].startswith('off; it can still be')
  assert statuses(shown['device']) == {'spmd': ['warning']}
  assert 'the first XLA device is from <string>:' in shown['device']['spmd'][0][
      1]
  assert statuses(shown['tensor']) == {'spmd': ['warning']}
  line = 1 + (_HEAD + _TRACKED).split('# Here.')[0].count('\n')
  assert (f'the first XLA tensor from <string>:{line}:'
          in shown['tensor']['spmd'][0][1])
  assert statuses(shown['environment']) == {
      'device': ['error'],
      'environment': ['error'] * 3,
      'mode': ['error'],
      'spmd': ['warning'],
  }
  late = [text.split('=')[0] for _, text in shown['environment']['environment']]
  assert late == ['XLA_IR_DEBUG', 'XLA_FLAGS', 'XLA_USE_BF16']
  assert 'CPU_NUM_DEVICES=3' in shown['environment']['device'][0][1]
  assert 'asks for mode shardy' in shown['environment']['mode'][0][1]
  status, text = shown['spmd']['spmd'][0]
  assert status == 'error'
  assert 'turned on too late' in text and f'<string>:{line}:' in text


_IN_TIME = '''
xr.use_spmd()
show('before')
assert not up()
doctor.track_first_tensor()
os.environ['XLA_COMPILATION_CACHE_SIZE'] = '9'
import threading  # In another thread, and by another way in.
thread = threading.Thread(target=lambda: torch.nn.Linear(2, 2).to('xla'))
thread.start()
thread.join()
from torch_xla.shardy.doctor import first_use
assert first_use.tracker().tensor.spmd
assert 'Thread(target=' not in first_use.tracker().tensor.code
assert ATTRIBUTES() == before
show('after')
assert not up()
(torch.ones(2, device='xla') + 1).cpu()
show('run')
os.environ['XLA_PERSISTENT_CACHE_PATH'] = 'x'
show('cache')
'''


@pytest.mark.parametrize(
    'variables', [{}, {
        'XLA_SHARDING_V2': '1'
    }], ids=['off', 'v2'])
def test_a_process_that_does_all_in_time(variables):
  shown = checks_of(
      _IN_TIME, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='2', **variables)
  cache = shown.pop('cache')
  assert [statuses(findings) for findings in shown.values()] == [{}, {}, {}]
  assert statuses(cache) == {'environment': ['skipped']}
  mode = shown['run']['mode'][0][1]
  assert mode.startswith('v2, the door is open' if variables else 'off:')
  assert shown['after']['spmd'][0] == ('ok', 'on -> ')


_UNTRACKED = '''
import warnings
warnings.simplefilter('ignore')
import jax
show('jax')
assert not up()
os.environ['XLA_FLAGS'] += ' --xla_cpu_enable_xprof_traceme=false'
torch_xla.device()
show('up')
try:
  doctor.track_first_tensor()
except RuntimeError as e:
  assert 'right after importing' in str(e)
xr.use_spmd()
show('spmd')
'''


def test_without_tracking_the_doctor_says_what_it_cannot_know():
  pytest.importorskip('jax', reason='the case is an imported JAX')
  shown = checks_of(
      _UNTRACKED,
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='2',
      JAX_PLATFORMS='cpu',
      XLA_USE_SPMD='True')
  assert statuses(shown['jax'])['jax'] == ['warning']
  assert 'XLA_USE_SPMD=True is read as off' in (
      shown['jax']['environment'][0][1])
  assert 'jax' not in statuses(shown['up'])
  unknown = [t for s, t in shown['up']['environment'] if s == 'skipped']
  assert len(unknown) == 1 and unknown[0].startswith('XLA_FLAGS=')
  assert 'track_first_tensor()' in unknown[0]
  status, text = shown['spmd']['spmd'][0]
  assert status == 'error' and 'track_first_tensor()' in text


_TPU = '''
sys.modules['jax'] = sys  # As if it were imported: it is only looked up.
show('before')
assert not up()
os.environ['PJRT_DEVICE'] = 'CPU'
torch_xla.device()
show('without door')
os.environ['PJRT_DEVICE'] = 'TPU'
show('another')
os.environ['PJRT_DEVICE'] = 'FOO'
show('unknown')
'''


def test_a_tpu_that_is_none():
  shown = checks_of(
      _TPU, PJRT_DEVICE='TPU', TPU_LIBRARY_PATH=__file__, XLA_USE_SHARDY='1')
  before = statuses(shown['before'])
  assert before['device'] == ['warning']
  assert before['plugin'] == ['error']
  assert before['jax'] == ['error']
  assert 'no TPU chip' in shown['before']['device'][0][1]
  assert 'invalid ELF header' in shown['before']['plugin'][0][1]
  assert 'came up without the door' in shown['without door']['mode'][0][1]
  assert 'was changed after the runtime' in shown['another']['device'][0][1]
  status, text = shown['unknown']['device'][0]
  assert status == 'error' and 'use one of CPU, ' in text
  assert shown['unknown']['plugin'][0][0] == 'skipped'
