"""Bills of materials: what writes them, and that of a wheel."""

from __future__ import annotations

from dataclasses import dataclass
import importlib.metadata
from pathlib import Path
import re
import zlib

from infra.errors import BuildError
from infra.wheel import official, pins

# Where it lies is told by PEP 770.
_MEMBER = re.compile(r'[^/]+\.dist-info/sboms/[^/]+\.cdx\.json')


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
