"""Events are ready when their work is done, and whoever asks is told, once."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
import concurrent.futures
import contextlib
import ctypes
import functools
import threading
import time

import numpy as np

from ..case import Case, expect, Failure, NotApplicable, Tier
from ..context import Context
from ..pjrt.buffer import Buffer, destroy
from ..pjrt.client import Client, pending_buffer, WORDS
from ..pjrt.event import Callbacks, Event, Told, WAYS
from ..pjrt.graph import elementwise
from ..pjrt.host_array import floats, HostArray
from ..pjrt.promises import LongWork, Promise
from ..pjrt.table import MissingError, PjrtError
from .checks import skipped_if

# Of each way of waiting. That none of 300 is early where one in fifty is has a
# probability of 0.98 ** 300, 0.2 %; of callbacks, of each of four.
_ONE_IN = 50
_ROUNDS = 300
_COUNT = 8
# That a plugin may hold the caller, and that an early event is waited for.
_HELD, _MOMENT = 5., 1e-3
# In which what was early has come.
_LATER = .1

_PROMISES = ('executed', 'result', 'read', 'sent', 'arrived', 'copied')
_PENDING = ('result', 'read', 'executed', 'output')
# Those that the host can judge only if it can look into a device's memory.
_ON_DEVICE = ('executed', 'result', 'arrived', 'copied')


@contextlib.contextmanager
def _long_work(context: Context) -> Iterator[LongWork]:
  with context.client() as client:
    work = LongWork(client)
    try:
      yield work
    except BaseException:
      work.keep_rooms()
      raise


def _promises(context: Context, part: str) -> Callable[[LongWork], Promise]:
  """Factories of promises of a kind."""
  if part == 'copied':
    context.needs('Buffer_CopyToDevice')
    if len(context.capabilities.get('devices', ())) < 2:
      raise NotApplicable('there is one device')
  return getattr(LongWork, part)


def _data(context: Context, part: str) -> str:
  """Looks at what is promised at once when it is said to be there."""
  make = _promises(context, part)
  callbacks = Callbacks(context.table)
  waiting = 0
  with _long_work(context) as work:
    if part in _ON_DEVICE and not work.host_sees:
      raise NotApplicable('the host cannot look into the memory of a device')
    for number in range(_ROUNDS):
      for name, wait in WAYS.items():
        work.stir()
        promise = make(work)
        waiting += not promise.event.is_ready
        wait(promise.event, callbacks)
        wrong = promise.wrong()
        if wrong:
          time.sleep(_LATER)
          then = promise.wrong()
          raise Failure(
              f'round {number}: the event is ready, by {name}, and {wrong}; ' +
              (f'{_LATER:g} s later {then}, too: it is wrong, and not early'
               if then else f'{_LATER:g} s later all is there: it is early'))
        promise.event.destroy()
        promise.end()
  return (f'{len(WAYS)} x {_ROUNDS} events, {waiting} waited for: that one in '
          f'{_ONE_IN} is early is missed with {(1 - 1 / _ONE_IN)**waiting:.0e}')


@contextlib.contextmanager
def pending(client: Client) -> Iterator[tuple[Buffer, Callable[[], None]]]:
  """A buffer that has not come, and what lets it fail.

  Raises:
    NotApplicable: the plugin has no transfers of that kind.
  """
  with contextlib.ExitStack() as stack:
    with skipped_if('UNIMPLEMENTED', 'the plugin has no such transfers: '):
      try:
        buffer, fail = stack.enter_context(pending_buffer(client, _COUNT))
      except MissingError as e:
        raise NotApplicable(str(e)) from e
    yield buffer, fail


def _pending_events(context: Context,
                    part: str) -> Iterator[tuple[Event, Callable[[], None]]]:
  """Events of what waits for a buffer that has not come, in each round another.

  With each comes what lets the buffer fail.

  Where the plugin waits in its call, a timer lets it go.

  Args:
    part: one of _PENDING.
  """
  memory = (ctypes.c_float * _COUNT)()
  with context.client() as client:
    loaded = client.compile(elementwise((_COUNT,)))
    other = client.put_floats(range(_COUNT))
    for _ in range(_ROUNDS):
      with pending(client) as (buffer, fail):
        timer = threading.Timer(_HELD, fail)
        timer.start()
        results = []
        if part == 'result':
          event = buffer.ready_event()
        elif part == 'read':
          event = buffer.copy_into(memory)
        else:
          execution = loaded.start([[buffer, other]])
          results = execution.outputs[0]
          event = Event(client.table, execution.events[0])
          if part == 'output':
            event.destroy()
            event = results[0].ready_event()
        held = not timer.is_alive()
        timer.cancel()
        if held:
          raise NotApplicable('the plugin waits for the transfer in its call')
        yield event, fail
        event.destroy()
        destroy(results)


def _waits(context: Context, part: str) -> str:
  """Checks that nothing is ready that rests on what has not come."""
  callbacks = Callbacks(context.table)
  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    for number, (event, fail) in enumerate(_pending_events(context, part)):
      way = _way(event, callbacks, pool, fail)
      expect(
          not way, f'round {number}: an input has not come, and what waits for '
          f'it is ready, by {way}')
  return f'{_ROUNDS} events'


def _way(event: Event, callbacks: Callbacks, pool: concurrent.futures.Executor,
         fail: Callable[[], None]) -> str:
  """By which way an event says that it is ready before `fail` ends the wait."""
  callbacks.add(event, 0)
  waiter = pool.submit(event.wait)
  time.sleep(_MOMENT)
  ready = {
      'await': waiter.done(),
      'polling': event.is_ready,
      'callback': not callbacks.missing((0,), 0),
  }
  fail()
  with contextlib.suppress(PjrtError):
    waiter.result()
  if not any(ready.values()):
    expect(
        not callbacks.missing((0,), _HELD),
        'the callback of an event was not called '
        f'{_HELD:g} s after its transfer had failed')
  callbacks.take_calls()
  return ' and '.join(way for way, early in ready.items() if early)


_SECONDS = 5.
# Buffers that callbacks destroy, and elements of each.
_DESTROYED, _LARGE = 50, 1 << 18
# In which a call too many comes.
_SPARE = .05
# Two that are there before the event is ready, one that comes behind, and one
# that destroys its event.
_NAMES = ('the first', 'the second', 'one added when it was ready',
          'one that destroys it')


def _called(context: Context, part: str) -> str:
  """Events that become ready."""
  make = _promises(context, part)
  callbacks = Callbacks(context.table)
  calls: list[Told] = []
  waiting = 0
  with _long_work(context) as work:
    for number in range(0, 4 * _ROUNDS, 4):
      work.stir()
      promise = make(work)
      for position in range(2):
        callbacks.add(promise.event, number + position)
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
    time.sleep(_SPARE)
  calls += callbacks.take_calls()
  _check_once(calls)
  for _, error in calls:
    expect(error is None, f'a callback of what went well got an error: {error}')
  return f'{len(calls)} callbacks; {waiting} of {_ROUNDS} events were not ready'


def _destroys(context: Context, part: str) -> str:
  """Callbacks that let go of a buffer: of what has come, or of an argument.

  Or that start an upload and a program of it, and wait for neither.
  """
  client = context.kept_client()
  callbacks = Callbacks(context.table)
  loaded = client.compile(elementwise((_LARGE,)))
  small, array = client.compile(elementwise((_COUNT,))), floats(range(_COUNT))
  begun = []

  def begin() -> None:
    call = client.upload(array.data, array.type_number, array.dims)
    client.table.call_with('Client_BufferFromHostBuffer', call)
    buffer = Buffer(client, call.buffer)
    begun.append((call, small.start([[buffer, buffer]])))

  for number in range(_DESTROYED):
    given = client.put(HostArray.from_numbers('F32', np.full(_LARGE, number)))
    execution = loaded.start([[given, given]])
    (result,), = execution.outputs
    event = result.ready_event()
    end = {'result': result.destroy, 'argument': given.destroy, 'begins': begin}
    callbacks.add(event, number, end[part])
    expect(
        not callbacks.missing((number,), _SECONDS),
        f'round {number}: a callback that destroys a buffer or begins a call '
        f'({part}) has not ended in {_SECONDS:g} s: a lock is held while it is '
        'called')
    event.destroy()
    execution.wait()
    destroy(b for b in (given, result) if id(b) in client.owned)
  for call, execution in begun:
    client.table.await_event(call.done_with_host_buffer)
    execution.wait()
  return f'{_DESTROYED} callbacks'


def _failed_transfer(context: Context, part: str) -> str:
  """Events of a transfer that fails, and of what waits for it."""
  callbacks = Callbacks(context.table)
  calls: list[Told] = []
  for each, (event, fail) in enumerate(_pending_events(context, part)):
    number = 4 * each
    callbacks.add(event, number)
    callbacks.add(event, number + 1)
    fail()
    calls += _await(callbacks, number, 2)
    callbacks.add(event, number + 2)
    calls += _await(callbacks, number + 2, 1)
  time.sleep(_SPARE)
  calls += callbacks.take_calls()
  _check_once(calls)
  for number, error in calls:
    expect(
        error is not None and WORDS in error.message,
        f'a callback ({_NAMES[number % 4]}) got {error or "no error"} of an '
        f'event that failed with {WORDS!r}')
  return f'{len(calls)} callbacks'


def _await(callbacks: Callbacks, first: int, count: int) -> list[Told]:
  """The calls till all of some numbers have come."""
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


_promised = functools.partial(
    Case, parts=_PROMISES, seconds=180, tier=Tier.WHOLE)
CASES: tuple[Case, ...] = (
    _promised('readiness.data', 'a number is read before it is there', _data),
    Case('readiness.waits', 'a result is taken before its inputs have come',
         _waits, _PENDING),
    _promised('callbacks.called', 'a program waits for what has come long ago',
              _called),
    Case('callbacks.destroys', 'a program never ends', _destroys,
         ('result', 'argument', 'begins')),
    Case('callbacks.failed', 'what has failed is taken for a result, or waited '
         'for without end', _failed_transfer, _PENDING),
)
