"""Reads a vendor's profile, the file that a custom wheel is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
import re
from typing import Literal

from packaging.utils import canonicalize_name

from infra.errors import BuildError, within
from infra.patchset import manifest
from infra.wheel import names, pins, toml_values
from infra.wheel.requirement import names_extra, requirement_of

# `_XLAC` converts programs to StableHLO by it.
_FORMAT_VARIABLE = 'XLA_STABLEHLO_COMPILE'
_FORMATS = {'hlo': '0', 'mlir': '1'}
# The names by which a user may choose a mode.
_MODE_VARIABLES = ('XLA_USE_SHARDY', 'CONVERT_SHLO_TO_SHARDY',
                   'XLA_SHARDING_V2')

_NAME = re.compile(r'[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?')
# The normal form of PEP 440, so that file names and metadata agree.
_VERSION = re.compile(
    re.escape(pins.OFFICIAL_VERSION) +
    r'\+(?P<local>(0|[1-9]\d*|\d*[a-z][a-z0-9]*)'
    r'(\.(0|[1-9]\d*|\d*[a-z][a-z0-9]*))*)', re.ASCII)
_CLASS = re.compile(r'([A-Za-z_]\w*)(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*', re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Plugin:
  """A PJRT plugin that lies in the wheel.

  Attributes:
    device: the name that PJRT_DEVICE has for it.
    package: the folder of the Python package that goes into the wheel; empty if
      one is made for the library.
    class_name: 'module:Class' of the plugin class; empty likewise.
    library: a PJRT plugin that goes into the package; empty if the class finds
      its library elsewhere.
  """
  device: str
  package: str = ''
  class_name: str = field(default='', metadata={'key': 'class'})
  library: str = ''

  @property
  def package_name(self) -> str:
    """The package in the wheel that has the plugin class."""
    return (Path(self.package).name
            if self.package else f'torch_xla_{self.device.lower()}')

  @property
  def entry_points(self) -> dict[str, str]:
    """The entry point by which torch_xla knows the plugin."""
    name = self.class_name or f'{self.package_name}:Plugin'
    return {self.device.lower(): name}


@dataclass(frozen=True, kw_only=True)
class Defaults:
  """The settings that hold where the user's environment has none."""
  mode: Literal['off', 'v2', 'shardy'] = 'off'
  format: Literal['hlo', 'mlir'] | None = None
  environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Profile:
  """The content of a profile; paths count from its folder.

  Attributes:
    path: the file; None for this project's own wheel.
    name: of the wheel, as pip knows it.
    version: of the wheel.
    summary: one line.
    pythons: to build for, as in '3.11'; none for the running one.
    requires: what the wheel depends on besides.
    series: the list of the vendor's further series; empty if there are none.
    plugin: what lies in the wheel; None if a dependency brings it.
  """
  path: Path | None
  name: str = 'torch-xla'
  version: str
  summary: str = ''
  pythons: tuple[str, ...] = ()
  requires: tuple[str, ...] = ()
  series: str = ''
  plugin: Plugin | None = None
  defaults: Defaults = field(default_factory=Defaults)

  def file(self, name: str) -> Path:
    """The file that the profile names."""
    return self.path.parent / name

  @property
  def file_part(self) -> str:
    """The name in its normal form, as the names of files have it."""
    return canonicalize_name(self.name).replace('-', '_')

  @property
  def info(self) -> str:
    """The folder of the metadata in the wheel."""
    return f'{self.file_part}-{self.version}.dist-info'

  @property
  def bom(self) -> str:
    """Where the bill of materials lies in the wheel (PEP 770)."""
    return f'{self.info}/sboms/{self.file_part}.cdx.json'

  def wheel_name(self, python: str) -> str:
    """The file name of the wheel for a Python, as in '3.11'."""
    return pins.wheel_name(self.version, python, self.file_part)

  @property
  def environment(self) -> dict[str, str]:
    """The variables that are set where the user's environment has none."""
    form = self.defaults.format
    chosen = {_FORMAT_VARIABLE: _FORMATS[form]} if form else {}
    return self.defaults.environment | chosen


# This project's own, which no file changes.
FORK = Profile(path=None, version=pins.VERSION, summary=pins.SUMMARY)


def load_profile(path: Path) -> Profile:
  """Loads the profile at `path`.

  Raises:
    BuildError: it is missing, says something that cannot be, or names a file
      that is not there. The text names the key, the file and the remedy.
  """
  with within(str(path)):
    profile = toml_values.load(Profile, path, path=path.resolve())
    for problem in _problems(profile):
      raise BuildError(problem)
  return replace(
      profile,
      summary=profile.summary or
      f'XLA bridge for PyTorch: {profile.version}, built from {pins.VERSION}')


