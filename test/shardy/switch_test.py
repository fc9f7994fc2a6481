"""Switching the mode on: in time, and with a clear error where it cannot be."""

import importlib.metadata
import sys

import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.experimental import plugins
import torch_xla.runtime as xr
from torch_xla.shardy import current_mode, DoorError, Mode, TooLateError
from torch_xla.shardy.door import extras, shim
from torch_xla.shardy.door.device_plugins import DoorPlugin

_OFF = pytest.mark.environment(PJRT_DEVICE='CPU')
_V2 = pytest.mark.environment(
    PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_SHARDING_V2='1')
# A device whose plugin a test registers, or nobody.
_VENDOR = pytest.mark.environment(PJRT_DEVICE='VENDOR', XLA_SHARDING_V2='1')


@_OFF
def test_too_late():
  torch_xla.device()
  with pytest.raises(TooLateError, match='before the first XLA tensor'):
    xr.use_shardy()


@_V2
def test_a_mode_is_not_switched_off_again():
  with pytest.raises(TooLateError, match='cannot switch mode .v2. off again'):
    torch_xla.shardy.switch_on(Mode.OFF)
  assert current_mode() is Mode.V2


@_OFF
def test_cpu_plugin_not_installed_names_the_extra(monkeypatch):
  monkeypatch.setattr(sys, 'meta_path', [_HidesCpuPlugin(), *sys.meta_path])
  with pytest.raises(DoorError) as raised:
    torch_xla.shardy.switch_on(Mode.V2)
  assert "pip install 'torch_xla[cpu]'" in str(raised.value)
  assert 'or set XLA_USE_SHARDY=0 if a vendor' in str(raised.value)
  assert current_mode() is Mode.OFF


def test_extra_of_a_renamed_wheel(monkeypatch):
  """Upstream's would be installed over it."""
  monkeypatch.setattr(importlib.metadata, 'packages_distributions',
                      lambda: {'torch_xla': ['acme-xla']})
  assert extras.command('cpu') == "pip install 'acme_xla[cpu]'"


class _HidesCpuPlugin:

  def find_spec(self, name, path=None, target=None):
    del path, target
    if name.startswith('xla_plugins'):
      raise ModuleNotFoundError(name)


class _Vendor(plugins.DevicePlugin):
  """A plugin with something of its own."""
  colour = 7

  def __init__(self, library: str = ''):
    super().__init__()
    self._library = library

  def library_path(self):
    return self._library

  def host_index(self):
    return 3

  def physical_chip_count(self):
    return 4

  def client_create_options(self):
    return {'a': 1}

  def requires_xla_coordinator(self):
    return True

  def configure_single_process(self):
    return 'single'

  def configure_multiprocess(self, local_rank, local_world_size):
    return local_rank, local_world_size


@pytest.mark.parametrize('library, reason', [
    ('/nonexistent/plugin.so', 'cannot open shared object file'),
    pytest.param(__file__, 'invalid ELF header', id='a text'),
    ('libm.so.6', 'is no PJRT plugin'),
])
@_VENDOR
def test_inner_library_that_is_no_plugin(library, reason):
  plugins.register_plugin('VENDOR', _Vendor(library))
  with pytest.raises(DoorError) as raised:
    torch_xla.device()
  assert type(raised.value) is DoorError
  assert library in str(raised.value)
  assert reason in str(raised.value)


@pytest.mark.parametrize('count', ['0', 'eight'])
@_V2
def test_bad_device_count(monkeypatch, count):
  monkeypatch.setenv('CPU_NUM_DEVICES', count)
  with pytest.raises(
      ValueError, match=f"CPU_NUM_DEVICES='{count}' is not a positive number"):
    torch_xla.device()


@_OFF
def test_shim_missing_from_the_installation(monkeypatch, tmp_path):
  monkeypatch.setattr(shim, 'LIBRARY_PATH', str(tmp_path / 'gone.so'))
  with pytest.raises(DoorError, match='cannot load the PJRT shim') as raised:
    torch_xla.shardy.switch_on(Mode.V2)
  assert 'install torch_xla again' in str(raised.value)


@_V2
def test_runtime_that_came_up_without_the_door(monkeypatch):
  monkeypatch.setenv('PJRT_DEVICE', 'CPU')
  torch_xla.device()
  with pytest.raises(
      DoorError, match='PJRT_DEVICE was changed after torch_xla was imported'):
    with torch_xla.shardy.record():
      pass


@_OFF
def test_recording_with_the_mode_off():
  with pytest.raises(
      DoorError, match='set XLA_USE_SHARDY=1 or XLA_SHARDING_V2=1'):
    with torch_xla.shardy.record():
      pass


def _check_on_xlas_cpu_plugin(num_devices: int) -> None:
  assert current_mode() is Mode.V2
  assert xr.device_type() == 'XLACPU'
  assert xr.global_runtime_device_count() == num_devices
  assert str(torch_xla.device()) == 'xla:0'


@_V2
def test_environment_switches_on():
  _check_on_xlas_cpu_plugin(8)


