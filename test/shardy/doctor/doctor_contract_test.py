"""The doctor's findings about processes that keep or break the contract."""

from __future__ import annotations

import inspect
import os
import sys
from types import ModuleType

import environments
from processes import clean_environment
import pytest
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.shardy import DoorError, TooLateError

# The doctor itself is imported by the tests: they see what that changes.

ENVIRONMENT = environments.DEVICES

own_process = pytest.mark.environment


def runtime_is_up() -> bool:
  return torch_xla._XLAC._xla_runtime_is_initialized()


@pytest.fixture
def doctor(request: pytest.FixtureRequest,
           monkeypatch: pytest.MonkeyPatch) -> ModuleType:
  """The doctor, imported after torch_xla, as a script would import it."""
  assert 'torch_xla.shardy.doctor' not in sys.modules
  from torch_xla.shardy import doctor
  # This process was forked, so /proc tells the environment of another one.
  asked = request.node.get_closest_marker('environment').kwargs
  started = clean_environment(**{**ENVIRONMENT, **asked})
  from torch_xla.shardy.doctor import contract
  monkeypatch.setattr(contract, 'started_with', lambda: started)
  return doctor


def checks(doctor: ModuleType) -> dict[str, list[tuple[str, str]]]:
  """The status of each check, what was found and what is to be done."""
  found: dict[str, list[tuple[str, str]]] = {}
  for finding in doctor.check().findings:
    found.setdefault(finding.check, []).append(
        (finding.status.value, f'{finding.message} -> {finding.remedy}'))
  return found


def statuses(findings: dict[str, list[tuple[str, str]]]) -> dict:
  """Each check that is not simply OK, with its statuses."""
  found = {
      check: [status for status, _ in several]
      for check, several in findings.items()
  }
  return {
      check: several for check, several in found.items() if several != ['ok']
  }


@own_process()
@pytest.mark.filterwarnings('ignore')
def test_a_process_that_does_all_too_late(doctor, monkeypatch):
  assert statuses(checks(doctor)) == {}
  xr.global_runtime_device_count()
  counted = checks(doctor)
  assert statuses(counted) == {}
  assert counted['spmd'][0][1].startswith('off; it can still be')
  torch_xla.device()  # It numbers none yet.
  assert statuses(checks(doctor)) == {}
  here = inspect.currentframe().f_lineno + 1
  torch.ones(2).to(torch_xla.device(0))
  place = f'{__file__}:{here} made use of an XLA device'
  found = checks(doctor)
  assert statuses(found) == {'spmd': ['warning']}
  assert place in found['spmd'][0][1]
  monkeypatch.setenv('XLA_FLAGS', os.environ['XLA_FLAGS'] + ' --xla_dump_to=x')
  monkeypatch.setenv('XLA_IR_DEBUG', '1')
  monkeypatch.setenv('XLA_USE_BF16', '1')
  # Nothing is compiled yet.
  monkeypatch.setenv('XLA_PERSISTENT_CACHE_PATH', 'x')
  monkeypatch.setenv('CPU_NUM_DEVICES', '3')
  monkeypatch.setenv('XLA_USE_SHARDY', '1')
  found = checks(doctor)
  assert statuses(found) == {
      'device': ['error'],
      'environment': ['skipped'] * 3,
      'mode': ['error'],
      'spmd': ['warning'],
  }
  late = [text.split('=')[0] for _, text in found['environment']]
  assert late == ['XLA_IR_DEBUG', 'XLA_FLAGS', 'XLA_USE_BF16']
  assert 'CPU_NUM_DEVICES=3' in found['device'][0][1]
  assert 'asks for mode shardy' in found['mode'][0][1]
  with pytest.raises(TooLateError):
    xr.use_spmd()
  monkeypatch.delenv('XLA_USE_SHARDY')
  with pytest.raises(RuntimeError, match='too late'):
    xr.use_spmd()
  monkeypatch.setenv('XLA_USE_SPMD', '1')
  status, text = checks(doctor)['spmd'][0]
  assert status == 'error'
  assert 'turned on too late' in text and place in text


