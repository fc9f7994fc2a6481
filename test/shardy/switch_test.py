"""Switching the mode on: in time, and with a clear error where it cannot be."""

import pytest
from processes import error_of, output_of

_HIDE_CPU_PLUGIN = '''
import sys

class Hide:
  def find_spec(self, name, path=None, target=None):
    if name.startswith('xla_plugins'):
      raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hide())
'''
_REGISTER = '''
import torch_xla
from torch_xla.experimental import plugins

class Plugin(plugins.DevicePlugin):
  def library_path(self):
    return {library!r}

plugins.register_plugin('VENDOR', Plugin())
torch_xla.device()
'''


def test_unknown_device():
  error = error_of(
      'import torch_xla; torch_xla.device()',
      PJRT_DEVICE='FOO',
      XLA_USE_SHARDY='1')
  assert 'No PjRtPlugin registered for: FOO' in error


def test_too_late():
  error = error_of(
      'import torch_xla, torch_xla.runtime as xr\n'
      'torch_xla.device()\n'
      'xr.use_shardy()',
      PJRT_DEVICE='CPU')
  assert error.startswith('torch_xla.shardy.errors.TooLateError')
  assert 'before the first XLA tensor' in error


def test_cpu_plugin_not_installed_names_the_extra():
  error = error_of(
      _HIDE_CPU_PLUGIN + 'import torch_xla',
      PJRT_DEVICE='CPU',
      XLA_USE_SHARDY='1')
  assert "pip install 'torch_xla[cpu]'" in error


@pytest.mark.parametrize('library, reason', [
    ('/nonexistent/plugin.so', 'cannot open shared object file'),
    (__file__, 'invalid ELF header'),
    ('libm.so.6', 'is no PJRT plugin'),
])
def test_inner_library_that_is_no_plugin(library, reason):
  error = error_of(
      _REGISTER.format(library=library),
      PJRT_DEVICE='VENDOR',
      XLA_USE_SHARDY='1')
  assert error.startswith('torch_xla.shardy.errors.DoorError')
  assert library in error
  assert reason in error


@pytest.mark.parametrize('count', ['0', '-1', 'eight', ''])
def test_bad_device_count(count):
  error = error_of(
      'import torch_xla; torch_xla.device()',
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES=count,
      XLA_SHARDING_V2='1')
  assert f'CPU_NUM_DEVICES={count!r} is not a positive number' in error


def test_shim_missing_from_the_installation(tmp_path):
  error = error_of(
      'import torch_xla.shardy.door as door\n'
      f'door.LIBRARY_PATH = {str(tmp_path / "gone.so")!r}\n'
      'import torch_xla.runtime as xr\n'
      'xr.use_shardy()',
      PJRT_DEVICE='CPU')
  assert 'cannot load the PJRT shim' in error
  assert 'install torch_xla again' in error


def test_runtime_that_came_up_without_the_door():
  error = error_of(
      'import os, torch_xla\n'
      "os.environ['PJRT_DEVICE'] = 'CPU'\n"
      'torch_xla.device()\n'
      'with torch_xla.shardy.record():\n'
      '  pass',
      PJRT_DEVICE='TPU',
      XLA_USE_SHARDY='1')
  assert 'PJRT_DEVICE was changed after torch_xla was imported' in error


def test_recording_with_the_mode_off():
  error = error_of(
      'import torch_xla\n'
      'with torch_xla.shardy.record():\n'
      '  pass',
      PJRT_DEVICE='CPU')
  assert 'set XLA_USE_SHARDY=1 or XLA_SHARDING_V2=1' in error


_REPORT = '''
print(torch_xla.shardy.current_mode().value, xr.device_type(),
      xr.global_runtime_device_count(), torch_xla.device())
'''


