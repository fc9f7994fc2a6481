"""Puts the door before the backend's plugin, once and in time."""

import atexit
import os
from typing import Callable

from .errors import DoorError, TooLateError
from .mode import Mode, mode_from_environment

_DEVICE_VARIABLE = 'PJRT_DEVICE'
_mode = Mode.OFF
_settled_by = ''


def current_mode() -> Mode:
  """The mode that this process runs in."""
  return _mode


def start() -> None:
  """Switches on what the environment asks for; torch_xla's import ends here.

  Raises:
    DoorError: as `switch_on`.
  """
  wanted = mode_from_environment(os.environ)
  if wanted is not Mode.OFF:
    switch_on(wanted)


def compiler_for(wanted: Mode) -> Callable:
  """What the door calls for each program in mode `wanted`."""
  if wanted is Mode.SHARDY:
    try:
      from . import sdy_compiler
    except ImportError as e:
      raise DoorError('this build of torch_xla lacks the series '
                      'sharding-priority; XLA_SHARDING_V2=1 works') from e
    return sdy_compiler.compile_program
  from . import compiler
  return compiler.compile_program


def switch_on(wanted: Mode) -> None:
  """Puts the door before every registered plugin, and those to come.

  `PJRT_DEVICE=CPU` becomes XLA's CPU plugin.

  Raises:
    TooLateError: the runtime exists, so its plugin can no longer change.
    DoorError: the shim or XLA's CPU plugin is missing.
  """
  global _mode
  import torch_xla
  from torch_xla.experimental import plugins

  from . import door, plugin, readback
  if wanted is _mode:
    return
  if torch_xla._XLAC._xla_runtime_is_initialized():
    raise TooLateError(
        f'cannot switch to mode {wanted.value!r}: the XLA runtime is already '
        'up. Call torch_xla.runtime.use_shardy() before the first XLA tensor '
        'or device, or set XLA_USE_SHARDY=1 (XLA_SHARDING_V2=1 for V2 alone) '
        'in the environment before torch_xla is imported')
  if _settled_by:
    raise TooLateError(f'cannot switch to mode {wanted.value!r}: {_settled_by} '
                       'was set up for the mode before; switch first')
  device = os.environ.get(_DEVICE_VARIABLE)
  if device == 'CPU':
    plugin.XlaCpuPlugin.check_installed()
  door.set_compiler(compiler_for(wanted))
  door.set_readback(readback.to_v1)
  # A program that is compiled while Python shuts down must not call into it.
  atexit.register(door.set_readback, None)
  atexit.register(door.set_compiler, None)
  _mode = wanted
  plugins.use_dynamic_plugins()
  for name, registered in list(plugins._plugin_registry.items()):
    plugins.register_plugin(name, registered)
  if plugin.CPU_DEVICE not in plugins._plugin_registry:
    plugins.register_plugin(plugin.CPU_DEVICE, plugin.XlaCpuPlugin())
  if device:
    os.environ[_DEVICE_VARIABLE] = device_name(device)


def settle(what: str) -> None:
  """Keeps the mode from changing any more; `what` depends on it."""
  global _settled_by
  _settled_by = what


def behind_door(device_plugin):
  """`device_plugin` as it is to be registered: behind the door unless off."""
  if _mode is Mode.OFF:
    return device_plugin
  from .plugin import DoorPlugin
  if isinstance(device_plugin, DoorPlugin):
    return device_plugin
  return DoorPlugin(device_plugin)


def device_name(pjrt_device: str) -> str:
  """The name to run `PJRT_DEVICE=pjrt_device` under: CPU has another one."""
  if _mode is Mode.OFF or pjrt_device != 'CPU':
    return pjrt_device
  from .plugin import CPU_DEVICE
  return CPU_DEVICE


def check_door() -> None:
  """Raises:

    DoorError: programs do not pass the door: the mode is off, or the runtime
      came up without it.
  """
  import torch_xla

  from . import door
  if _mode is Mode.OFF:
    raise DoorError(
        'programs are only recorded with the mode on: set XLA_USE_SHARDY=1 or '
        'XLA_SHARDING_V2=1 before torch_xla is imported')
  if (torch_xla._XLAC._xla_runtime_is_initialized() and not door.is_open()):
    raise DoorError(
        f'mode {_mode.value!r} is on but the runtime came up without the door: '
        f'{_DEVICE_VARIABLE} was changed after torch_xla was imported; set it '
        'before, or call torch_xla.runtime.set_device_type')
