"""Requirements of a report: `fits`, or a limit of a quantity."""

from __future__ import annotations

import dataclasses
from typing import Optional, Union

from . import quantities
from ..report import AotReport
from ...gate import requirements
from .wording import verdict

_FITS = 'fits'


@dataclasses.dataclass(frozen=True)
class Fits:
  """The requirement that every program fits."""
  text: str = _FITS

  def check(self, report: AotReport) -> Optional[str]:
    """Checks a report, as `gate.requirements.Requirement.check` does."""
    return None if report.fits else f'{self.text}: {verdict(report)}'


Requirement = Union[Fits, requirements.Requirement]


def known() -> str:
  """The list of possible requirements, for people."""
  return (
      f'{_FITS}, or a quantity, one of {" ".join(requirements.OPERATORS)}, and '
      'a number such as 3, 1GiB, 16 MB, 2.5T.\n'
      f'Quantities: {quantities.known()}.\n'
      'All are of one device. Memory is that of the program which needs the '
      'most of it; flops, cycles and collectives are those of one step '
      'after warm-up, over AXIS,AXIS those along '
      'exactly these axes. What is not known does not hold.')


def parse(text: str) -> Requirement:
  """Reads `fits`, or what `gate.requirements.parse` does.

  Raises:
    RequirementError: it is neither, or names no quantity.
  """
  if text.strip() == _FITS:
    return Fits()
  return requirements.parse(text, quantities.named)
