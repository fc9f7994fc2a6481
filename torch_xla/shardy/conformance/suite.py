"""All cases, and those of them that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import fnmatch
import functools

from . import capabilities
from .case import Case
from .cases import (ahead, caching, collectives, donation, endurance, errors,
                    layouts, operations, priorities, queries, readback,
                    shardings, start, threads, training, transfers)
from .errors import ConformanceError
from .result import AT_EXIT, full_name

_MODULES = (start, transfers, readback, queries, donation, errors, threads,
            endurance, caching, operations, collectives, shardings, layouts,
            priorities, training, ahead)

Chosen = tuple[Case, tuple[str, ...]]


@functools.lru_cache(maxsize=None)
def cases() -> tuple[Case, ...]:
  """Every case, in the order in which they are run."""
  return tuple(case for module in _MODULES for case in module.cases())


def named(name: str) -> Case:
  """The case of a name, that of the capabilities among them."""
  return {case.name: case for case in (capabilities.CASE, *cases())}[name]


def choose(only: Sequence[str], skip: Sequence[str]) -> list[Chosen]:
  """The cases and parts that match `only`, or all, without those of `skip`.

  Args:
    only: patterns with * and ?, of a case, 'donation.*', or of one with its
      part, 'transfers.types/BF16'.
    skip: likewise.

  Raises:
    ConformanceError: a pattern matches nothing.
  """
  for pattern in (*only, *skip):
    check_pattern(pattern, cases())
  chosen = []
  for case in cases():
    parts = tuple(
        part for part in case.parts
        if (not only or any(_matches(case, part, p) for p in only)) and not any(
            _matches(case, part, p) for p in skip))
    if parts:
      chosen.append((case, parts))
  if not chosen:
    raise ConformanceError('--only and --skip leave nothing')
  return chosen


def check_pattern(pattern: str, known: Iterable[Case]) -> None:
  """Raises:

    ConformanceError: it names nothing of what is known.
  """
  if not any(
      _matches(case, part, pattern) for case in known for part in case.parts):
    raise ConformanceError(
        f'{pattern!r} matches no case; --list shows their names')


def check_expected(pattern: str) -> None:
  """Checks a pattern of what may fail, which a process's end may too.

  Raises:
    ConformanceError: it names nothing that there is.
  """
  every = (capabilities.CASE, *cases())
  check_pattern(
      pattern,
      [dataclasses.replace(c, parts=(*c.parts, AT_EXIT)) for c in every])


def names(pattern: str) -> set[str]:
  """The full names of the parts that a pattern matches.

  Of one that names the end of a case's process, all parts of the case.
  """
  return {
      full_name(case.name, part)
      for case in (capabilities.CASE, *cases())
      for part in case.parts
      if _matches(case, part, pattern) or _matches(case, AT_EXIT, pattern)
  }


def _matches(case: Case, part: str, pattern: str) -> bool:
  return (fnmatch.fnmatchcase(case.name, pattern) or
          fnmatch.fnmatchcase(full_name(case.name, part), pattern))
