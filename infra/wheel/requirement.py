"""Judges requirements, PEP 508: pip refuses a whole wheel that has a wrong one.
"""

from __future__ import annotations

import re

from packaging import markers
from packaging.requirements import InvalidRequirement, Requirement

_TEXT = r"""(?:'[^']*'|"[^"]*")"""


def requirement_of(text: str) -> Requirement | None:
  """The need in a text; None if pip would refuse it."""
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
