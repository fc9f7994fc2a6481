"""StableHLO's portable artifacts, which some plugins take and no text."""

from __future__ import annotations

import dataclasses
import importlib.util

from ..shared.stablehlo import dialects
from .programs import MLIR, Program


def can_write() -> bool:
  """Tests whether jaxlib, which writes them, is installed."""
  return importlib.util.find_spec('jaxlib') is not None


def versions() -> list[str]:
  """The versions to try, the newest first and the oldest writable last."""
  tried = {
      dialects.current_version(),
      dialects.cautious_version(),
      dialects.oldest_version()
  }
  return [dialects.version_text(v) for v in sorted(tried, reverse=True)]


def as_artifact(program: Program, version: str) -> Program:
  """A program in MLIR's text, as an artifact; in HLO it stays as it is.

  Raises:
    ProgramTextError: it cannot be written in that version.
  """
  if program.format != MLIR or program.code[:2] == b'ML':
    return program
  try:
    module = dialects.read(program.code)
  except dialects.ProgramTextError:
    return program  # A damaged one is to arrive as it is.
  code = dialects.write(module, dialects.parse_version(version))
  return dataclasses.replace(program, code=code)