@pytest.mark.parametrize('mode', [
    pytest.param('off:', id='off', marks=own_process()),
    pytest.param(
        'v2, the door is open', id='v2',
        marks=own_process(XLA_SHARDING_V2='1')),
])
def test_a_process_that_does_all_in_time(doctor, monkeypatch, mode):
  xr.use_spmd()
  assert statuses(checks(doctor)) == {}
  assert not runtime_is_up()
  monkeypatch.setenv('XLA_COMPILATION_CACHE_SIZE', '9')
  torch.nn.Linear(2, 2).to('xla')
  after = checks(doctor)
  assert statuses(after) == {}
  assert after['spmd'][0] == ('ok', 'on -> ')
  assert not runtime_is_up()
  (torch.ones(2, device='xla') + 1).cpu()
  run = checks(doctor)
  assert statuses(run) == {'environment': ['skipped']}
  assert run['mode'][0][1].startswith(mode)


@own_process()
@pytest.mark.filterwarnings('ignore')
def test_what_the_doctor_cannot_know(doctor, monkeypatch):
  monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
  monkeypatch.setenv('XLA_USE_SPMD', 'True')
  pytest.importorskip('jax', reason='the case is an imported JAX')
  found = checks(doctor)
  assert statuses(found)['jax'] == ['warning']
  assert 'XLA_USE_SPMD=True is read as off' in found['environment'][0][1]
  assert not runtime_is_up()
  monkeypatch.setenv(
      'XLA_FLAGS',
      os.environ['XLA_FLAGS'] + ' --xla_cpu_enable_xprof_traceme=false')
  torch_xla.device()
  found = checks(doctor)
  assert 'jax' not in statuses(found)
  unknown = [
      text for status, text in found['environment'] if status == 'skipped'
  ]
  assert len(unknown) == 1 and unknown[0].startswith('XLA_FLAGS=')
  torch.ones(2).to('xla')
  assert checks(doctor)['spmd'][0][0] == 'warning'


@own_process(PJRT_DEVICE='TPU', XLA_SHARDING_V2='1')
def test_a_tpu_that_is_none(doctor, monkeypatch):
  monkeypatch.setenv('TPU_LIBRARY_PATH', __file__)
  # As if it were imported: it is only looked up.
  monkeypatch.setitem(sys.modules, 'jax', sys)
  found = checks(doctor)
  before = statuses(found)
  assert before['device'] == ['warning']
  assert before['plugin'] == ['error']
  assert before['jax'] == ['error']
  assert 'no TPU chip' in found['device'][0][1]
  assert 'invalid ELF header' in found['plugin'][0][1]
  assert not runtime_is_up()
  monkeypatch.setenv('PJRT_DEVICE', 'CPU')
  torch_xla.device()
  assert 'came up without the door' in checks(doctor)['mode'][0][1]
  monkeypatch.setenv('PJRT_DEVICE', 'TPU')
  assert 'was changed after the runtime' in checks(doctor)['device'][0][1]
  monkeypatch.setenv('PJRT_DEVICE', 'FOO')
  found = checks(doctor)
  status, text = found['device'][0]
  assert status == 'error' and 'use one of CPU, ' in text
  assert found['plugin'][0][0] == 'skipped'


