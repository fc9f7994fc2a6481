"""Which programs of several runs are the same one, compiled otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import itertools
import re
from typing import Optional

from ..report import Program, AotReport

_LINE = re.compile(r':\d+(?= in |$)')

# The program of each report; None where it has none.
Match = tuple[Optional[Program], ...]
# A program and its number in its report.
_Numbered = tuple[int, Program]
_Row = tuple[Optional[_Numbered], ...]


def match(reports: Sequence[AotReport]) -> tuple[Match, ...]:
  """The programs of several reports of one script, side by side.

  Names tell nothing: torch_xla numbers them by what it traced before. What
  does is where in the user's code a program was asked for. Those of one
  function are matched in their order if each report has as many of them, so
  that a script whose lines have moved is matched too; else those of one line
  are, in their order, and what is left stands alone.

  Returns:
    In the order in which they were compiled; each program once.
  """
  rows: list[_Row] = []
  for group in _grouped(function,
                        [list(enumerate(r.programs)) for r in reports]):
    if len(set(map(len, group))) == 1:
      rows += zip(*group)
    else:
      for same_line in _grouped(_place, group):
        rows += itertools.zip_longest(*same_line)
  rows.sort(key=_first)
  return tuple(tuple(None if p is None else p[1] for p in row) for row in rows)


def _first(row: _Row) -> tuple[int, int]:
  """The earliest number of its programs, and of which report it is."""
  return min((p[0], report) for report, p in enumerate(row) if p is not None)


def _grouped(
    key: Callable[[Program], str],
    reports: Sequence[Sequence[_Numbered]]) -> list[list[list[_Numbered]]]:
  """For each key, the programs of each report that have it."""
  keys = dict.fromkeys(key(p) for programs in reports for _, p in programs)
  return [[[(i, p)
            for i, p in programs
            if key(p) == one]
           for programs in reports]
          for one in keys]


def _place(program: Program) -> str:
  return '\n'.join(program.called_from)


def function(program: Program) -> str:
  """Its place without numbers of lines."""
  return '\n'.join(_LINE.sub('', place) for place in program.called_from)
