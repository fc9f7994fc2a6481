"""The files that a vendor's profile adds to the wheel."""

from __future__ import annotations

from collections.abc import Iterable
import json
from pathlib import Path

from infra.errors import BuildError
from infra.wheel import overlay, pins, plugins
from infra.wheel.names import wrong_library
from infra.wheel.profile import Profile

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
  files = {_DEFAULTS: _defaults(profile)}
  plugin = profile.plugin
  if plugin is None:
    return files
  package = plugin.package_name
  if package in {
      pins.COMMAND_PACKAGE, *(name.split('/')[0] for name in official_names)
  }:
    raise BuildError(f'{profile.path}: plugin.package: every wheel has a '
                     f'package {package}: give yours another name')
  if plugin.package:
    files |= _package_files(profile, profile.file(plugin.package))
  if plugin.library:
    library = profile.file(plugin.library)
    name = f'{package}/{library.name}'
    if name in files:
      raise BuildError(f'{profile.path}: plugin.library: {name} is a file of '
                       'plugin.package already: name one of them only')
    files[name] = _library(library)
  if not plugin.package:
    module = _CLASS.format(device=plugin.device, library=library.name)
    files[f'{package}/__init__.py'] = module.encode()
  return files


def _defaults(profile: Profile) -> bytes:
  """The file that the wheel's torch_xla reads its defaults from."""
  data = {
      'distribution': profile.name,
      'version': profile.version,
      'mode': profile.defaults.mode,
      'environment': profile.environment,
  }
  return (json.dumps(data, indent=2, sort_keys=True) + '\n').encode()


def _library(path: Path) -> bytes:
  """A vendor's library, checked as far as one can without loading it."""
  data = path.read_bytes()
  _check_machine(f'plugin.library: {path}', data)
  if _ENTRY not in data:
    raise BuildError(f'plugin.library: {path} does not export GetPjrtApi, so '
                     'it is no PJRT plugin: name the library that does')
  plugins.check_glibc(path.name, data)
  return data


def _check_machine(name: str, data: bytes) -> None:
  if data[:6] + data[18:20] != _X86_64:
    raise BuildError(f'{name} is no shared library for Linux on x86-64: take '
                     'the file that the linker wrote for it')


def _package_files(profile: Profile, folder: Path) -> dict[str, bytes]:
  """The files of a vendor's package, checked like the library."""
  where = f'{profile.path}: plugin.package'
  names = overlay.files_beneath(folder.parent, folder.name)
  files = {name: (folder.parent / name).read_bytes() for name in names}
  for name, data in files.items():
    if wrong_library(name.rpartition('/')[2]) is None:
      _check_machine(f'{where}: {name}', data)
    if data.startswith(b'\x7fELF'):
      plugins.check_glibc(name, data)
  return files
