"""Whoever asks to be told of an event is told, once."""

from __future__ import annotations

import collections
from collections.abc import Sequence
import time

from ..case import Case, expect, Tier
from ..context import Context
from ..pjrt.event import Callbacks, Told
from ..pjrt.failed_buffer import WORDS
from ..pjrt.graph import elementwise
from ..pjrt.numbers import floats
from .readiness import (COUNT, long_work, on_pending, PENDING, pending,
                        promises, PROMISES)

# Of four callbacks each: that none is lost where one in fifty is has a
# probability of 0.98 ** 300, 0.2 %, even if it is of one of the four.
_ROUNDS = 300
_SECONDS = 5.
# Buffers that callbacks destroy, and elements of each.
_DESTROYED, _LARGE = 50, 1 << 16
# In which a call too many comes.
_MOMENT = .05
# Two that are there before the event is ready, one that comes behind, and one
# that destroys its event.
_NAMES = ('the first', 'the second', 'one added when it was ready',
          'one that destroys it')


def _called(context: Context, part: str) -> str:
  """Events that become ready."""
  make = promises(context, part)
  callbacks = Callbacks(context.table)
  calls: list[Told] = []
  waiting = 0
  with long_work(context) as work:
    for number in range(0, 4 * _ROUNDS, 4):
      work.stir()
      promise = make(work)
      callbacks.add(promise.event, number)
      callbacks.add(promise.event, number + 1)
      waiting += not promise.event.is_ready
      promise.event.wait()
      callbacks.add(promise.event, number + 2)
      calls += _await(callbacks, number, 3)
      promise.event.destroy()
      promise.end()
      promise = make(work)
      callbacks.add(promise.event, number + 3, promise.event.destroy)
      calls += _await(callbacks, number + 3, 1)
      promise.end()
    time.sleep(_MOMENT)
  calls += callbacks.take_calls()
  _check_once(calls)
  for _, error in calls:
    expect(error is None, f'a callback of what went well got an error: {error}')
  return f'{len(calls)} callbacks; {waiting} of {_ROUNDS} events were not ready'


def _destroys(context: Context, part: str) -> str:
  """Callbacks that let go of a buffer: of what has come, or of an argument."""
  client = context.kept_client()
  callbacks = Callbacks(context.table)
  loaded = client.compile(context.program(elementwise((_LARGE,)), client))
  for number in range(_DESTROYED):
    given = client.put(floats([float(number)] * _LARGE))
    execution = loaded.start([[given, given]])
    (result,), = execution.outputs
    event = result.ready_event()
    first, last = (result, given) if part == 'result' else (given, result)
    callbacks.add(event, number, first.destroy)
    expect(
        not callbacks.missing((number,), _SECONDS),
        f'round {number}: a callback that destroys a buffer ({part}) has not '
        f'come to its end in {_SECONDS:g} s: a lock is held while it is called')
    event.destroy()
    execution.wait()
    last.destroy()
  loaded.destroy()
  return f'{_DESTROYED} callbacks'


def _failed_transfer(context: Context, part: str) -> str:
  """Events of a transfer that fails, and of what waits for it."""
  callbacks = Callbacks(context.table)
  calls: list[Told] = []
  with context.client() as client:
    loaded = client.compile(context.program(elementwise((COUNT,)), client))
    other = client.put(floats(range(COUNT)))
    for number in range(0, 4 * _ROUNDS, 4):
      with pending(client) as (buffer, fail):
        with on_pending(client, loaded, part, buffer, other, fail) as event:
          callbacks.add(event, number)
          callbacks.add(event, number + 1)
          fail()
          calls += _await(callbacks, number, 2)
          callbacks.add(event, number + 2)
          calls += _await(callbacks, number + 2, 1)
    other.destroy()
    loaded.destroy()
    time.sleep(_MOMENT)
  calls += callbacks.take_calls()
  _check_once(calls)
  for number, error in calls:
    expect(
        error is not None and WORDS in error.message,
        f'a callback ({_NAMES[number % 4]}) got {error or "no error"} of an '
        f'event that failed with {WORDS!r}')
  return f'{len(calls)} callbacks'


def _await(callbacks: Callbacks, first: int, count: int) -> list[Told]:
  """The calls till all of some numbers have come.

  Raises:
    Failure: one does not come.
  """
  missing = callbacks.missing(range(first, first + count), _SECONDS)
  words = ' and '.join(_NAMES[number % 4] for number in sorted(missing))
  expect(
      not missing, f'round {first // 4}: a callback of an event ({words}) was '
      f'not called in {_SECONDS:g} s')
  return callbacks.take_calls()


def _check_once(outcomes: Sequence[Told]) -> None:
  for number, calls in collections.Counter(n for n, _ in outcomes).items():
    expect(
        calls == 1, f'round {number // 4}: a callback of an event '
        f'({_NAMES[number % 4]}) was called {calls} times')


CASES: tuple[Case, ...] = (
    Case(
        'callbacks.called',
        'a program waits for what has come long ago',
        _called,
        PROMISES,
        seconds=180,
        tier=Tier.WHOLE),
    Case('callbacks.destroys', 'a program never ends', _destroys,
         ('result', 'argument')),
    Case('callbacks.failed', 'what has failed is taken for a result, or waited '
         'for without end', _failed_transfer, PENDING),
)
