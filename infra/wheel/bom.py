"""Bills of materials: their inputs, and the content of one in a wheel."""

from __future__ import annotations

from dataclasses import dataclass
import importlib.metadata
from pathlib import Path
import re
import zlib

from infra.errors import BuildError
from infra.wheel import official, pins
from infra.wheel.distribution import Distribution

# Where it lies is told by PEP 770.
_MEMBER = re.compile(r'[^/]+\.dist-info/sboms/[^/]+\.cdx\.json')


@dataclass(frozen=True)
class File:
  """A file by its path and its sha256."""
  name: str
  sha256: str


@dataclass(frozen=True)
class SeriesInput:
  """A series of patches.

  Attributes:
    vendor: whether it is the vendor's, from the profile.
  """
  name: str
  description: str
  bug: str
  vendor: bool
  patches: tuple[File, ...]


@dataclass(frozen=True)
class BuiltInput:
  """A library that was built from C.

  Attributes:
    sources: the digest of the files that it is built from.
    compiler: what the library says that it was compiled by.
  """
  library: File
  sources: str
  compiler: str


@dataclass(frozen=True)
class Tools:
  """The versions of what writes the wheel; its bytes depend on them."""
  bom_library: str
  zlib: str

  @classmethod
  def here(cls) -> Tools:
    """The tools of this Python.

    Raises:
      BuildError: the library for bills of materials is missing, or another
        version than the pinned one.
    """
    pin = f'{pins.BOM_LIBRARY}=={pins.BOM_LIBRARY_VERSION}'
    try:
      version = importlib.metadata.version(pins.BOM_LIBRARY)
    except importlib.metadata.PackageNotFoundError:
      version = None
    if version != pins.BOM_LIBRARY_VERSION:
      now = f'{version} is' if version else 'none is'
      raise BuildError(f'the bill of materials is written by {pin}, and {now} '
                       f"installed: pip install '{pin}'")
    return cls(version, zlib.ZLIB_RUNTIME_VERSION)


@dataclass(frozen=True)
class Inputs:
  """The inputs of a wheel.

  Attributes:
    wheel: what it is called.
    python: that it is for.
    official: the sha256 of the official wheel.
    series: in the order in which they are applied.
    overlay: the digest of this project's files.
    built: the libraries in C.
    vendor: the profile and what it brings.
    requires: what the wheel depends on, as its METADATA say it.
    tools: what it is written with.
  """
  wheel: Distribution
  python: str
  official: str
  series: tuple[SeriesInput, ...]
  overlay: str
  built: tuple[BuiltInput, ...]
  vendor: tuple[File, ...]
  requires: tuple[str, ...]
  tools: Tools


def read_bom(wheel: Path) -> bytes:
  """The bill of materials in a wheel.

  Raises:
    BuildError: it has none, or is no wheel.
  """
  with official.open_wheel(wheel) as archive:
    for name in archive.namelist():
      if _MEMBER.fullmatch(name):
        return archive.read(name)
  raise BuildError(f'{wheel} has no bill of materials: build it again')
