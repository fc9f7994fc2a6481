"""Judges requirements, PEP 508: pip refuses a whole wheel that has a wrong one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from packaging.requirements import Requirement

_TEXT = r"""(?:'[^']*'|"[^"]*")"""


def requirement_of(text: str) -> Requirement | None:
  """The need in a text; None if pip would refuse it."""
  # Only who has a need to read needs the library: `series.py` runs on any
  # Python.
  from packaging import markers
  from packaging.requirements import InvalidRequirement
  from packaging.requirements import Requirement
  try:
    need = Requirement(text)
    if need.marker:  # pip fails at some only as it installs.
      need.marker.evaluate({'extra': ''})
  except (InvalidRequirement, markers.UndefinedComparison,
          markers.UndefinedEnvironmentName):
    return None
  is_url = need.url is None or '://' in need.url
  return need if is_url and text.isascii() and text.isprintable() else None


def names_extra(requirement: str) -> bool:
  """Tests whether a requirement, valid for pip, holds for an extra only."""
  marker = requirement.partition(';')[2]
  return bool(re.search(r'\bextra\b', re.sub(_TEXT, '', marker)))


def normal_name(name: str) -> str:
  """The name of a distribution in its normal form, by which pip compares it."""
  return re.sub(r'[-_.]+', '-', name).lower()
