"""The formats in which a compiler may take programs."""

from __future__ import annotations

from collections.abc import Iterator
import dataclasses
import importlib.util
from typing import Optional

from ..shared.stablehlo import dialects
from .programs import HLO, MLIR, Program


@dataclasses.dataclass(frozen=True)
class Format:
  """HLO, StableHLO's text, or StableHLO's portable artifacts of a version."""
  name: str
  artifact_version: Optional[str] = None

  def written(self, program: Program) -> Program:
    """A program in HLO or in MLIR's text, as it is sent.

    Raises:
      ProgramTextError: it cannot be written in that version.
    """
    if (self.artifact_version is None or program.format != MLIR or
        program.code[:2] == b'ML'):
      return program
    try:
      module = dialects.read(program.code)
    except dialects.ProgramTextError:
      return program  # A damaged one is to arrive as it is.
    version = dialects.parse_version(self.artifact_version)
    return dataclasses.replace(program, code=dialects.write(module, version))


def can_write_artifacts() -> bool:
  """Tests whether jaxlib, which writes them, is installed."""
  return importlib.util.find_spec('jaxlib') is not None


def artifacts() -> list[Format]:
  """Those to try, the newest first and the oldest writable last."""
  versions = {
      dialects.current_version(),
      dialects.cautious_version(),
      dialects.oldest_version()
  }
  return [
      Format(MLIR, dialects.version_text(version))
      for version in sorted(versions, reverse=True)
  ]


def known() -> Iterator[Format]:
  """All that are tried."""
  yield Format(HLO)
  yield Format(MLIR)
  if can_write_artifacts():
    yield from artifacts()