@_OFF
def test_a_call_switches_on(monkeypatch):
  monkeypatch.setenv('CPU_NUM_DEVICES', '4')
  torch_xla.shardy.switch_on(Mode.V2)
  torch_xla.shardy.switch_on(Mode.V2)
  _check_on_xlas_cpu_plugin(4)


@_OFF
def test_use_spmd_when_the_runtime_is_up(monkeypatch):
  torch_xla.device()
  xr.use_spmd()
  assert current_mode() is Mode.OFF and xr.device_type() == 'CPU'
  monkeypatch.setenv('XLA_USE_SHARDY', '1')
  with pytest.raises(TooLateError, match=r'before torch_xla.runtime.use_spmd'):
    xr.use_spmd()


@pytest.mark.environment(PJRT_DEVICE='VENDOR')
def test_use_spmd_puts_the_door_before_every_plugin(monkeypatch):
  """Before those registered with the mode off, and those after."""
  plugins.use_dynamic_plugins()
  plugins.register_plugin('VENDOR', _Vendor())
  monkeypatch.setenv('XLA_SHARDING_V2', '1')
  xr.use_spmd()
  plugins.register_plugin('LATER', _Vendor())
  assert type(plugins._plugin_registry['VENDOR']) is DoorPlugin
  assert type(plugins._plugin_registry['LATER']) is DoorPlugin
  with pytest.raises(DoorError, match='no inner PJRT plugin was named'):
    torch_xla.real_devices()


@_VENDOR
def test_set_device_type_cpu_stays_behind_the_door(monkeypatch):
  monkeypatch.setenv('CPU_NUM_DEVICES', '2')
  xr.set_device_type('CPU')
  _check_on_xlas_cpu_plugin(2)
  xr.set_device_type('CPU')  # No change, so no error.


@_OFF
def test_off_is_the_official_wheel():
  assert (torch.ones(2, device='xla') + 1).tolist() == [2, 2]
  assert current_mode() is Mode.OFF
  assert xr.device_type() == 'CPU'
  assert xr.global_runtime_device_count() == 1
  assert str(torch_xla.device()) == 'xla:0'
  assert torch_xla.shardy.programs() == ()
  with open('/proc/self/maps') as file:
    maps = file.read()
  assert 'libpjrt_shardy' not in maps and 'xla_cpu_pjrt' not in maps
  assert 'google.protobuf' not in sys.modules


@pytest.mark.environment(
    PJRT_DEVICE='XLACPU', CPU_NUM_DEVICES='2', XLA_SHARDING_V2='1')
def test_child_process_inherits_the_device():
  """A spawned process finds PJRT_DEVICE=XLACPU and the mode's variable."""
  _check_on_xlas_cpu_plugin(2)


@_V2
def test_installed_and_built_in_plugins_are_behind_the_door():
  registered = plugins._plugin_registry
  assert all(type(plugin) is DoorPlugin for plugin in registered.values())
  assert {
      name: type(plugin.inner).__name__ for name, plugin in registered.items()
  } == {
      'LIBRARY': 'LibraryPlugin',
      'NEURON': 'NeuronPlugin',
      'TPU': 'TpuPlugin',
      'XLACPU': 'XlaCpuPlugin',
      'XPU': 'XpuPlugin',
  }


@_VENDOR
def test_a_plugin_behind_the_door_offers_what_it_did():
  plugins.register_plugin('VENDOR', _Vendor())
  plugin = plugins.default()
  assert type(plugin) is DoorPlugin
  assert plugin.host_index() == 3
  assert plugin.physical_chip_count() == 4
  assert plugin.client_create_options() == {'a': 1}
  assert plugin.requires_xla_coordinator()
  assert plugin.configure_single_process() == 'single'
  assert plugin.configure_multiprocess(1, 2) == (1, 2)
  assert plugin.colour == 7


@_OFF
def test_use_spmd_reads_the_variables_again(monkeypatch):
  """Scripts of tt-xla set them between the import and `use_spmd`."""
  monkeypatch.setenv('CPU_NUM_DEVICES', '8')
  monkeypatch.setenv('CONVERT_SHLO_TO_SHARDY', '1')
  monkeypatch.setenv('XLA_STABLEHLO_COMPILE', '1')
  xr.use_spmd()
  assert current_mode() is Mode.SHARDY
  assert xr.device_type() == 'XLACPU'
  x = torch.ones(8, 16).to('xla')
  mesh = xs.Mesh(np.arange(8), (2, 4), ('batch', 'model'))
  xs.mark_sharding(x, mesh, ('batch', 'model'))
  torch_xla.sync()
  assert (x + 1).sum().item() == 2 * x.numel()
  assert {(p.format, p.form, p.partitioner.value)
          for p in torch_xla.shardy.programs()} == {('mlir', 'sdy', 'shardy')}
  xr.use_spmd()  # No change, so no error.


@_OFF
def test_use_spmd_takes_no_mode_away(monkeypatch):
  xr.use_shardy()
  monkeypatch.setenv('XLA_SHARDING_V2', '1')
  monkeypatch.setenv('PJRT_DEVICE', 'CPU')
  xr.use_spmd()
  assert current_mode() is Mode.SHARDY
  assert xr.device_type() == 'XLACPU'
