"""The step that a script repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

# The programs of a step, in order, and how many steps were like that.
StepKind = tuple[tuple[int, ...], int]


def kinds_of_steps(executions: Iterable[tuple[int, int]], ended: int,
                   warm_up: int, flops: Sequence[float]) -> list[StepKind]:
  """The steps after warm-up by what they executed, those of most work first.

  The work of a kind is the flops of all its steps: an evaluation may take as
  many steps as the training, and is still less of what the script does.

  Args:
    executions: in order: the program, and how many steps had ended.
    ended: how many steps have; what was executed after the last is none.
    warm_up: how many steps it took until nothing was compiled in one.
    flops: of each program.
  """
  steps: dict[int, list[int]] = {}
  for program, step in executions:
    if warm_up <= step < ended:
      steps.setdefault(step, []).append(program)
  counts = Counter(tuple(programs) for programs in steps.values())

  def work(kind: StepKind) -> tuple[float, int, int]:
    programs, count = kind
    return sum(flops[p] for p in programs) * count, count, len(programs)

  # Of equal ones, that which came first: the order of a Counter.
  return sorted(counts.items(), key=work, reverse=True)
