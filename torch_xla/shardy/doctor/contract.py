"""The startup contract, checked without starting the runtime."""

from __future__ import annotations

from collections.abc import Iterator
import os
import sys
from typing import Optional

import torch
import torch_xla
from torch_xla._internal import tpu
import torch_xla.debug.metrics as metrics
from torch_xla.experimental import plugins
import torch_xla.runtime as xr

from . import variables, versions
from .. import door, vendor_defaults
from ..door import device_plugins
from ..door.device_plugins import (CPU_DEVICE, LIBRARY_DEVICE,
                                   LIBRARY_PATH_VARIABLE, LibraryPlugin)
from ..errors import DoorError
from ..mode import (current_mode, leaves_as_stablehlo, Mode,
                    mode_from_environment)
from ..process_environment import started_with
from ..rewrite import pipeline
from ..stablehlo import for_plugin
from .report import (Diagnosis, ERROR, Finding, Judgement, OK, SKIPPED, WARNING)
from .variables import Moment

_CPU_NAMES = ('CPU', CPU_DEVICE)
# How the runtime names the devices of these. A vendor's plugin may run under
# another name than its devices have, so of others nothing can be said.
_DEVICE_KINDS = {'CPU': 'CPU', CPU_DEVICE: 'CPU', 'TPU': 'TPU'}

_GUARD_JAX = ('call torch_xla._internal.jax_workarounds.jax_import_guard() '
              'before importing jax')


def check() -> Diagnosis:
  """The contract as this process has kept it; starts no runtime.

  Raises nothing of its own: what is wrong is a finding.
  """
  return Diagnosis(
      tuple(Finding(name, *judgement) for name, judgement in _judgements()))


def _judgements() -> Iterator[tuple[str, Judgement]]:
  device = os.environ.get('PJRT_DEVICE', '')
  pins = versions.pins()
  on_tpu = device == 'TPU'
  yield 'torch', versions.judge_torch(torch.__version__, torch_xla.__version__)
  yield 'torch_xla', versions.judge_torch_xla(
      torch_xla.__version__, versions.installed(vendor_defaults.distribution()))
  if vendor := vendor_defaults.installed():
    yield 'profile', _profile(vendor)
  for package, needed in (('libtpu', on_tpu), ('jaxlib', on_tpu or
                                               'jax' in sys.modules)):
    yield package, versions.judge_package(package, versions.installed(package),
                                          pins.get(package), needed)
  yield 'device', _device(device)
  yield 'plugin', _plugin(device)
  for judgement in _environment(device):
    yield 'environment', judgement
  yield 'mode', _mode()
  yield 'stablehlo', _stablehlo(device)
  if (rewrites := _rewrites(device)) is not None:
    yield 'rewrites', rewrites
  yield 'spmd', _spmd()
  yield 'jax', _jax(on_tpu)


def _profile(vendor: vendor_defaults.Vendor) -> Judgement:
  """Finds which variables have their value from a vendor's profile."""
  started = started_with()
  if started is None:
    return (SKIPPED,
            f'what the profile of {vendor.version} has set is not known: '
            'the environment that the process began with cannot be read')
  ours = vendor_defaults.effective_defaults(vendor, started, os.environ)
  settings = f'the profile of {vendor.version} sets ' + (' '.join(
      f'{name}={value}' for name, value in ours.items()) or 'nothing')
  others = sorted(vendor_defaults.defaults(vendor, {}).keys() - ours.keys())
  if others:
    settings += '; otherwise in this process: ' + ' '.join(others)
  return OK, settings


def _started_with() -> Optional[dict[str, str]]:
  """The environment that the process began with, and what its wheel adds."""
  started, vendor = started_with(), vendor_defaults.installed()
  if started is None or vendor is None:
    return started
  return started | vendor_defaults.defaults(vendor, started)


def _runtime_is_up() -> bool:
  return torch_xla._XLAC._xla_runtime_is_initialized()


