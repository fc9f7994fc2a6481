"""Two threads that are in a plugin at once, as near to each other as can be."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import ctypes
import dataclasses
import random
import struct

from ..case import Case, expect, NotApplicable
from ..context import Context
from ..pjrt import executable, structs
from ..pjrt.at_once import at_once, Call
from ..pjrt.buffer import Buffer
from ..pjrt.client import Client
from ..pjrt.event import Event
from ..pjrt.executable import Loaded
from ..pjrt.host_array import HostArray, TYPES
from ..pjrt.numbers import destroy, floats
from ..pjrt.programs import Elementwise

# Of a thread, which are prepared before any is made.
_CALLS = 100
_COUNT = 64
_IMMUTABLE_UNTIL_TRANSFERRED = 1


@dataclasses.dataclass(frozen=True)
class _Work:
  """A call that is ready to be made, and what is to be done behind it.

  Attributes:
    wrong: looks at what the call gave, and destroys it; empty: all is right.
    end: destroys the rest, whatever came of the call.
  """
  call: Call
  wrong: Callable[[], str]
  end: Callable[[], None]


class _Bench:
  """Makes calls of each kind, no two with the same numbers."""

  def __init__(self, context: Context, client: Client):
    self._client, self._table = client, context.table
    self._context = context
    self._number = 0
    self._sum = client.compile(context.program(Elementwise((_COUNT,)), client))
    self._ones = client.put(floats([1.] * _COUNT))
    self._serialized = b''

  def close(self) -> None:
    self._sum.destroy()
    self._ones.destroy()

  def execute(self) -> _Work:
    given, array = self._given()
    call, made = self._sum.prepared([[given, self._ones]])

    def wrong() -> str:
      execution = made()
      execution.wait()
      found = self._is_sum(execution.outputs[0][0], array)
      execution.destroy()
      return found

    return _Work(Call('LoadedExecutable_Execute', call), wrong, given.destroy)

  def upload(self) -> _Work:
    array = self._array()
    data = ctypes.create_string_buffer(array.data, len(array.data))
    dims = (ctypes.c_int64 * 1)(_COUNT)
    call = structs.make(
        'Client_BufferFromHostBuffer',
        client=self._client.address,
        data=ctypes.addressof(data),
        type=TYPES['F32'][0],
        dims=ctypes.addressof(dims),
        num_dims=1,
        host_buffer_semantics=_IMMUTABLE_UNTIL_TRANSFERRED,
        device=self._client.devices[0])
    held = data, dims

    def wrong() -> str:
      self._table.await_event(call.done_with_host_buffer)
      buffer = Buffer(self._table, call.buffer)
      found = array.first_difference(buffer.read('F32', (_COUNT,)))
      buffer.destroy()
      return found if held else ''

    return _Work(Call('Client_BufferFromHostBuffer', call), wrong, _nothing)

  def read(self) -> _Work:
    buffer, array = self._given()
    got = (ctypes.c_char * len(array.data))()
    call = structs.make(
        'Buffer_ToHostBuffer',
        src=buffer.address,
        dst=ctypes.addressof(got),
        dst_size=len(array.data))

    def wrong() -> str:
      self._table.await_event(call.event)
      return array.first_difference(HostArray('F32', (_COUNT,), bytes(got)))

    return _Work(Call('Buffer_ToHostBuffer', call), wrong, buffer.destroy)

  def compile(self) -> _Work:
    self._number += 1  # Of another shape each time, or a cache may know it.
    stack = contextlib.ExitStack()
    program = self._context.program(
        Elementwise((_COUNT + self._number,)), self._client)
    arguments = stack.enter_context(program.as_arguments())
    call = structs.make(
        'Client_Compile', client=self._client.address, **arguments)
    size = _COUNT + self._number
    return _Work(
        Call('Client_Compile', call), lambda: self._computes(
            Loaded(self._table, call.executable), size), stack.close)

  def load(self) -> _Work:
    if not self._serialized:
      with self._sum.executable() as made:
        self._serialized = executable.serialize(self._table, made)
    data = ctypes.create_string_buffer(self._serialized, len(self._serialized))
    call = structs.make(
        'Executable_DeserializeAndLoad',
        client=self._client.address,
        serialized_executable=ctypes.addressof(data),
        serialized_executable_size=len(self._serialized))
    return _Work(
        Call('Executable_DeserializeAndLoad', call), lambda: self._computes(
            Loaded(self._table, call.loaded_executable), _COUNT)
        if data else '', _nothing)

  def wait(self) -> _Work:
    given, array = self._given()
    execution = self._sum.start([[given, self._ones]])
    event = Event(self._table, execution.events[0])

    def end() -> None:
      event.destroy()
      execution.destroy()
      given.destroy()

    return _Work(
        Call('Event_Await', structs.make('Event_Await', event=event.address)),
        lambda: self._is_sum(execution.outputs[0][0], array), end)

  def ask(self) -> _Work:
    call = structs.make('Buffer_ReadyEvent', buffer=self._ones.address)

    def wrong() -> str:
      self._table.await_event(call.event)
      return ''

    return _Work(Call('Buffer_ReadyEvent', call), wrong, _nothing)

  def destroy(self) -> _Work:
    buffer, _ = self._given()
    call = structs.make('Buffer_Destroy', buffer=buffer.address)
    return _Work(Call('Buffer_Destroy', call), lambda: '', _nothing)

  def destroy_event(self) -> _Work:
    event = self._table.call(
        'Buffer_ReadyEvent', buffer=self._ones.address).event
    call = structs.make('Event_Destroy', event=event)
    return _Work(Call('Event_Destroy', call), lambda: '', _nothing)

  def _array(self) -> HostArray:
    self._number += 1
    first = float(self._number * _COUNT % (1 << 20))
    return floats(first + place for place in range(_COUNT))

  def _given(self) -> tuple[Buffer, HostArray]:
    array = self._array()
    return self._client.put(array), array

  def _is_sum(self, result: Buffer, array: HostArray) -> str:
    values = struct.unpack(f'<{_COUNT}f', array.data)
    return floats(value + 1 for value in values).first_difference(result.read('F32', (_COUNT,)))

  def _computes(self, loaded: Loaded, size: int) -> str:
    """What a program of a sum does wrong; it is destroyed."""
    left = self._client.put(floats(range(size)))
    (result,), = loaded.execute([[left, left]])
    found = floats(2 * i for i in range(size)).first_difference(
        result.read('F32', (size,)))
    destroy((left, result))
    loaded.destroy()
    return found


def _nothing() -> None:
  """Ends work that owns nothing more."""


# By the name of a part: what is called, and how often by a thread.
_KINDS: dict[str, tuple[Callable[[_Bench], _Work], int]] = {
    'execute': (_Bench.execute, 2000),
    'upload': (_Bench.upload, 2000),
    'read': (_Bench.read, 2000),
    'await': (_Bench.wait, 2000),
    'ready_event': (_Bench.ask, 2000),
    'destroy': (_Bench.destroy, 2000),
    'destroy_event': (_Bench.destroy_event, 2000),
    'compile': (_Bench.compile, 60),
    'load': (_Bench.load, 200),
}
# What takes long is there in its own part alone.
_LONG = ('compile', 'load')


def _meets(context: Context, part: str) -> str:
  """Calls of a kind beside each other, and beside those of each other kind."""
  if part == 'load':
    if not context.capabilities.get('serialization'):
      raise NotApplicable('the plugin does not serialise programs')
    context.needs('Executable_DeserializeAndLoad')
  random_ = random.Random(context.seed)
  others = [name for name in _KINDS if name not in _LONG]
  make, count = _KINDS[part]
  with context.client() as client:
    with contextlib.closing(_Bench(context, client)) as bench:
      for done in range(0, count, _CALLS):
        lists = [[make(bench) for _ in range(min(count, _CALLS))]
                 for _ in range(2)]
        lists += [[
            _KINDS[name][0](bench) for name in random_.choices(others, k=_CALLS)
        ] for _ in range(2)]
        statuses = at_once(context.table,
                           [[work.call for work in works] for works in lists])
        for works, told in zip(lists, statuses):
          for place, (work, status) in enumerate(zip(works, told)):
            wrong = str(status) if status else work.wrong()
            work.end()
            expect(
                not wrong, f'PJRT_{work.call.name}, call {done + place} of a '
                f'thread beside three others: {wrong}')
  return f'twice {count} calls beside each other and {2 * count} more'


CASES: tuple[Case, ...] = (Case(
    'races.meeting',
    'numbers change, or the process ends, when threads work at once',
    _meets,
    tuple(_KINDS),
    seconds=180),)