@pytest.mark.parametrize('mode', [
    pytest.param('off', id='off', marks=own_process()),
    pytest.param('v2', id='v2', marks=own_process(XLA_SHARDING_V2='1')),
])
def test_the_library_that_a_variable_names(doctor, monkeypatch, mode):
  monkeypatch.setenv('PJRT_DEVICE', 'LIBRARY')
  found = checks(doctor)
  assert found['device'][0][0] == 'ok'
  assert found['mode'][0][1].startswith(mode)
  (status, text), = found['plugin']
  assert status == 'error'
  assert 'PJRT_LIBRARY_PATH names, and it is not set' in text
  assert text.endswith('-> set PJRT_LIBRARY_PATH to the path of a PJRT plugin')
  monkeypatch.setenv('PJRT_LIBRARY_PATH', __file__)
  (status, text), = checks(doctor)['plugin']
  assert status == 'error'
  assert f'{__file__}: invalid ELF header' in text
  assert 'PJRT_LIBRARY_PATH for PJRT_DEVICE=LIBRARY' in text
  plugin = pytest.importorskip('xla_plugins.xla_cpu_pjrt')
  library = os.path.join(list(plugin.__path__)[0], 'xla_cpu_pjrt.so')
  monkeypatch.setenv('PJRT_LIBRARY_PATH', library)
  (status, text), = checks(doctor)['plugin']
  # It is newer than torch_xla, whose structs only the shim fits to it.
  assert status == ('warning' if mode == 'off' else 'ok')
  assert text.startswith(f'{library} speaks PJRT API 0.81')
  assert not runtime_is_up()


@pytest.mark.parametrize('mode, said', [
    pytest.param(
        'XLA_USE_SHARDY',
        'sdy: the plugin reads StableHLO 1.13.3, 1.11.0 or later; written in ',
        marks=own_process(XLA_USE_SHARDY='1', XLA_STABLEHLO_COMPILE='1')),
    pytest.param(
        'XLA_SHARDING_V2',
        'StableHLO, V2: ',
        marks=own_process(XLA_SHARDING_V2='1', XLA_STABLEHLO_COMPILE='1')),
    pytest.param(
        'none',
        'off: programs leave as StableHLO',
        marks=own_process(XLA_STABLEHLO_COMPILE='1')),
])
def test_what_the_plugin_gets_as_stablehlo(doctor, mode, said):
  (status, found), = checks(doctor)['stablehlo']
  assert status == 'ok' and said in found
  assert not runtime_is_up()


@own_process(XLA_USE_SHARDY='1')
def test_a_plugin_that_asks_for_stablehlo(doctor, monkeypatch):
  from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
  assert 'leave as HLO' in checks(doctor)['stablehlo'][0][1]
  monkeypatch.setattr(
      XlaCpuPlugin, 'program_format', lambda self: 'mlir', raising=False)
  monkeypatch.setattr(
      XlaCpuPlugin, 'sharding_form', lambda self: 'attributes', raising=False)
  assert ('StableHLO, attributes: XlaCpuPlugin.sharding_form() says so'
          in checks(doctor)['stablehlo'][0][1])
  monkeypatch.setattr(XlaCpuPlugin, 'sharding_form', lambda self: 'gspmd')
  (status, found), = checks(doctor)['stablehlo']
  assert status == 'error' and "sharding_form() gives 'gspmd'" in found


@own_process(XLA_USE_SHARDY='1')
def test_a_plugin_that_is_spared_rewrites(doctor, monkeypatch):
  from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
  assert 'rewrites' not in checks(doctor)
  monkeypatch.setattr(
      XlaCpuPlugin,
      'rewrites',
      lambda self: {
          'index_dims': False,
          'batch_norm': False
      },
      raising=False)
  (status, found), = checks(doctor)['rewrites']
  assert status == 'ok' and (
      'as XlaCpuPlugin.rewrites() says: batch_norm, index_dims' in found)
  monkeypatch.setattr(XlaCpuPlugin, 'rewrites', lambda self: {'norms': False})
  (status, found), = checks(doctor)['rewrites']
  assert status == 'error'
  assert "XlaCpuPlugin.rewrites() names 'norms'; it can name" in found
  # Nor does the runtime start.
  with pytest.raises(DoorError, match="names 'norms'"):
    torch_xla.device()
  assert not runtime_is_up()