def _device(device: str) -> Judgement:
  state = f'PJRT_DEVICE={device}'
  known = {
      'CPU', 'TPU', 'NEURON', 'XPU', LIBRARY_DEVICE, *plugins._plugin_registry
  }
  if device not in known:
    if device == CPU_DEVICE:
      return (ERROR, state + ' exists only with the mode on',
              'set XLA_USE_SHARDY=1 or XLA_SHARDING_V2=1, or PJRT_DEVICE=CPU')
    return (ERROR, state + ': no plugin of that name is registered',
            'use one of ' + ', '.join(sorted(known)) +
            ', or install the plugin that brings the device')
  if _runtime_is_up():
    real = torch_xla._XLAC._xla_real_devices()
    state += f', the runtime has {len(real)} device(s): ' + ' '.join(real)
    kinds = {_DEVICE_KINDS.get(device), real[0].split(':')[0]}
    if len(kinds & set(_DEVICE_KINDS.values())) > 1:
      return (ERROR, state,
              'PJRT_DEVICE was changed after the runtime had started; set '
              'it before torch_xla is imported')
    wanted = os.environ.get('CPU_NUM_DEVICES', '1')
    if device in _CPU_NAMES and wanted != str(len(real)):
      return (
          ERROR, f'{state}, but CPU_NUM_DEVICES={wanted}',
          'CPU_NUM_DEVICES is read when the runtime starts; set it before the '
          'first XLA tensor or device')
    return OK, state
  if device == 'TPU' and not tpu.num_available_chips():
    return (WARNING, state + ', but no TPU chip is on this machine\'s PCI '
            'bus', 'run on a TPU VM, or set PJRT_DEVICE=CPU')
  if device in _CPU_NAMES:
    state += f', CPU_NUM_DEVICES={os.environ.get("CPU_NUM_DEVICES", "1")}'
  return OK, state


def _registered(device: str) -> Optional[plugins.DevicePlugin]:
  registered = device_plugins.registered(device)
  if registered is None and device == LIBRARY_DEVICE:
    registered = LibraryPlugin()  # `_XLAC` has its own, by the same variable.
  return registered


def _plugin(device: str) -> Judgement:
  if device == 'CPU':
    return OK, 'the CPU client that is built into _XLAC; it has no door'
  registered = _registered(device)
  if registered is None:
    return SKIPPED, f'no plugin is registered for {device or "no device"}'
  try:
    library = registered.library_path()
  except Exception as e:  # A vendor's code: whatever it raises is the finding.
    return (ERROR, f'{device} does not name its library: {e}',
            f'set {LIBRARY_PATH_VARIABLE} to the path of a PJRT plugin' if
            device == LIBRARY_DEVICE else 'install the package that holds it')
  return versions.judge_plugin(library, current_mode() is not Mode.OFF)


def _passed(moment: Moment) -> bool:
  xlac = torch_xla._XLAC
  return {
      Moment.IMPORT: lambda: True,
      Moment.RUNTIME: xlac._xla_runtime_is_initialized,
      Moment.TENSOR: lambda: bool(metrics.counter_value('CreateXlaTensor')),
      Moment.CACHE: xlac._xla_computation_cache_is_initialized,
  }[moment]()


def _environment(device: str) -> Iterator[Judgement]:
  """A finding per variable that is set too late or misread, or one in all."""
  start = _started_with()
  is_fine = True
  for variable in variables.VARIABLES:
    name, value = variable.name, os.environ.get(variable.name)
    setting = f'{name} is unset' if value is None else f'{name}={value}'
    why = variables.misread(variable, value) if value is not None else ''
    if why:
      is_fine = False
      counts = variable.kind is variables.Kind.COUNT
      yield (ERROR if counts else WARNING, f'{setting} {why}',
             f'correct {name}')
    if variable.moment is None or variable.device not in ('', device):
      continue
    if _passed(variable.moment) and not variables.is_in_time(
        variable, start, os.environ):
      is_fine = False
      yield (SKIPPED,
             f'{setting} was set while the process ran, and whether before '
             f'{variable.moment.value} is not known',
             f'set {name} before torch_xla is imported')
  if is_fine:
    yield OK, 'no variable was set too late, none is misread'


