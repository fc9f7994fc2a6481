"""Puts together what a wheel adds to the official one, and tells its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import hashlib
from pathlib import Path
import re
import zipfile

from infra.patchset import manifest
from infra.wheel import contents, metadata, overlay
from infra.wheel.bom import BuiltInput, File, Inputs, SeriesInput, Tools
from infra.wheel.contents import LaidSeries, Origin, Piece
from infra.wheel.distribution import Distribution, distribution_of
from infra.wheel.profile import Profile

# What the libraries in C are built from: their sources, and how.
_SOURCE_FOLDERS = ('infra/bazel', 'torch_xla/csrc')
_SOURCE_FILES = ('.bazelrc', '.bazelversion', 'BUILD', 'WORKSPACE',
                 'torch_xla/shardy/pjrt_abi.inc')
_COMPILER = re.compile(rb'(?:GCC: \(|clang version )[ -~]+')


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


def assemble(order: Order, upstream: zipfile.ZipFile, laid: list[LaidSeries],
             below: Mapping[str, Piece], own: Mapping[str, Piece],
             plugins: Mapping[str, bytes], tools: Tools) -> dict[str, Piece]:
  """Every file of a wheel that is not the official one's as it is, less RECORD.

  Args:
    order: which wheel.
    upstream: the official wheel.
    laid: its series.
    below: the official files that they change.
    own: the checkout's files.
    plugins: the libraries in C.
    tools: what it is written with.

  Raises:
    BuildError: files clash, or what the profile names is not as it has to be.
  """
  # Only what builds or verifies a wheel needs its library.
  from infra.wheel.bom_components import write_bom

  wheel = order.wheel
  pieces = contents.lay(upstream, below, own, contents.built(plugins),
                        contents.bundled(order.profile, upstream))
  rewritten = contents.metadata_files(order.root, upstream, wheel)
  requires = metadata.requirements(
      rewritten[f'{wheel.info}/METADATA'].data.decode())
  bom = write_bom(_inputs(order, requires, laid, pieces, tools))
  return pieces | rewritten | {wheel.bom: Piece(bom.encode(), Origin.METADATA)}


def _inputs(order: Order, requires: Iterable[str], laid: Iterable[LaidSeries],
            pieces: Mapping[str, Piece], tools: Tools) -> Inputs:

  def files_of(origin: Origin) -> dict[str, bytes]:
    return {n: p.data for n, p in pieces.items() if p.origin is origin}

  profile = order.profile
  sources = _sources(order.root)
  vendor = files_of(Origin.VENDOR)
  if profile:
    vendor[profile.path.name] = profile.path.read_bytes()
  return Inputs(
      order.wheel, order.python, order.official,
      tuple(_series(series, order.root) for series in laid),
      digest_of_files(files_of(Origin.OURS)),
      tuple(
          BuiltInput(File(name, digest(data)), sources, compiler_of(data))
          for name, data in sorted(files_of(Origin.BUILT).items())),
      tuple(File(name, digest(data)) for name, data in sorted(vendor.items())),
      tuple(requires), tools)


def _series(laid: LaidSeries, root: Path) -> SeriesInput:
  series = laid.series
  folder = laid.root / manifest.FOLDER
  return SeriesInput(
      series.name,
      series.description,
      series.bug,
      vendor=laid.root != root,
      patches=tuple(
          File(patch.name, digest((folder / patch.name).read_bytes()))
          for patch in laid.patches))


def _sources(root: Path) -> str:
  names = [
      name for folder in _SOURCE_FOLDERS
      for name in overlay.files_beneath(root, folder)
  ]
  names += [name for name in _SOURCE_FILES if (root / name).is_file()]
  return digest_of_files({name: (root / name).read_bytes() for name in names})


def compiler_of(library: bytes) -> str:
  """The compilers that a library names."""
  compilers = sorted({text.decode() for text in _COMPILER.findall(library)})
  return ', '.join(compilers) or 'not told'
