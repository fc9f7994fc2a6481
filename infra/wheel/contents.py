"""The files that a wheel adds to the official one, and their origins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import enum
import hashlib
from pathlib import Path
import zipfile

from infra.errors import BuildError
from infra.patchset.apply import patched_files
from infra.patchset.manifest import load_manifest, Series
from infra.patchset.patch import Patch, wheel_patches
from infra.wheel import metadata, overlay, patch_rules, pins
from infra.wheel.bundle import bundled_files
from infra.wheel.distribution import Distribution, distribution_of
from infra.wheel.patch_rules import OFFICIAL_INFO, VERSION_FILE
from infra.wheel.profile import Profile


class Origin(enum.Enum):
  """Where a file of a wheel is from."""
  UPSTREAM = "upstream's, byte for byte"
  PATCHED = "upstream's, patched"
  OURS = "this project's"
  BUILT = "this project's, built from its C sources"
  VENDOR = "the vendor's, from the profile"
  METADATA = 'metadata, as made again from all the rest'


@dataclass(frozen=True)
class Piece:
  """A file of the wheel that is not upstream's as it is.

  Attributes:
    by: the patches that made it from upstream's, in order, as 'series: file'.
  """
  data: bytes
  origin: Origin
  by: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaidSeries:
  """A series with its patches for the wheel.

  Attributes:
    root: the checkout that it lies in: this project's, or a vendor's.
  """
  root: Path
  series: Series
  patches: tuple[Patch, ...]


def digest(data: bytes) -> str:
  """The sha256 of some bytes, in hex."""
  return hashlib.sha256(data).hexdigest()


def digest_of_files(files: Mapping[str, bytes]) -> str:
  """One sha256 for some files: that of what `sha256sum` prints of them."""
  lines = [f'{digest(data)}  {name}\n' for name, data in sorted(files.items())]
  return digest(''.join(lines).encode())


@dataclass(frozen=True)
class Order:
  """Which wheel is to be made.

  Attributes:
    root: the checkout.
    profile: the vendor's, if there is one.
    python: that the wheel is for.
    official: the sha256 of the official wheel.
  """
  root: Path
  profile: Profile | None
  python: str
  official: str

  @property
  def wheel(self) -> Distribution:
    """The file name of the wheel."""
    return distribution_of(self.profile)


def all_series(root: Path, profile: Profile | None) -> list[LaidSeries]:
  """The series that a wheel has, in the order in which they are applied.

  Raises:
    BuildError: a list of series or a patch is not as it has to be.
  """
  ours = load_manifest(root).series
  laid = [
      LaidSeries(root, series, tuple(wheel_patches(root, series)))
      for series in ours
  ]
  if profile is None or profile.series is None:
    return laid
  try:
    for series in load_manifest(profile.series, ours).series:
      patches = wheel_patches(profile.series, series)
      laid.append(LaidSeries(profile.series, series, tuple(patches)))
  except BuildError as error:
    raise BuildError(f'{profile.path}: series: {error}') from error
  return laid


def patched(upstream: zipfile.ZipFile, laid: list[LaidSeries],
            note: Callable[[str], None]) -> dict[str, Piece]:
  """The official files that the series change, changed.

  Raises:
    BuildError: a patch does not apply, two of them clash, or one changes what
      it must not, or makes a module no Python.
  """
  patches = []
  by: dict[str, list[str]] = {}
  for series in laid:
    note(f'applying series {series.series.name}')
    patches += series.patches
    for patch in series.patches:
      for change in patch.changes:
        file = patch.name.rpartition('/')[2]
        by.setdefault(change.path, []).append(f'{series.series.name}: {file}')
  patch_rules.check_targets(patches)
  names = set(upstream.namelist())
  files = patched_files(
      lambda name: upstream.read(name) if name in names else None, patches)
  patch_rules.check_python(files, by)
  return {
      name: Piece(data, Origin.PATCHED, tuple(by[name]))
      for name, data in files.items()
  }


def own(root: Path) -> dict[str, Piece]:
  """The checkout's files for the wheel; also finds that LICENSE etc. exist.

  Raises:
    BuildError: a file is missing, or is a link.
  """
  for name in ('README.md', 'LICENSE'):
    if not (root / name).is_file():
      raise BuildError(f'{name} is missing from the checkout {root}')
  names = overlay.wheel_files(root)
  return {name: Piece((root / name).read_bytes(), Origin.OURS) for name in names}


def built(plugins: Mapping[str, bytes]) -> dict[str, Piece]:
  """The plugins in C."""
  return {name: Piece(data, Origin.BUILT) for name, data in plugins.items()}


def bundled(profile: Profile | None,
            upstream: zipfile.ZipFile) -> dict[str, Piece]:
  """The files of a vendor in the wheel; errors as `bundled_files`."""
  if profile is None:
    return {}
  files = bundled_files(profile, upstream.namelist())
  return {name: Piece(data, Origin.VENDOR) for name, data in files.items()}


def lay(upstream: zipfile.ZipFile, below: Mapping[str, Piece], *above:
        Mapping[str, Piece]) -> dict[str, Piece]:
  """All pieces but the metadata.

  Args:
    upstream: the official wheel.
    below: its files that are patched.
    above: files that lie beside them.

  Raises:
    BuildError: one of the latter is a file of the official wheel, or of another
      one of them.
  """
  pieces = dict(below)
  for files in above:
    overlay.check_clashes(files, upstream.namelist())
    twice = sorted(pieces.keys() & files.keys())
    if twice:
      raise BuildError(f'{", ".join(twice)}: a file of the profile cannot take '
                       "the place of this project's: give it another name")
    pieces |= files
  return pieces


def metadata_files(root: Path, upstream: zipfile.ZipFile,
                   wheel: Distribution) -> dict[str, Piece]:
  """The metadata that differ from upstream's.

  RECORD and the bill of materials are not among them.

  Raises:
    BuildError: the official ones are not as expected.
  """

  def read(name: str) -> str:
    return upstream.read(name).decode()

  readme = (root / 'README.md').read_text(encoding='utf-8')
  rewritten = {
      f'{wheel.info}/METADATA':
          metadata.rewrite_metadata(
              read(f'{OFFICIAL_INFO}/METADATA'), wheel, readme),
      f'{wheel.info}/WHEEL':
          metadata.rewrite_wheel(read(f'{OFFICIAL_INFO}/WHEEL')),
      f'{wheel.info}/licenses/{metadata.LICENSE_NAME}':
          (root / 'LICENSE').read_text(encoding='utf-8'),
      VERSION_FILE:
          metadata.rewrite_version(read(VERSION_FILE), wheel.version),
      f'{wheel.info}/top_level.txt':
          metadata.add_packages(
              read(f'{OFFICIAL_INFO}/top_level.txt'), wheel.packages),
      f'{wheel.info}/entry_points.txt':
          metadata.add_entry_points(
              metadata.add_entry_points(
                  read(f'{OFFICIAL_INFO}/entry_points.txt'), pins.PLUGIN_GROUP,
                  wheel.plugins), pins.SCRIPT_GROUP, pins.SCRIPTS),
  }
  return {
      name: Piece(text.encode(), Origin.METADATA)
      for name, text in rewritten.items()
  }


def carried(upstream: zipfile.ZipFile, wheel: Distribution,
            pieces: Mapping[str, Piece]) -> dict[str, str]:
  """The wheel's name for each official file that it copies unchanged."""
  names = {
      info.filename:
          info.filename.replace(f'{OFFICIAL_INFO}/', f'{wheel.info}/')
      for info in upstream.infolist()
      if not info.is_dir() and info.filename != f'{OFFICIAL_INFO}/RECORD'
  }
  return {source: name for source, name in names.items() if name not in pieces}
