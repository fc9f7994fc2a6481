"""The name and the description of a wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import re

from infra.wheel import pins
from infra.wheel.profile import Profile


@dataclass(frozen=True)
class Distribution:
  """A wheel's name and what its metadata say besides upstream's.

  Attributes:
    name: as pip knows it.
    requires: what it depends on.
    packages: further packages that lie in it.
    plugins: further entry points of the group torch_xla.plugins.
  """
  name: str
  version: str
  summary: str
  requires: tuple[str, ...] = pins.REQUIRES
  packages: tuple[str, ...] = (pins.COMMAND_PACKAGE,)
  plugins: Mapping[str, str] = field(default_factory=dict)

  @property
  def file_part(self) -> str:
    """The name in its normal form, as the names of files have it."""
    return re.sub(r'[-_.]+', '_', self.name).lower()

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


# This project's own, which no profile changes.
FORK = Distribution('torch-xla', pins.VERSION, pins.SUMMARY)


def package_of(profile: Profile) -> str | None:
  """The package in the wheel that brings a profile's plugin class, or None."""
  if profile.plugin is None:
    return None
  if profile.plugin.package is None:
    return f'torch_xla_{profile.plugin.device.lower()}'
  return profile.plugin.package.name


def class_of(profile: Profile) -> str:
  """The plugin class, 'module:Class', of a profile that has a plugin."""
  return profile.plugin.class_name or f'{package_of(profile)}:Plugin'


def distribution_of(profile: Profile | None) -> Distribution:
  """The distribution of a profile; this project's own without one."""
  if profile is None:
    return FORK
  package = package_of(profile)
  return Distribution(
      profile.name, profile.version, profile.summary,
      (*pins.REQUIRES, *profile.requires),
      (pins.COMMAND_PACKAGE, *((package,) if package else ())),
      {profile.plugin.device.lower(): class_of(profile)} if package else {})
