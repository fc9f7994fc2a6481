"""The plugin under test as torch_xla registers one."""

from __future__ import annotations

from typing import Any

from torch_xla.experimental import plugins

from .case import ConformanceError, Needs
from .subject import Subject
from .torch_modules import missing


class SubjectPlugin(plugins.DevicePlugin):
  """A library that nobody registered."""

  def __init__(self, subject: Subject):
    super().__init__()
    self._subject = subject

  def library_path(self) -> str:
    return self._subject.library

  def client_create_options(self) -> dict[str, Any]:
    return dict(self._subject.options)


class StablehloPlugin(SubjectPlugin):
  """One that reads StableHLO alone."""

  def program_format(self) -> str:
    return 'mlir'


def register(subject: Subject, takes_mlir_only: bool) -> Any:
  """The plugin, registered under its device's name.

  Raises:
    ConformanceError: there is no such device.
  """
  if subject.library:
    plugin = (StablehloPlugin if takes_mlir_only else SubjectPlugin)(subject)
    plugins.register_plugin(subject.device, plugin)
    return plugin
  plugins.register_installed_plugins()
  plugin = _registered(subject.device)
  if plugin is None:
    known = sorted(plugins._plugin_registry)
    raise ConformanceError(
        f'--device {subject.device}: no plugin has that name; registered are '
        f'{", ".join(known) or "none"}')
  return plugin


def _registered(device: str) -> Any:
  """The plugin of a device, without the door of this project's torch_xla."""
  if missing(Needs.MODES):
    return plugins._plugin_registry.get(device)
  from torch_xla.shardy.door import device_plugins
  return device_plugins.registered(device)
