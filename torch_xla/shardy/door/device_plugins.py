"""Device plugins: built-in ones, and any plugin behind the door."""

from __future__ import annotations

from collections.abc import Callable
import importlib.util
import os
from typing import Optional

from torch_xla.experimental import plugins

from . import extras, shim
from ..errors import DoorError

# `PJRT_DEVICE=CPU` always means the runtime's built-in client, which has no
# door; XLA's CPU plugin therefore has a device name of its own. The name holds
# no underscore because `xr.device_type()` cuts it there.
CPU_DEVICE = 'XLACPU'
LIBRARY_DEVICE, LIBRARY_PATH_VARIABLE = 'LIBRARY', 'PJRT_LIBRARY_PATH'
_CPU_PACKAGE = 'xla_plugins.xla_cpu_pjrt'
_CPU_LIBRARY = 'xla_cpu_pjrt.so'
# XLA:CPU sizes its thread pools by this variable. With one thread per core, or
# one per device, queued collectives wait for each other until the 10 s
# rendezvous timeout aborts the process: each device blocks a thread, and the
# work that they wait for needs threads too. Two per device never did; many
# more only make the cores change between them (benchmarks/README.md).
_THREADS_VARIABLE = 'NPROC'
_THREADS_PER_DEVICE = _THREADS_PER_CORE = 2


class XlaCpuPlugin(plugins.DevicePlugin):
  """XLA's CPU plugin with `CPU_NUM_DEVICES` devices (default 1)."""

  @staticmethod
  def check_installed() -> None:
    """Checks that the plugin's package is installed.

    Raises:
      DoorError: the plugin's package is not installed.
    """
    XlaCpuPlugin._package_directory()

  @staticmethod
  def _package_directory() -> str:
    try:
      spec = importlib.util.find_spec(_CPU_PACKAGE)
    except ModuleNotFoundError:  # The parent package is missing too.
      spec = None
    if spec is None or not spec.submodule_search_locations:
      raise DoorError(
          "XLA's CPU plugin is not installed, and with XLA_USE_SHARDY or "
          'XLA_SHARDING_V2 set PJRT_DEVICE=CPU runs on it; install it with '
          f'{extras.command("cpu")}, or unset the variable, or set '
          "XLA_USE_SHARDY=0 if a vendor's wheel switched the mode on")
    return list(spec.submodule_search_locations)[0]

  def library_path(self) -> str:
    return os.path.join(self._package_directory(), _CPU_LIBRARY)

  def client_create_options(self) -> dict[str, int]:
    text = os.environ.get('CPU_NUM_DEVICES', '1')
    if not text.isdecimal() or int(text) < 1:
      raise ValueError(
          f'CPU_NUM_DEVICES={text!r} is not a positive number of devices')
    count = int(text)
    threads = (
        _THREADS_PER_DEVICE * count + _THREADS_PER_CORE * (os.cpu_count() or 1))
    os.environ.setdefault(_THREADS_VARIABLE, str(threads))
    return {'cpu_device_count': count}


class LibraryPlugin(plugins.DevicePlugin):
  """The plugin that PJRT_LIBRARY_PATH names, upstream's way to try one.

  In place of `_XLAC`'s own placeholder, which Python cannot put behind the
  door.
  """

  def library_path(self) -> str:
    """The path of the plugin's library, from the variable."""
    path = os.environ.get(LIBRARY_PATH_VARIABLE)
    if not path:
      raise DoorError(f'PJRT_DEVICE={LIBRARY_DEVICE} runs on the plugin that '
                      f'{LIBRARY_PATH_VARIABLE} names, and it is not set')
    return path


# Registered when a mode is switched on, unless something else has the name.
BUILT_IN = {CPU_DEVICE: XlaCpuPlugin, LIBRARY_DEVICE: LibraryPlugin}

# Each is called with a plugin whose library is open, before the runtime starts
# it, and raises a DoorError if it must not.
start_checks: list[Callable[[plugins.DevicePlugin], None]] = []


class DoorPlugin(plugins.DevicePlugin):
  """A device plugin whose library is the shim, with `inner`'s behind it."""

  def __init__(self, inner: plugins.DevicePlugin):
    super().__init__()
    self.inner = inner

  def library_path(self) -> str:
    """Opens the inner library, so that a bad one is an error that names it.

    Raises:
      DoorError: the inner library is missing or not a PJRT plugin, or something
        is missing that its programs need.
    """
    shim.open_inner(self.inner.library_path())
    for check in start_checks:
      check(self.inner)
    return shim.LIBRARY_PATH

  def client_create_options(self) -> dict:
    return self.inner.client_create_options()

  def requires_xla_coordinator(self) -> bool:
    return self.inner.requires_xla_coordinator()

  def host_index(self) -> int:
    return self.inner.host_index()

  def configure_single_process(self):
    return self.inner.configure_single_process()

  def configure_multiprocess(self, local_rank, local_world_size):
    return self.inner.configure_multiprocess(local_rank, local_world_size)

  def physical_chip_count(self) -> int:
    return self.inner.physical_chip_count()

  def __getattr__(self, name: str):
    # Whatever else a vendor's plugin offers to its own users.
    return getattr(self.inner, name)


def registered(device: Optional[str]) -> Optional[plugins.DevicePlugin]:
  """The plugin of a device as it was registered, without the door."""
  plugin = plugins._plugin_registry.get(device)
  return plugin.inner if isinstance(plugin, DoorPlugin) else plugin
