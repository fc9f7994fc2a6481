"""The files that a vendor's profile adds to the wheel."""

from __future__ import annotations

from collections.abc import Iterable
import json
from pathlib import Path

from infra.errors import BuildError, within
from infra.wheel import overlay, pins, plugins
from infra.wheel.names import wrong_library
from infra.wheel.profile import Plugin, Profile

# Where torch_xla/shardy/vendor_defaults.py reads it.
_DEFAULTS = 'torch_xla/shardy/vendor.json'
# Of ELF: 64 bits, little-endian; the machine, 62.
_X86_64 = b'\x7fELF\x02\x01>\x00'
# What every PJRT plugin exports.
_ENTRY = b'GetPjrtApi'
_CLASS = '''\
"""The PJRT plugin of device {device}, {library} in this package."""

from pathlib import Path

from torch_xla.experimental import plugins


class Plugin(plugins.DevicePlugin):

  def library_path(self) -> str:
    return str(Path(__file__).with_name({library!r}))
'''


def bundled_files(profile: Profile,
                  official_names: Iterable[str]) -> dict[str, bytes]:
  """The files of a wheel that come from a profile and what it names.

  Args:
    profile: the vendor's, or this project's own, which has none.
    official_names: the files of the official wheel.

  Raises:
    BuildError: one of them is not what it has to be.
  """
  if profile.path is None:
    return {}
  data = {
      'distribution': profile.name,
      'version': profile.version,
      'mode': profile.defaults.mode,
      'environment': profile.environment,
  }
  text = json.dumps(data, indent=2, sort_keys=True) + '\n'
  files = {_DEFAULTS: text.encode()}
  if profile.plugin:
    with within(str(profile.path)):
      files |= _plugin_files(profile, profile.plugin, official_names)
  return files


def _plugin_files(profile: Profile, plugin: Plugin,
                  official_names: Iterable[str]) -> dict[str, bytes]:
  """The files of a plugin, checked as far as one can without loading them."""
  package, library = plugin.package_name, Path(plugin.library).name
  if package in {
      pins.COMMAND_PACKAGE, *(name.split('/')[0] for name in official_names)
  }:
    raise BuildError(f'plugin.package: every wheel has a package {package}: '
                     'give yours another name')
  files = {}
  if plugin.package:
    folder = profile.file(plugin.package).parent
    for name in overlay.files_beneath(folder, package):
      files[name] = (folder / name).read_bytes()
  else:
    module = _CLASS.format(device=plugin.device, library=library)
    files[f'{package}/__init__.py'] = module.encode()
  place = f'{package}/{library}'
  if library:
    if place in files:
      raise BuildError(f'plugin.library: {place} is a file of plugin.package '
                       'already: name one of them only')
    files[place] = profile.file(plugin.library).read_bytes()
  for name, data in files.items():
    key = 'plugin.library' if name == place else 'plugin.package'
    if (wrong_library(Path(name).name) is None and
        data[:6] + data[18:20] != _X86_64):
      raise BuildError(f'{key}: {name} is no shared library for Linux on '
                       'x86-64: take the file that the linker wrote for it')
    if data.startswith(b'\x7fELF'):
      plugins.check_glibc(name, data)
  if library and _ENTRY not in files[place]:
    raise BuildError(f'plugin.library: {place} does not export GetPjrtApi, so '
                     'it is no PJRT plugin: name the library that does')
  return files