def _mode() -> Judgement:
  mode, wanted = current_mode(), mode_from_environment(os.environ)
  if wanted is not Mode.OFF and wanted is not mode and mode is not Mode.SHARDY:
    return (
        ERROR,
        f'the environment asks for mode {wanted.value}, the process runs in '
        f'mode {mode.value}',
        'the variable is read when torch_xla is imported, and by '
        'torch_xla.runtime.use_spmd(); set it before, or call '
        'torch_xla.runtime.use_shardy() before the first XLA tensor')
  if mode is Mode.OFF:
    return OK, 'off: programs go to the compiler as they are'
  if not _runtime_is_up():
    return OK, f'{mode.value}, in time: the runtime is not up yet'
  if not door.is_open():
    return (ERROR, f'{mode.value}, but the runtime came up without the door',
            'set PJRT_DEVICE before torch_xla is imported, or call '
            'torch_xla.runtime.set_device_type')
  return OK, f'{mode.value}, the door is open'


def _stablehlo(device: str) -> Judgement:
  """Says in which form and version the plugin gets programs, and why."""
  if current_mode() is Mode.OFF:
    form = 'StableHLO' if leaves_as_stablehlo(os.environ) else 'HLO'
    return OK, f'off: programs leave as {form}, as _XLAC has them'
  registered = _registered(device)
  if registered is None:
    return SKIPPED, f'no plugin is registered for {device}'

  def attribute(name: str) -> Optional[tuple[int, ...]]:
    if door.is_open():
      return door.shim.plugin_attribute(name)
    return versions.attribute(registered.library_path(), name)

  try:
    target = for_plugin.target_for(registered, attribute)
  except (DoorError, versions.PluginError) as e:
    return ERROR, str(e), 'correct it before the runtime starts'
  if target is None:
    return (OK, 'programs leave as HLO: XLA_STABLEHLO_COMPILE is not set, and '
            'the plugin does not ask for it')
  form = 'V2' if current_mode() is Mode.V2 else target.form.value
  return OK, f'programs leave as StableHLO, {form}: {target.reason}'


def _rewrites(device: str) -> Optional[Judgement]:
  """Finds what the plugin gets as it is traced, where it says so."""
  if current_mode() is not Mode.SHARDY:
    return None
  plugin = _registered(device)
  try:
    left_out = pipeline.disabled_rewrites(plugin)
  except DoorError as e:
    return ERROR, str(e), 'correct it before the runtime starts'
  return (OK, f'not applied, as {type(plugin).__name__}.rewrites() says: ' +
          ', '.join(sorted(left_out))) if left_out else None


def _spmd_is_real() -> bool:
  """Tests whether a new tensor goes to the device that spans all others.

  After a late `use_spmd()` torch_xla says that SPMD is on, and new tensors
  still go to one device; the first of them to meet a sharded program crashes
  the process. Only to be called when SPMD is settled, as it then changes
  nothing: the tensor holds no data.
  """
  try:
    tensor = torch.ops.aten.empty.memory_format([0], device='xla')
    kind = torch_xla._XLAC._xla_get_device_hw_type(tensor)
  except RuntimeError:  # The runtime knows the default device no more.
    return False
  return kind.startswith('SPMD')


def _spmd() -> Judgement:
  # True once a device or a tensor made torch_xla settle on SPMD or not.
  if not torch_xla._XLAC._xla_get_spmd_config_is_locked():
    return OK, ('on, before the first XLA tensor or device'
                if xr.is_spmd() else 'off; it can still be turned on')
  first = (f'{xr._FIRST_USE} made use of an XLA device'
           if xr._FIRST_USE else 'an XLA tensor or device was there before')
  if xr.is_spmd():
    if _spmd_is_real():
      return OK, 'on'
    return (ERROR, f'turned on too late: {first}. New tensors still go to '
            'one device, and a sharded program may crash the process',
            'call torch_xla.runtime.use_spmd() before it')
  if _runtime_is_up() and torch_xla._XLAC._xla_num_runtime_devices() == 1:
    return OK, 'off, with one device'
  return (WARNING, f'off, and too late to be turned on: {first}',
          'for SPMD, call torch_xla.runtime.use_spmd() before it')


def _jax(on_tpu: bool) -> Judgement:
  if 'jax' not in sys.modules:
    return OK, 'not imported'
  if _runtime_is_up():
    return OK, 'imported; torch_xla has its devices'
  if not on_tpu:
    return (WARNING,
            'imported before the runtime is up; harmless here, but on a TPU it '
            'would take the TPU from torch_xla', _GUARD_JAX)
  return (
      ERROR,
      'imported before the runtime is up: JAX may hold the TPU, and torch_xla '
      'would wait for it for ever', _GUARD_JAX)
