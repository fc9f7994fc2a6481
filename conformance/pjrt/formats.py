"""Finds, by trying, in which formats a compiler takes programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
import dataclasses
from typing import Optional

from . import artifacts
from .graph import elementwise
from .programs import HLO, MLIR, Program
from .table import PjrtError

_DIMS = (8,)


@dataclasses.dataclass(frozen=True)
class Format:
  """HLO, StableHLO's text, or StableHLO's artifacts of a version."""
  name: str
  artifact_version: Optional[str] = None

  def written(self, program: Program) -> Program:
    """A program in HLO or in MLIR's text, as it is sent."""
    if self.artifact_version is None:
      return program
    return artifacts.as_artifact(program, self.artifact_version)


def known() -> Iterator[Format]:
  """All that are tried; artifacts where jaxlib is there, which writes them."""
  yield Format(HLO)
  yield Format(MLIR)
  if artifacts.can_write():
    for version in artifacts.versions():
      yield Format(MLIR, version)


def refusal(form: Format, device_ids: Sequence[int],
            compiler: Callable[[Program], None]) -> Optional[PjrtError]:
  """The compiler's refusal of a sum in that format; None if it accepts it."""
  try:
    compiler(form.written(elementwise(_DIMS).program(form.name, device_ids)))
    return None
  except PjrtError as e:
    return e


def first_taken(device_ids: Sequence[int], compiler: Callable[[Program],
                                                              None]) -> Format:
  """The first of `known` that a compiler takes.

  Raises:
    PjrtError: it takes none; what it says to HLO.
  """
  first: Optional[PjrtError] = None
  for form in known():
    error = refusal(form, device_ids, compiler)
    if error is None:
      return form
    first = first or error
  assert first
  raise first