@pytest.mark.parametrize('variables, mode', [
    ({
        'XLA_USE_SHARDY': '1'
    }, 'shardy'),
    ({
        'CONVERT_SHLO_TO_SHARDY': '1'
    }, 'shardy'),
    ({
        'XLA_SHARDING_V2': '1'
    }, 'v2'),
])
def test_environment_switches_on(variables, mode):
  output = output_of(
      'import torch_xla, torch_xla.runtime as xr' + _REPORT,
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='4',
      **variables)
  assert output == f'{mode} XLACPU 4 xla:0\n'


def test_use_shardy_switches_on():
  output = output_of(
      'import torch_xla, torch_xla.runtime as xr\n'
      'xr.use_shardy()\n'
      'xr.use_shardy()' + _REPORT,
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='4')
  assert output == 'shardy XLACPU 4 xla:0\n'


def test_set_device_type_cpu_stays_behind_the_door():
  output = output_of(
      'import torch_xla, torch_xla.runtime as xr\n'
      "xr.set_device_type('CPU')" + _REPORT +
      "xr.set_device_type('CPU')  # No change, so no error.\n",
      PJRT_DEVICE='TPU',
      CPU_NUM_DEVICES='2',
      XLA_USE_SHARDY='1')
  assert output == 'shardy XLACPU 2 xla:0\n'


def test_off_is_the_official_wheel():
  output = output_of(
      'import sys, torch, torch_xla, torch_xla.runtime as xr\n'
      "print((torch.ones(2, device='xla') + 1).tolist())\n" + _REPORT +
      'print(torch_xla.shardy.programs())\n'
      "maps = open('/proc/self/maps').read()\n"
      "print('libpjrt_shardy' in maps, 'xla_cpu_pjrt' in maps)\n"
      "print('google.protobuf' in sys.modules)",
      PJRT_DEVICE='CPU')
  assert output == ('[2.0, 2.0]\noff CPU 1 xla:0\n()\nFalse False\nFalse\n')


def test_child_process_inherits_the_device():
  """A spawned process finds PJRT_DEVICE=XLACPU and the mode's variable."""
  output = output_of(
      'import torch_xla, torch_xla.runtime as xr' + _REPORT,
      PJRT_DEVICE='XLACPU',
      CPU_NUM_DEVICES='2',
      XLA_USE_SHARDY='1')
  assert output == 'shardy XLACPU 2 xla:0\n'


def test_installed_and_built_in_plugins_are_behind_the_door():
  output = output_of(
      'import torch_xla\n'
      'from torch_xla.experimental import plugins\n'
      'for name, plugin in sorted(plugins._plugin_registry.items()):\n'
      '  print(name, type(plugin).__name__, type(plugin.inner).__name__)',
      PJRT_DEVICE='CPU',
      XLA_USE_SHARDY='1')
  assert output == ('NEURON DoorPlugin NeuronPlugin\n'
                    'TPU DoorPlugin TpuPlugin\n'
                    'XLACPU DoorPlugin XlaCpuPlugin\n'
                    'XPU DoorPlugin XpuPlugin\n')


def test_a_plugin_behind_the_door_offers_what_it_did():
  output = output_of(
      'import torch_xla\n'
      'from torch_xla.experimental import plugins\n'
      'class Plugin(plugins.DevicePlugin):\n'
      '  colour = 7\n'
      '  def host_index(self): return 3\n'
      '  def physical_chip_count(self): return 4\n'
      "  def client_create_options(self): return {'a': 1}\n"
      '  def requires_xla_coordinator(self): return True\n'
      "  def configure_single_process(self): return 'single'\n"
      '  def configure_multiprocess(self, rank, size): return rank, size\n'
      "plugins.register_plugin('VENDOR', Plugin())\n"
      'p = plugins.default()\n'
      'print(p.host_index(), p.physical_chip_count(),\n'
      '      p.client_create_options(), p.requires_xla_coordinator(),\n'
      '      p.configure_single_process(), p.configure_multiprocess(1, 2),\n'
      '      p.colour)',
      PJRT_DEVICE='VENDOR',
      XLA_USE_SHARDY='1')
  assert output == "3 4 {'a': 1} True single (1, 2) 7\n"
