"""Puts the door before the backend's plugin, once and in time."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
import os
import sys

from . import mode
from .errors import TooLateError
from .mode import current_mode, Mode, mode_from_environment

_DEVICE_VARIABLE = 'PJRT_DEVICE'


def start() -> None:
  """Switches on what the environment asks for; torch_xla's import ends here.

  Raises:
    DoorError: as `switch_on`.
  """
  wanted = mode_from_environment(os.environ)
  if wanted is not Mode.OFF and not _runs_nothing(sys.orig_argv):
    switch_on(wanted)


def read_again() -> None:
  """Switches on what was asked for since the import; `use_spmd` begins so.

  Many scripts set their variables, PJRT_DEVICE among them, in between. Only
  ever more is switched on: a call of `use_shardy` outlives XLA_SHARDING_V2=1.

  Raises:
    TooLateError: the runtime exists, and came up without what is asked for.
    DoorError: as `switch_on`.
  """
  import torch_xla
  modes = list(Mode)
  wanted = mode_from_environment(os.environ)
  if modes.index(wanted) > modes.index(current_mode()):
    start()
  elif not torch_xla._XLAC._xla_runtime_is_initialized():
    _rename_device()


def _runs_nothing(command: Sequence[str]) -> bool:
  """Tests whether a process only starts others, and needs no plugin."""
  words = [os.path.basename(word) for word in command]
  return ('torch-xla-shardy', 'aot') in zip(
      words, words[1:]) or ('torch_xla.shardy', 'aot') in zip(words, words[1:])


def switch_on(new_mode: Mode) -> None:
  """Puts the door before every registered plugin, and those to come.

  `PJRT_DEVICE=CPU` becomes XLA's CPU plugin, and `PJRT_DEVICE=LIBRARY` the
  plugin that PJRT_LIBRARY_PATH names, behind the door as well.

  Raises:
    TooLateError: the runtime exists, so its plugin can no longer change.
    DoorError: the shim or XLA's CPU plugin is missing.
  """
  import torch_xla
  from torch_xla.experimental import plugins

  from . import bind, door
  from .compile import ledger
  from .compile.compiler import Compiler
  from .door import device_plugins
  from .stablehlo import for_plugin
  if new_mode is current_mode():
    return
  if torch_xla._XLAC._xla_runtime_is_initialized():
    raise TooLateError(
        f'cannot switch to mode {new_mode.value!r}: the XLA runtime is already '
        'up. Call torch_xla.runtime.use_shardy() before the first XLA tensor '
        'or device, or set XLA_USE_SHARDY=1 (XLA_SHARDING_V2=1 for V2 alone) '
        'in the environment before torch_xla is imported, or before '
        'torch_xla.runtime.use_spmd() if that comes first')
  if new_mode is Mode.OFF:
    raise TooLateError(
        f'cannot switch mode {current_mode().value!r} off again: the plugins '
        'are behind the door. Start with XLA_USE_SHARDY=0 and without '
        'XLA_SHARDING_V2')
  mode.setting.check_unsettled(new_mode)
  device = os.environ.get(_DEVICE_VARIABLE)
  if device == 'CPU':
    device_plugins.XlaCpuPlugin.check_installed()
  if new_mode is Mode.SHARDY:
    bind.binder.follow_copies()
  surroundings = for_plugin.surroundings()
  door.use(
      Compiler(
          for_plugin.planner(new_mode, surroundings), ledger.process_ledger,
          surroundings, hlo_text))
  # A program that is compiled while Python shuts down must not call into it.
  atexit.register(door.close)
  mode.setting.mode = new_mode
  plugins.use_dynamic_plugins()
  for name, registered in list(plugins._plugin_registry.items()):
    plugins.register_plugin(name, registered)
  for name, plugin in device_plugins.BUILT_IN.items():
    if name not in plugins._plugin_registry:
      plugins.register_plugin(name, plugin())
  _rename_device()


def _rename_device() -> None:
  device = os.environ.get(_DEVICE_VARIABLE)
  if device:
    os.environ[_DEVICE_VARIABLE] = device_name(device)


def behind_door(device_plugin):
  """The plugin to register: `device_plugin`, behind the door unless off."""
  if current_mode() is Mode.OFF:
    return device_plugin
  from .door.device_plugins import DoorPlugin
  if isinstance(device_plugin, DoorPlugin):
    return device_plugin
  return DoorPlugin(device_plugin)


def device_name(pjrt_device: str) -> str:
  """The name to run `PJRT_DEVICE=pjrt_device` under: CPU has another one."""
  if current_mode() is Mode.OFF or pjrt_device != 'CPU':
    return pjrt_device
  from .door.device_plugins import CPU_DEVICE
  return CPU_DEVICE


def hlo_text(program: bytes) -> str:
  """The text of a serialised HloModuleProto, as XLA prints it."""
  import torch_xla
  xlac = torch_xla._XLAC
  return xlac._xla_computation_text(
      xlac._xla_op_computation_from_module_proto('lowered', program))
