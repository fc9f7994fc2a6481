"""Which programs of several runs are the same one, compiled otherwise."""

from __future__ import annotations

from collections.abc import Sequence
import itertools
import re
from typing import Optional

from ...layers import numbered
from ..report import Program, AotReport

_LINE = re.compile(r':\d+(?= in |$)')

# The program of each report; None where it has none.
Match = tuple[Optional[Program], ...]


def names(programs: Sequence[Program]) -> list[str]:
  """Programs by where in the user's code they were asked for, without lines.

  Their own names tell nothing: torch_xla numbers them by what it traced before.
  Those of one place are numbered in their order.
  """
  return numbered(
      ', from '.join(_LINE.sub('', place)
                     for place in p.called_from) or 'program'
      for p in programs)


def match(reports: Sequence[AotReport]) -> tuple[Match, ...]:
  """The programs of several reports of one script, side by side; each once."""
  named = [dict(zip(names(r.programs), r.programs)) for r in reports]
  return tuple(
      tuple(programs.get(name)
            for programs in named)
      for name in dict.fromkeys(itertools.chain.from_iterable(named)))
