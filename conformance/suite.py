"""All cases, and those of them that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import difflib
import functools
from typing import Any

from . import capabilities, lines
from .case import Case, ConformanceError, Needs, Tier
from .cases import (ahead, caching, collectives, donation, errors, groups,
                    layouts, leaks, priorities, queries, readiness, rounding,
                    shardings, sizes, start, threads, training, transfers)
from .result import AT_EXIT, full_name, matches
from .torch_modules import missing

# Those before the operations, and those behind.
_FIRST = (start, transfers, sizes, queries, donation, errors, threads,
          readiness, leaks, caching)
_LAST = (rounding, collectives, groups, shardings, layouts, priorities,
         training, ahead)
_OPERATIONS = 'operations.'
# Operations are torch's functions: without torch this case stands for all.
_UNKNOWN = Case(
    f'{_OPERATIONS}all',
    'models compute something else than on a CPU',
    lambda context, part: '',
    needs=Needs.TORCH_XLA)

Chosen = tuple[Case, tuple[str, ...]]


@functools.lru_cache(maxsize=None)
def cases() -> tuple[Case, ...]:
  """Every case, in the order in which they are run."""
  return (*_cases_of(_FIRST), *_operations(), *_cases_of(_LAST))


def _cases_of(modules: Iterable[Any]) -> tuple[Case, ...]:
  return tuple(case for module in modules for case in module.CASES)


def _operations() -> tuple[Case, ...]:
  if missing(Needs.TORCH_XLA):
    return (_UNKNOWN,)
  from .cases import operations
  return operations.CASES


def with_capabilities() -> tuple[Case, ...]:
  """Adds the case that measures, which is always run, in front."""
  return (capabilities.CASE, *cases())


def named(name: str) -> Case:
  """The case of that name; torch is not imported for one that needs none."""
  candidates = _operations() if name.startswith(_OPERATIONS) else (
      capabilities.CASE, *_cases_of(_FIRST), *_cases_of(_LAST))
  return {case.name: case for case in candidates}[name]


def _matches(pattern: str, case: Case, part: str) -> bool:
  """Tests whether a pattern matches a part, or may match an unknown one."""
  return matches(pattern, case.name, part) or (case.name == _UNKNOWN.name and
                                               pattern.startswith(_OPERATIONS))


def choose(
    only: Sequence[str],
    skip: Sequence[str],
    tier: Tier = Tier.WHOLE,
    shard: tuple[int, int] = (1, 1)) -> list[Chosen]:
  """The cases and parts that match `only`, or all, without those of `skip`.

  Args:
    only: patterns with * and ?, of a case, 'donation.*', or of one with its
      part, 'transfers.types/BF16'.
    skip: likewise.
    tier: the last of which parts are run; names in `only` without * and ? are of
      any.
    shard: of N parts of these the I-th; a name alone decides in which it is.

  Raises:
    ConformanceError: a pattern matches nothing.
  """
  for pattern in (*only, *skip):
    _check(
        any(
            _matches(pattern, case, part)
            for case in cases()
            for part in case.parts), pattern)

  def is_chosen(case: Case, part: str) -> bool:
    named = [p for p in only if _matches(p, case, part)]
    return ((bool(named) if only else True) and
            (case.tier_of(part) <= tier or
             any(not set('*?').intersection(p) for p in named)) and
            not any(_matches(p, case, part) for p in skip) and
            lines.is_in_shard(full_name(case.name, part), shard))

  chosen = []
  for case in cases():
    parts = tuple(part for part in case.parts if is_chosen(case, part))
    if parts:
      chosen.append((case, parts))
  if not chosen:
    raise ConformanceError('--only and --skip leave nothing of what is run, '
                           'which --all and --shard change')
  return chosen


def nightly() -> frozenset[str]:
  """The cases of which nothing is run but every night."""
  return frozenset(case.name for case in cases() if all(
      case.tier_of(part) is Tier.NIGHTLY for part in case.parts))


def _check(matches_some: bool, pattern: str) -> None:
  if not matches_some:
    near = difflib.get_close_matches(pattern, [c.name for c in cases()], 1)
    raise ConformanceError(
        f'{pattern!r} matches no case; --list shows their names' +
        ''.join(f', such as {name}' for name in near))


def names(pattern: str) -> set[str]:
  """The full names of the parts that a pattern of what may fail matches.

  Of one that names the end of a case's process, all parts of the case.

  Raises:
    ConformanceError: it names nothing that there is.
  """
  matching = {
      full_name(case.name, part)
      for case in with_capabilities()
      for part in case.parts
      if _matches(pattern, case, part) or _matches(pattern, case, AT_EXIT)
  }
  _check(bool(matching), pattern)
  return matching
