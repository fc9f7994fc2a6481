"""The files that a wheel adds to the official one, and their origins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import enum
import hashlib
from pathlib import Path
import warnings
import zipfile

from infra.errors import BuildError, within
from infra.patchset.apply import patched_files
from infra.patchset.manifest import load_manifest, Series
from infra.patchset.patch import Patch, wheel_patches
from infra.wheel import overlay
from infra.wheel.metadata import OFFICIAL_INFO, VERSION_FILE
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


def pieces_of(files: Mapping[str, bytes], origin: Origin) -> dict[str, Piece]:
  """Pieces of one origin."""
  return {name: Piece(data, origin) for name, data in files.items()}


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


def all_series(root: Path, profile: Profile) -> list[LaidSeries]:
  """The series that a wheel has, in the order in which they are applied.

  Raises:
    BuildError: a list of series or a patch is not as it has to be.
  """
  ours = load_manifest(root).series
  laid = [_laid(root, series) for series in ours]
  if profile.series:
    theirs = profile.file(profile.series).parents[1]
    with within(f'{profile.path}: series'):
      laid += [_laid(theirs, s) for s in load_manifest(theirs, ours).series]
  return laid


def _laid(root: Path, series: Series) -> LaidSeries:
  return LaidSeries(root, series, tuple(wheel_patches(root, series)))


def patched(upstream: zipfile.ZipFile, laid: list[LaidSeries],
            note: Callable[[str], None]) -> dict[str, Piece]:
  """The official files that the series change, changed.

  Raises:
    BuildError: a patch does not apply, two of them clash, or one changes what
      it must not, or makes a module no Python.
  """
  patches: list[Patch] = []
  by: dict[str, list[str]] = {}
  for series in laid:
    note(f'applying series {series.series.name}')
    patches += series.patches
    for patch in series.patches:
      for path in (change.path for change in patch.changes):
        if path == VERSION_FILE or path.startswith(f'{OFFICIAL_INFO}/'):
          raise BuildError(
              f'patch {patch.name} changes {path}, which the builder writes: '
              'take that change away; version, name, summary, requires and '
              'plugin of a profile say what these files hold')
        by.setdefault(path, []).append(f'{series.series.name}: {patch.file}')
  names = set(upstream.namelist())
  files = patched_files(
      lambda name: upstream.read(name) if name in names else None, patches)
  for name, data in files.items():
    if name.endswith('.py'):
      _check_python(name, data, by[name])
  return {
      name: Piece(data, Origin.PATCHED, tuple(by[name]))
      for name, data in files.items()
  }


def _check_python(name: str, data: bytes, by: Sequence[str]) -> None:
  """Raises BuildError if patches have made a module no Python."""
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')  # They are the module's own affair.
      compile(data, '<module>', 'exec', dont_inherit=True)
  except SyntaxError as error:
    raise BuildError(
        f'{name}, as patched by {", ".join(by)}, is no Python: '
        f'line {error.lineno}: {error.msg}: correct the patch') from None


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
