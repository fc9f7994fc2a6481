"""Events are ready when their work is done, and whoever asks is told, once."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
import concurrent.futures
import contextlib
import ctypes
import threading
import time

from ..case import Case, expect, Failure, NotApplicable, Tier
from ..context import Context
from ..pjrt.buffer import Buffer, destroy, floats
from ..pjrt.client import Client, pending_buffer, WORDS
from ..pjrt.event import Callbacks, Event, Told, WAYS
from ..pjrt.executable import Loaded
from ..pjrt.graph import elementwise
from ..pjrt.promises import LongWork, Promise
from ..pjrt.table import MissingError, PjrtError

# Of each way of waiting. That none of 300 is early where one in fifty is has a
# probability of 0.98 ** 300, 0.2 %; of callbacks, of each of four.
_ONE_IN = 50
_ROUNDS = 300
COUNT = 8
# That a plugin may hold the caller, and that an early event is waited for.
_HELD, _MOMENT = 5., 1e-3
# In which what was early has come.
_LATER = .1

PROMISES = ('executed', 'result', 'read', 'sent', 'arrived', 'copied')
PENDING = ('result', 'read', 'executed', 'output')
# Those that the host can judge only if it can look into a device's memory.
_ON_DEVICE = ('executed', 'result', 'arrived', 'copied')


@contextlib.contextmanager
def long_work(context: Context) -> Iterator[LongWork]:
  with context.client() as client:
    with contextlib.closing(LongWork(client, context.format)) as work:
      try:
        yield work
      except BaseException:
        work.keep_rooms()
        raise


def promises(context: Context, part: str) -> Callable[[LongWork], Promise]:
  """Factories of promises of a kind.

  Raises:
    NotApplicable: the plugin cannot make any.
  """
  if part == 'copied':
    context.needs('Buffer_CopyToDevice')
    if len(context.capabilities.get('devices', ())) < 2:
      raise NotApplicable('there is one device')
  return getattr(LongWork, part)


def _data(context: Context, part: str) -> str:
  """Looks at what is promised at once when it is said to be there."""
  make = promises(context, part)
  callbacks = Callbacks(context.table)
  waiting = 0
  with long_work(context) as work:
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
    try:
      buffer, fail = stack.enter_context(pending_buffer(client, COUNT))
    except MissingError as e:
      raise NotApplicable(str(e)) from e
    except PjrtError as e:
      if e.code != 'UNIMPLEMENTED':
        raise
      raise NotApplicable(f'the plugin has no such transfers: {e}') from e
    yield buffer, fail


@contextlib.contextmanager
def on_pending(client: Client, loaded: Loaded, part: str, buffer: Buffer,
               other: Buffer, fail: Callable[[], None]) -> Iterator[Event]:
  """An event of what waits for a buffer, which is destroyed behind the block.

  Args:
    part: one of PENDING.
    buffer, fail: of `pending`.
    other: the program's second argument.

  Raises:
    NotApplicable: the plugin waits in its call; a timer lets it go.
  """
  table = client.table
  timer = threading.Timer(_HELD, fail)
  timer.start()
  results = []
  memory = (ctypes.c_float * COUNT)()
  if part == 'result':
    address = buffer.ready_event().address
  elif part == 'read':
    address = table.call(
        'Buffer_ToHostBuffer',
        src=buffer.address,
        dst=ctypes.addressof(memory),
        dst_size=ctypes.sizeof(memory)).event
  else:
    execution = loaded.start([[buffer, other]])
    results = execution.outputs[0]
    address = execution.events[0]
    if part == 'output':
      Event(table, address).destroy()
      address = results[0].ready_event().address
  held = not timer.is_alive()
  timer.cancel()
  if held:
    raise NotApplicable('the plugin waits for the transfer in its call')
  event = Event(table, address)
  yield event
  event.destroy()
  destroy(results)


def _waits(context: Context, part: str) -> str:
  """Checks that nothing is ready that rests on what has not come."""
  callbacks = Callbacks(context.table)
  with contextlib.ExitStack() as stack:
    client = stack.enter_context(context.client())
    pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1))
    loaded = client.compile(context.program(elementwise((COUNT,)), client))
    other = client.put(floats(range(COUNT)))
    for number in range(_ROUNDS):
      with pending(client) as (buffer, fail):
        with on_pending(client, loaded, part, buffer, other, fail) as event:
          way = _way(event, callbacks, pool, fail)
      expect(
          not way, f'round {number}: an input has not come, and what waits for '
          f'it is ready, by {way}')
    other.destroy()
    loaded.destroy()
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
_DESTROYED, _LARGE = 50, 1 << 16
# In which a call too many comes.
_SPARE = .05
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
    time.sleep(_SPARE)
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
        'readiness.data',
        'a number is read before it is there',
        _data,
        PROMISES,
        seconds=180,
        tier=Tier.WHOLE),
    Case('readiness.waits', 'a result is taken before its inputs have come',
         _waits, PENDING),
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
