"""What a script does over and over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def usual_step(executions: Iterable[tuple[int, int]], ended: int,
               warm_up: int) -> tuple[tuple[int, ...], int]:
  """The programs of the most frequent step, and how often it was taken.

  Of two that are as frequent, the one with more programs, then the later.

  Args:
    executions: in order: the program, and how many steps had ended.
    ended: how many steps have; what was executed after the last is none.
    warm_up: how many steps it took until nothing was compiled in one.
  """
  steps: dict[int, list[int]] = {}
  for program, step in executions:
    if warm_up <= step < ended:
      steps.setdefault(step, []).append(program)
  if not steps:
    return (), 0
  counts = Counter(map(tuple, steps.values()))
  last = {tuple(programs): step for step, programs in steps.items()}
  best = max(counts, key=lambda s: (counts[s], len(s), last[s]))
  return best, counts[best]
