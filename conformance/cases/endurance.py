"""Twelve thousand steps, and nothing that grows with them."""

from __future__ import annotations

import array
import os
import time

from ..case import Case, expect, Failure, Tier
from ..context import Context
from ..pjrt.footprint import growth
from ..pjrt.graph import elementwise
from ..pjrt.numbers import destroy, floats

# In each of three spans, or five.
_STEPS, _MOST_SPANS = 4_000, 5
_FILES = 4
# The quickest of the last steps over that of the first: a list that is searched
# grows it, and other work on the machine does not.
_COMPARED = 2_000
_SLOWER = 10.


def _open_files() -> int:
  return len(os.listdir('/proc/self/fd'))


def _steps(context: Context, part: str) -> str:
  with context.client() as client:
    loaded = client.compile(context.program(elementwise((1024,)), client))
    numbers = floats(range(1024))
    left = client.put(numbers)
    doubles = floats(2 * i for i in range(1024))
    files = _open_files()
    # With all its room, as what grows here would be taken for a leak.
    seconds = array.array('d', [0.]) * (_MOST_SPANS * _STEPS)

    def step(number: int) -> None:
      begun = time.perf_counter()
      right = client.put(numbers)
      (result,), = loaded.execute([[left, right]])
      seconds[number] = time.perf_counter() - begun
      difference = doubles.first_difference(result.read('F32', (1024,)))
      expect(not difference, f'step {number}: {difference}')
      destroy((right, result))

    grown = growth(client, _STEPS, step)
    opened = _open_files() - files
    left.destroy()
    loaded.destroy()
  for leak in grown.leaks():
    raise Failure(leak)
  expect(opened < _FILES,
         f'{opened} files are open that were not before {3 * _STEPS} steps')
  spent = [second for second in seconds if second]
  slower = min(spent[-_COMPARED:]) / min(spent[:_COMPARED])
  expect(slower < _SLOWER, f'the last steps took {slower:.1f} times as long as '
         'the first')
  return (f'{3 * _STEPS} steps, the last {slower:.2f} times as long as the '
          f'first, bytes a step: {grown}')


CASES: tuple[Case, ...] = (Case(
    'endurance.steps',
    'a long training runs out of memory or becomes slower',
    _steps,
    seconds=300,
    tier=Tier.WHOLE),)
