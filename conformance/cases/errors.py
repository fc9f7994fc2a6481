"""Errors come as a status with a message, and end nothing."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import dataclasses
from typing import Any

from ..case import Case, expect, Failure
from ..context import Context
from ..pjrt.buffer import Buffer
from ..pjrt.client import Client, WORDS
from ..pjrt.executable import Loaded
from ..pjrt.graph import elementwise, spread
from ..pjrt.programs import HLO, Program
from ..pjrt.table import PjrtError
from .checks import check_floats, check_run
from .readiness import pending

_COUNT = 8
_VALUES = tuple(float(i) for i in range(_COUNT))
# More than any device has.
_TOO_LARGE = 1 << 50
# It may be more than a dimension can have, too.
_NO_MEMORY = ('RESOURCE_EXHAUSTED', 'INVALID_ARGUMENT', 'OUT_OF_RANGE')


def _status(
    call: Callable[[], object],
    label: str,
    meaningless: tuple[str, ...] = ('OK', 'UNKNOWN')) -> PjrtError:
  """The error that `call` ends with.

  Args:
    meaningless: codes that it must not have.

  Raises:
    Failure: there is none, or it says nothing.
  """
  try:
    call()
  except PjrtError as e:
    expect(e.code not in meaningless,
           f'{label}: an error whose code is {e.code}: {e.message}')
    expect(bool(e.message.strip()), f'{label}: {e.code}, and no words with it')
    return e
  raise Failure(f'{label}: no error')


def _still_works(client: Client) -> None:
  """Checks that the client still computes after an error."""
  check_run(client, client.compile(elementwise((_COUNT,))), (_VALUES, _VALUES),
            [2 * v for v in _VALUES], 'after the error a sum')


def _damaged(context: Context, part: str) -> str:
  """Programs that are none."""
  with context.client() as client:
    good = client.program(elementwise((_COUNT,)))
    changes: dict[str, dict[str, Any]] = {
        'truncated': dict(code=good.code[:len(good.code) // 2]),
        'random': dict(code=bytes(range(1, 255)) * 4),
        'empty': dict(code=b''),
        'format': dict(format='a format of nobody'),
        'options': dict(options=b'\xff' * 16),
        'operation': dict(code=_with_unknown_operation(good)),
    }
    damaged = dataclasses.replace(good, **changes[part])
    error = _status(lambda: client.compile(damaged),
                    f'a damaged program ({part})',
                    ('OK',))  # MLIR's own are UNKNOWN.
    _still_works(client)
  return error.code


def _with_unknown_operation(good: Program) -> bytes:
  if good.format == HLO:  # In a proto, behind its length.
    return good.code.replace(b'\x03add', b'\x03odd')
  return good.code.replace(b'stablehlo.add', b'stablehlo.odd')


def _arguments(context: Context, part: str) -> str:
  """Executes programs with other arguments than they take."""
  with context.client() as client:
    loaded = client.compile(elementwise((_COUNT,)))
    right, gone = client.put_floats(_VALUES), client.put_floats(_VALUES)
    small = client.put_floats(_VALUES[:2])
    gone.delete()
    lists = {
        'few': [right],
        'many': [right] * 3,
        'none': [],
        'size': [right, small],
        'deleted': [right, gone],
    }
    error = _status(lambda: loaded.execute([lists[part]]),
                    f'wrong arguments ({part})')
    check_floats(right, _VALUES,
                 'an argument has changed in an execution that failed:')
    _still_works(client)
  return error.code


def _memory(context: Context, part: str) -> str:
  """Asks for more memory than there is, for a buffer or for a result."""
  with context.client() as client:
    if part == 'buffer':
      context.needs('Client_CreateUninitializedBuffer')

      def too_much() -> None:
        creation = context.table.call(
            'Client_CreateUninitializedBuffer',
            client=client.address,
            shape_dims=[_TOO_LARGE // 4],
            shape_num_dims=1,
            shape_element_type=11,
            device=client.devices[0])
        ready = context.table.call('Buffer_ReadyEvent', buffer=creation.buffer)
        context.table.await_event(ready.event)
    else:

      def too_much() -> None:
        # Its result alone is too large; compiling it may say so already.
        loaded = client.compile(spread(_TOO_LARGE // 4))
        loaded.execute([[client.put_floats([1.])]])

    error = _status(too_much, f'{_TOO_LARGE >> 40} TiB ({part})')
    expect(
        error.code in _NO_MEMORY, 'a framework knows that memory is out by '
        f'RESOURCE_EXHAUSTED, and this is {error}')
    _still_works(client)
  return error.code


def _readback(context: Context, part: str) -> str:
  """Reads what is not there, or into too little space."""
  with context.client() as client:
    buffer = client.put_floats(_VALUES)
    if part == 'deleted':
      buffer.delete()
    count, label = {
        'deleted': (_COUNT, 'a deleted buffer was read'),
        'small': (_COUNT // 2, 'a buffer was read into half of its size'),
    }[part]
    error = _status(lambda: buffer.floats(count), label)
    _still_works(client)
  return error.code


def _asynchronous(context: Context, part: str) -> str:
  """An input that never comes: its error reaches all that wait for it."""
  with context.client() as client:
    loaded = client.compile(elementwise((_COUNT,)))
    right = client.put_floats(_VALUES)
    with pending(client) as (bad, fail):
      fail()
      _await_twice(right)
      call, label = {
          'read': (lambda: bad.floats(_COUNT), 'an input that failed was read'),
          'executed': (lambda: _run(loaded, bad, right),
                       'a program has run with an input that failed'),
          'second': (lambda: _run(loaded, right, bad), 'a program has run with '
                     'a second argument that failed'),
          'awaited_twice': (lambda: _await_twice(bad), 'an event that failed '
                            'was awaited a second time'),
          'asked': (lambda: _await_twice(bad, 'Error'), 'an event that failed '
                    'was asked for its error'),
          'next': (lambda: _run(loaded, right,
                                loaded.start([[bad, right]]).outputs[0][0]),
                   'a program has run with a '
                   'result of an input that failed'),
      }[part]
      error = _status(call, label)
    expect(
        WORDS in error.message, f'the error is {error}, and nobody can tell '
        f'from it that {WORDS!r}')
    _still_works(client)
  return error.code


def _run(loaded: Loaded, left: Buffer, right: Buffer) -> None:
  (result,), = loaded.execute([[left, right]])
  result.floats(_COUNT)


def _await_twice(buffer: Buffer, function: str = 'Await') -> None:
  event = buffer.ready_event()
  try:
    with contextlib.suppress(PjrtError):
      event.wait()
    buffer.table.call(f'Event_{function}', event=event.address)
  finally:
    event.destroy()


def _serialized(context: Context, part: str) -> str:
  context.needs('Executable_DeserializeAndLoad')
  with context.client() as client:
    data = {'random': bytes(range(256)) * 8, 'empty': b''}[part]
    error = _status(lambda: client.load(data), f'a damaged executable ({part})')
    _still_works(client)
  return error.code


_ENDS = 'a mistake ends the process, with all that was computed'
CASES: tuple[Case, ...] = (
    Case(
        'errors.programs', 'a program that cannot be compiled ends the '
        'process, or another one runs', _damaged,
        ('truncated', 'random', 'empty', 'format', 'options', 'operation')),
    Case('errors.arguments', 'a wrong argument ends the process, or gives '
         'wrong numbers', _arguments,
         ('few', 'many', 'none', 'size', 'deleted')),
    Case('errors.memory', _ENDS, _memory, ('buffer', 'program')),
    Case('errors.readback', _ENDS, _readback, ('deleted', 'small')),
    Case('errors.asynchronous', 'what has failed is taken for a result',
         _asynchronous,
         ('read', 'executed', 'second', 'awaited_twice', 'asked', 'next')),
    Case('errors.executables', 'a damaged cache entry ends the process, or '
         'is run', _serialized, ('random', 'empty')),
)