def _problems(profile: Profile) -> Iterator[str]:
  if not _NAME.fullmatch(profile.name):
    yield (f'name: {profile.name!r} is no name of a distribution: write '
           'letters, digits, -, _ and ., as in "acme-torch-xla"')
  match = _VERSION.fullmatch(profile.version)
  if not match:
    yield (
        f'version: {profile.version!r} is not {pins.OFFICIAL_VERSION} with a '
        'local part in its normal form: write small letters and digits, in '
        f'parts apart by dots, as in "{pins.OFFICIAL_VERSION}+acme.3"')
  elif match['local'].split('.')[0] == 'shardy':
    yield (f'version: the local part of {profile.version!r} is this '
           "project's own: begin it with a name of yours")
  if not profile.summary.isprintable():
    yield 'summary: it has to be one line of text'
  for python in profile.pythons:
    if python not in pins.OFFICIAL_SHA256:
      yield (f'pythons: {python!r} has no official wheel: choose from '
             f'{", ".join(pins.OFFICIAL_SHA256)}')
  for requirement in profile.requires:
    if why := _wrong_requirement(requirement, profile.name):
      yield f'requires: {requirement!r} {why}'
  if profile.series:
    if Path(profile.series).parts[-2:] != Path(manifest.FILE).parts:
      yield (
          f'series: {profile.series} has to be a file {manifest.FILE}, which '
          "lists patches beside it as this project's does")
    yield from _missing(profile, profile.series, 'series')
  if profile.plugin:
    yield from _problems_of_plugin(profile, profile.plugin)
  for name, value in profile.defaults.environment.items():
    if why := _wrong_variable(name, value, profile.plugin):
      yield f'defaults.environment.{name}: {why}'


def _wrong_requirement(requirement: str, name: str) -> str:
  """Why the wheel `name` cannot have a requirement; empty if it can."""
  need = requirement_of(requirement)
  if need is None:
    return ('is no requirement: write a package and a range, as in '
            '"acme-pjrt>=1.2,<2" or "acme-pjrt>=1 ; python_version < \'3.12\'"')
  required = canonicalize_name(need.name)
  if required in (canonicalize_name(name), 'torch-xla'):
    return 'is what this wheel is itself: take it away'
  if names_extra(requirement):
    return 'asks for an extra, and a profile adds none: take the marker away'
  for own in pins.REQUIRES:
    if canonicalize_name(requirement_of(own).name) == required:
      return f'is beside {own!r}, which the wheel needs anyway: take it away'
  return ''


def _problems_of_plugin(profile: Profile, plugin: Plugin) -> Iterator[str]:
  package, library = plugin.package, plugin.library
  if why := names.wrong_device(plugin.device):
    yield f'plugin.device: {plugin.device!r} {why}'
  if bool(package) != bool(plugin.class_name):
    yield (
        'plugin.package and plugin.class go together: name the folder of the '
        'package, and the plugin class in it')
  if not package and not library:
    yield ('plugin.library is missing: name a PJRT plugin to put into the '
           'wheel, or plugin.package and plugin.class')
  if package:
    match = _CLASS.fullmatch(plugin.class_name)
    if not match or match[1] != plugin.package_name:
      yield (f'plugin.class: {plugin.class_name!r} is no class of '
             f'plugin.package: write "{plugin.package_name}:Class"')
    if why := names.wrong_package(plugin.package_name):
      yield f'plugin.package: {package} {why}'
    yield from _missing(profile, f'{package}/__init__.py', 'plugin.package')
  if library:
    if why := names.wrong_library(Path(library).name):
      yield f'plugin.library: {library!r} {why}'
    yield from _missing(profile, library, 'plugin.library')


def _wrong_variable(name: str, value: object, plugin: Plugin | None) -> str:
  """Why a variable cannot have a value by default; empty if it can."""
  if why := names.wrong_variable(name):
    return why
  if not isinstance(value, str) or '\0' in value:
    return 'the value has to be a text, as in "1"'
  if name in _MODE_VARIABLES:
    return 'write defaults.mode, one of off, v2, shardy'
  if name == _FORMAT_VARIABLE:
    return f'write defaults.format, one of {", ".join(_FORMATS)}'
  # A dependency may bring any device.
  if (name == 'PJRT_DEVICE' and plugin and
      value not in (plugin.device, *names.TAKEN_DEVICES)):
    return (f'there is no device {value!r}: write that of plugin.device, '
            f'{plugin.device!r}')
  return ''


def _missing(profile: Profile, name: str, key: str) -> Iterator[str]:
  """The problem with a file that a key names, if there is one."""
  path = profile.file(name)
  try:
    if not path.is_file():
      yield (f'{key}: there is no file {path}; paths count from the folder of '
             'the profile')
  except OSError as error:
    yield f'{key}: {error}: correct the path'
