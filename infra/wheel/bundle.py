"""The files that a vendor's profile adds to the wheel."""

from __future__ import annotations

import ast
from collections.abc import Iterable
import json
from pathlib import Path
import struct

from infra.errors import BuildError
from infra.wheel import overlay
from infra.wheel import plugins
from infra.wheel.distribution import class_of
from infra.wheel.distribution import package_of
from infra.wheel.profile import Profile

# Where torch_xla/shardy/vendor_defaults.py reads it.
_DEFAULTS = 'torch_xla/shardy/vendor.json'
_ELF64_LITTLE = b'\x7fELF\x02\x01'
_X86_64 = 62
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
    profile: the vendor's.
    official_names: the files of the official wheel.

  Raises:
    BuildError: one of them is not what it has to be.
  """
  files = {_DEFAULTS: _defaults(profile)}
  plugin = profile.plugin
  if plugin is None:
    return files
  package = package_of(profile)
  if any(name.split('/')[0] == package for name in official_names):
    raise BuildError(
        f'{profile.path}: plugin.package: the official wheel has a '
        f'package {package}: give yours another name')
  if plugin.package:
    files |= {
        name: (plugin.package.parent / name).read_bytes()
        for name in overlay.files_beneath(plugin.package.parent, package)
    }
    _check_class(profile, files)
    for name, data in files.items():
      if data.startswith(_ELF64_LITTLE):
        plugins.check_glibc(name, data)
  if plugin.library:
    name = f'{package}/{plugin.library.name}'
    if name in files:
      raise BuildError(f'{profile.path}: plugin.library: {name} is a file of '
                       'plugin.package already: name one of them only')
    files[name] = _library(plugin.library)
  if not plugin.package:
    made = _CLASS.format(device=plugin.device, library=plugin.library.name)
    files[f'{package}/__init__.py'] = made.encode()
  return files


def _defaults(profile: Profile) -> bytes:
  """The file that the wheel's torch_xla reads its defaults from."""
  data = {
      'distribution': profile.name,
      'version': profile.version,
      'mode': profile.mode,
      'environment': dict(profile.environment),
  }
  return (json.dumps(data, indent=2, sort_keys=True) + '\n').encode()


def _library(path: Path) -> bytes:
  """A vendor's library, checked as far as one can without loading it."""
  data = path.read_bytes()
  if (not data.startswith(_ELF64_LITTLE) or
      data[18:20] != struct.pack('<H', _X86_64)):
    raise BuildError(
        f'plugin.library: {path} is no shared library for Linux on '
        'x86-64: name the file that the linker wrote')
  if b'\0GetPjrtApi\0' not in data:
    raise BuildError(
        f'plugin.library: {path} does not export GetPjrtApi, so it '
        'is no PJRT plugin: name the library that does')
  plugins.check_glibc(path.name, data)
  return data


def _check_class(profile: Profile, files: dict[str, bytes]) -> None:
  """Raises BuildError unless the package has the plugin class."""
  module, _, name = class_of(profile).partition(':')
  path = module.replace('.', '/')
  file = next((f for f in (f'{path}.py', f'{path}/__init__.py') if f in files),
              None)
  if file is None:
    raise BuildError(f'{profile.path}: plugin.class: the package has no module '
                     f'{module}: correct its name')
  try:
    body = ast.parse(files[file]).body
  except SyntaxError as error:
    raise BuildError(f'{profile.path}: plugin.package: {file} is no Python: '
                     f'{error}: correct it') from error
  known = {n for statement in body for n in _names(statement)}
  if name not in known:
    raise BuildError(
        f'{profile.path}: plugin.class: {file} defines and imports '
        f'no {name}: correct its name')


def _names(statement: ast.stmt) -> list[str]:
  """The names of classes that a statement defines or imports."""
  if isinstance(statement, ast.ClassDef):
    return [statement.name]
  if isinstance(statement, ast.ImportFrom):
    return [alias.asname or alias.name for alias in statement.names]
  return []
