"""Reads a vendor's profile, the file that a custom wheel is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
import re
from typing import Any

from infra.errors import BuildError
from infra.patchset import manifest
from infra.wheel import names, pins, toml_values as values
from infra.wheel.requirement import names_extra, normal_name, requirement_of

MODES = ('off', 'v2', 'shardy')
FORMATS = ('hlo', 'mlir')
# What `format` sets: `_XLAC` converts programs to StableHLO by it.
FORMAT_VARIABLE = 'XLA_STABLEHLO_COMPILE'
DEVICE_VARIABLE = 'PJRT_DEVICE'
# What `mode` sets, and the other names that a user may choose one by.
_MODE_VARIABLES = ('XLA_USE_SHARDY', 'CONVERT_SHLO_TO_SHARDY',
                   'XLA_SHARDING_V2')

# The normal form of PEP 440, so that file names and metadata agree.
_VERSION = re.compile(
    re.escape(pins.OFFICIAL_VERSION) +
    r'\+(?P<local>(0|[1-9]\d*|\d*[a-z][a-z0-9]*)'
    r'(\.(0|[1-9]\d*|\d*[a-z][a-z0-9]*))*)', re.ASCII)
_CLASS = re.compile(
    r'(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):'
    r'(?P<name>[A-Za-z_]\w*)', re.ASCII)


@dataclass(frozen=True)
class Plugin:
  """A PJRT plugin that lies in the wheel.

  Attributes:
    device: the name that PJRT_DEVICE has for it.
    package: the folder of the Python package that goes into the wheel; None if
      one is made for the library.
    class_name: 'module:Class' of the plugin class; empty likewise.
    library: a PJRT plugin that goes into the package; None if the class finds
      its library elsewhere.
  """
  device: str
  package: Path | None
  class_name: str
  library: Path | None


@dataclass(frozen=True)
class Profile:
  """The content of a profile.

  Attributes:
    path: the file.
    name: of the wheel, as pip knows it.
    version: of the wheel.
    summary: one line.
    pythons: to build for, as in '3.11'; none for the running one.
    requires: what the wheel depends on besides.
    series: the vendor's checkout of further series, which has
      patches/series.toml; None if there are none.
    plugin: what lies in the wheel; None if a dependency brings it.
    mode: one of MODES.
    environment: variables that are set where the user's environment has none.
  """
  path: Path
  name: str
  version: str
  summary: str
  pythons: tuple[str, ...] = ()
  requires: tuple[str, ...] = ()
  series: Path | None = None
  plugin: Plugin | None = None
  mode: str = 'off'
  environment: Mapping[str, str] = field(default_factory=dict)


def load_profile(path: Path) -> Profile:
  """Loads the profile at `path`; its paths are relative to its folder.

  Raises:
    BuildError: it is missing, says something that cannot be, or names a file
      that is not there. The text names the key, the file and the remedy.
  """
  try:
    text = path.read_text(
        encoding='utf-8-sig')  # Some editors begin with a BOM.
  except (OSError, UnicodeDecodeError) as error:
    raise BuildError(f'the profile {path} cannot be read: {error}') from error
  return parse_profile(text, path)


def parse_profile(text: str, path: Path) -> Profile:
  """Parses a profile's text; arguments and errors as `load_profile`."""
  try:
    return _profile(values.table_of(text), path.resolve())
  except BuildError as error:
    raise BuildError(f'{path}: {error}') from None


def _profile(table: Mapping[str, Any], path: Path) -> Profile:
  values.check_keys(table, ('name', 'version', 'summary', 'pythons', 'requires',
                            'series', 'plugin', 'defaults'), ('version',))
  name = values.text(table, 'name', 'torch-xla')
  if why := names.wrong_distribution(name):
    raise BuildError(f'name: {name!r} {why}')
  version = values.text(table, 'version')
  defaults = values.subtable(table, 'defaults')
  values.check_keys(
      defaults, ('mode', 'format', 'environment'), where='defaults.')
  plugin = _plugin(values.subtable(table, 'plugin'),
                   path.parent) if 'plugin' in table else None
  environment = _environment(defaults)
  _check_device(plugin, environment)
  return Profile(path, name, _version(version), _summary(table, version),
                 _pythons(table), _requires(table, name),
                 _series(table, path.parent), plugin,
                 values.choice(defaults, 'mode', MODES, 'off', 'defaults.'),
                 environment)


def _version(version: str) -> str:
  match = _VERSION.fullmatch(version)
  if not match:
    raise BuildError(
        f'version: {version!r} is not {pins.OFFICIAL_VERSION} with a local part '
        'in its normal form: write small letters and digits, in parts apart by '
        f'dots, as in "{pins.OFFICIAL_VERSION}+acme.3"')
  if match['local'].split('.')[0] == 'shardy':
    raise BuildError(
        f"version: the local part of {version!r} is this project's "
        'own: begin it with a name of yours')
  return version


def _summary(table: Mapping[str, Any], version: str) -> str:
  summary = values.text(
      table, 'summary', f'XLA bridge for PyTorch: {version}, built from '
      f'{pins.VERSION}')
  if not summary.isprintable():
    raise BuildError('summary: it has to be one line of text')
  return summary


