"""All cases, and those of them that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import functools

from . import capabilities
from .case import Case
from .cases import (ahead, caching, callbacks, collectives, donation, endurance,
                    errors, layouts, leaks, operations, priorities, queries,
                    races, readback, readiness, shardings, start, threads,
                    training, transfers)
from .errors import ConformanceError
from .result import AT_EXIT, full_name, matches

_MODULES = (start, transfers, readback, queries, donation, errors, threads,
            races, readiness, callbacks, endurance, leaks, caching, operations,
            collectives, shardings, layouts, priorities, training, ahead)

Chosen = tuple[Case, tuple[str, ...]]


@functools.lru_cache(maxsize=None)
def cases() -> tuple[Case, ...]:
  """Every case, in the order in which they are run."""
  return tuple(case for module in _MODULES for case in module.CASES)


def with_capabilities() -> tuple[Case, ...]:
  """The same behind the case that measures, which is always run."""
  return (capabilities.CASE, *cases())


def named(name: str) -> Case:
  return {case.name: case for case in with_capabilities()}[name]


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
        if (not only or any(matches(p, case.name, part) for p in only)) and
        not any(matches(p, case.name, part) for p in skip))
    if parts:
      chosen.append((case, parts))
  if not chosen:
    raise ConformanceError('--only and --skip leave nothing')
  return chosen


def check_pattern(pattern: str, candidates: Iterable[Case]) -> None:
  """Checks that a pattern names a case.

  Raises:
    ConformanceError: it names nothing of what is known.
  """
  if not any(
      matches(pattern, case.name, part)
      for case in candidates
      for part in case.parts):
    raise ConformanceError(
        f'{pattern!r} matches no case; --list shows their names')


def check_expected(pattern: str) -> None:
  """Checks a pattern of what may fail, which a process's end may too.

  Raises:
    ConformanceError: it names nothing that there is.
  """
  check_pattern(pattern, [
      dataclasses.replace(case, parts=(*case.parts, AT_EXIT))
      for case in with_capabilities()
  ])


def names(pattern: str) -> set[str]:
  """The full names of the parts that a pattern matches.

  Of one that names the end of a case's process, all parts of the case.
  """
  return {
      full_name(case.name, part)
      for case in with_capabilities()
      for part in case.parts
      if matches(pattern, case.name, part) or
      matches(pattern, case.name, AT_EXIT)
  }
