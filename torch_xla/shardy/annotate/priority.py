"""Priorities of dimensions, as users give them, and what is wrong with them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

# Shardy holds 64 bits; nobody needs as many, and one more must always fit.
_HIGHEST = 2**31 - 1

Priority = tuple[Optional[int], ...]


class PriorityError(ValueError):
  """Priorities that do not fit the tensor, or no priorities at all."""


class PriorityLengthError(PriorityError):
  """Raised where there is not one priority per dimension."""


class PriorityValueError(PriorityError):
  """A priority that is negative, or beyond all need."""


class PriorityTypeError(PriorityError, TypeError):
  """A priority that is neither an integer nor None."""


def check_priority(priority: Any, rank: int) -> Optional[Priority]:
  """The priority as a tuple of an int or None for each of `rank` dimensions.

  Raises:
    PriorityLengthError: not one entry per dimension.
    PriorityTypeError: not a tuple or list, or an entry that is a bool, a float,
      a string, ...: anything but an integer and None.
    PriorityValueError: a negative entry.
  """
  if priority is None:
    return None
  hint = 'give a tuple with one non-negative int or None per dimension'
  if not isinstance(priority, (tuple, list)):
    raise PriorityTypeError(f'priority={priority!r} is a '
                            f'{type(priority).__name__}; {hint}')
  if len(priority) != rank:
    raise PriorityLengthError(
        f'priority={tuple(priority)!r} has {len(priority)} entries for a '
        f'tensor of rank {rank}; {hint}')
  for dim, entry in enumerate(priority):
    if entry is None:
      continue
    if isinstance(entry, bool) or not isinstance(entry, (int, np.integer)):
      raise PriorityTypeError(
          f'priority={tuple(priority)!r}: {entry!r} of dimension {dim} is a '
          f'{type(entry).__name__}; {hint}')
    if entry < 0:
      raise PriorityValueError(
          f'priority={tuple(priority)!r}: {entry} of dimension {dim} is '
          'negative; 0 is the highest priority, higher numbers come later')
    if entry > _HIGHEST:
      raise PriorityValueError(
          f'priority={tuple(priority)!r}: {entry} of dimension {dim} is above '
          f'{_HIGHEST}')
  return tuple(None if entry is None else int(entry) for entry in priority)