def _pythons(table: Mapping[str, Any]) -> tuple[str, ...]:
  pythons = values.texts(table, 'pythons')
  for python in pythons:
    if python not in pins.OFFICIAL_SHA256:
      raise BuildError(
          f'pythons: {python!r} has no official wheel: choose from '
          f'{", ".join(pins.OFFICIAL_SHA256)}')
  return pythons


def _requires(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
  """The further requirements of the wheel `name`."""
  requires = values.texts(table, 'requires')
  for requirement in requires:
    parsed = requirement_of(requirement)
    if parsed is None:
      raise BuildError(f'requires: {requirement!r} is no requirement: write a '
                       'package and a range, as in "acme-pjrt>=1.2,<2" or '
                       '"acme-pjrt>=1 ; python_version < \'3.12\'"')
    required = normal_name(parsed.name)
    if required in (normal_name(name), 'torch-xla'):
      raise BuildError(f'requires: {requirement!r} is what this wheel is '
                       'itself: take it away')
    if names_extra(requirement):
      raise BuildError(f'requires: {requirement!r} asks for an extra, and a '
                       'profile adds none: take the marker away')
    for own in pins.REQUIRES:
      if normal_name(requirement_of(own).name) == required:
        raise BuildError(f'requires: {requirement!r} is beside {own!r}, which '
                         'the wheel needs anyway: take it away')
  return requires


def _series(table: Mapping[str, Any], folder: Path) -> Path | None:
  text = values.text(table, 'series', '')
  if not text:
    return None
  if Path(text).parts[-2:] != Path(manifest.FILE).parts:
    raise BuildError(f'series: {text} has to be a file {manifest.FILE}, which '
                     'lists patches beside it as this project\'s does')
  return _there(folder, text, 'series').parents[1]


def _plugin(table: Mapping[str, Any], folder: Path) -> Plugin:
  values.check_keys(table, ('device', 'package', 'class', 'library'),
                    ('device',), 'plugin.')
  device = values.text(table, 'device', where='plugin.')
  if why := names.wrong_device(device):
    raise BuildError(f'plugin.device: {device!r} {why}')
  package = values.text(table, 'package', '', where='plugin.')
  class_name = values.text(table, 'class', '', where='plugin.')
  library = values.text(table, 'library', '', where='plugin.')
  if bool(package) != bool(class_name):
    raise BuildError('plugin.package and plugin.class go together: name the '
                     'folder of the package, and the plugin class in it')
  if not package and not library:
    raise BuildError(
        'plugin.library is missing: name a PJRT plugin to put into '
        'the wheel, or plugin.package and plugin.class')
  match = _CLASS.fullmatch(class_name)
  if class_name and (not match or
                     match['module'].split('.')[0] != Path(package).name):
    raise BuildError(f'plugin.class: {class_name!r} is no class of '
                     f'plugin.package: write "{Path(package).name}:Class"')
  if library and (why := names.wrong_library(Path(library).name)):
    raise BuildError(f'plugin.library: {library!r} {why}')
  return Plugin(device, _package(folder, package), class_name,
                _there(folder, library, 'plugin.library') if library else None)


def _package(folder: Path, text: str) -> Path | None:
  if not text:
    return None
  if why := names.wrong_package(Path(text).name):
    raise BuildError(f'plugin.package: {text} {why}')
  return _there(folder, f'{text}/__init__.py', 'plugin.package').parent


def _environment(defaults: Mapping[str, Any]) -> dict[str, str]:
  environment = values.subtable(defaults, 'environment', where='defaults.')
  for name, value in environment.items():
    key = f'defaults.environment.{name}'
    if why := names.wrong_variable(name):
      raise BuildError(f'{key}: {why}')
    if not isinstance(value, str) or '\0' in value:
      raise BuildError(f'{key}: the value has to be a text, as in "1"')
    if name in _MODE_VARIABLES:
      raise BuildError(f'{key}: write defaults.mode, one of {", ".join(MODES)}')
    if name == FORMAT_VARIABLE:
      raise BuildError(f'{key}: write defaults.format, one of '
                       f'{", ".join(FORMATS)}')
  form = values.choice(defaults, 'format', FORMATS, '', 'defaults.')
  chosen = {FORMAT_VARIABLE: str(FORMATS.index(form))} if form else {}
  return {**environment, **chosen}


def _check_device(plugin: Plugin | None, environment: Mapping[str,
                                                              str]) -> None:
  """Raises BuildError if the default device is one that there is not."""
  device = environment.get(DEVICE_VARIABLE)
  if plugin is None or device is None:
    return  # A dependency may bring any.
  if device != plugin.device and device not in names.TAKEN_DEVICES:
    raise BuildError(
        f'defaults.environment.{DEVICE_VARIABLE}: there is no device '
        f'{device!r}: write that of plugin.device, {plugin.device!r}')


def _there(folder: Path, text: str, key: str) -> Path:
  """The file that a key names."""
  path = folder / text
  try:
    exists = path.is_file()
  except OSError as error:
    raise BuildError(f'{key}: {error}: correct the path') from error
  if not exists:
    raise BuildError(f'{key}: there is no file {path}; paths count from the '
                     'folder of the profile')
  return path
