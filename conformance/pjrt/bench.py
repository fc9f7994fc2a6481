"""Calls that are prepared, and made by several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import struct
import threading
from typing import Optional

from . import executable, structs
from .buffer import Buffer, floats
from .client import Client
from .event import Event
from .executable import Loaded
from .graph import elementwise
from .host_array import HostArray
from .programs import Program
from .table import CALL, PjrtError, Table

_COUNT = 64


@dataclasses.dataclass(frozen=True)
class Work:
  """A call that is ready to be made, and what is to be done behind it.

  Attributes:
    wrong: looks at what the call gave, and destroys it; empty: all is right.
    end: destroys the rest, whatever came of the call.
    refused: the code of the error that it has to give.
    held: what the arguments point to.
  """
  call: Call
  wrong: Callable[[], str]
  end: Callable[[], None]
  refused: Optional[str] = None
  held: object = None

  def judge(self, status: Optional[PjrtError]) -> str:
    """The fault in the call's outcome; empty if there is none."""
    if self.refused:
      right = status is not None and status.code == self.refused
      return '' if right else f'{status or "no error"}, not {self.refused}'
    return str(status) if status else self.wrong()


class Bench:
  """Makes calls of each kind, no two with the same numbers."""

  def __init__(self, client: Client, form: str):
    self._client, self._table, self._form = client, client.table, form
    self._number = 0
    self._sum = client.compile(self._program(_COUNT))
    self._addend = client.put(floats([1.] * _COUNT))
    self._serialized = b''
    good = client.written(self._program(_COUNT))
    self._nobodys = dataclasses.replace(good, format='a format of nobody')
    self._refusal = self._code_of_refusal()

  def close(self) -> None:
    self._sum.destroy()
    self._addend.destroy()

  def execute(self) -> Work:
    given, array = self._given()
    call, get_execution = self._sum.prepared([[given, self._addend]])

    def wrong() -> str:
      execution = get_execution()
      execution.wait()
      is_right = self._is_sum(execution.outputs[0][0], array)
      execution.destroy()
      return is_right

    return Work(Call('LoadedExecutable_Execute', call), wrong, given.destroy)

  def upload(self) -> Work:
    array = self._array()
    data = ctypes.create_string_buffer(array.data, len(array.data))
    call, arrays = self._client.upload(
        ctypes.addressof(data), array.type_number, array.dims)

    def wrong() -> str:
      self._table.await_event(call.done_with_host_buffer)
      buffer = Buffer(self._table, call.buffer)
      difference = array.first_difference(buffer.read('F32', (_COUNT,)))
      buffer.destroy()
      return difference

    return Work(
        Call('Client_BufferFromHostBuffer', call),
        wrong,
        _nothing,
        held=(data, arrays))

  def read(self) -> Work:
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

    return Work(Call('Buffer_ToHostBuffer', call), wrong, buffer.destroy)

  def compile(self) -> Work:
    self._number += 1  # Of another shape each time, or a cache may know it.
    stack = contextlib.ExitStack()
    program = self._client.written(self._program(_COUNT + self._number))
    arguments = stack.enter_context(program.as_arguments())
    call = structs.make(
        'Client_Compile', client=self._client.address, **arguments)
    size = _COUNT + self._number
    return Work(
        Call('Client_Compile', call),
        lambda: self._computes(Loaded(self._table, call.executable), size),
        stack.close)

  def refused(self) -> Work:
    """A program that nobody can read."""
    stack = contextlib.ExitStack()
    arguments = stack.enter_context(self._nobodys.as_arguments())
    call = structs.make(
        'Client_Compile', client=self._client.address, **arguments)
    return Work(Call('Client_Compile', call), str, stack.close, self._refusal)

  def _code_of_refusal(self) -> str:
    try:
      with self._nobodys.as_arguments() as arguments:
        self._table.call(
            'Client_Compile', client=self._client.address, **arguments)
    except PjrtError as e:
      return e.code
    raise PjrtError('OK', 'a program of an unknown format was compiled')

  def load(self) -> Work:
    if not self._serialized:
      with self._sum.executable() as address:
        self._serialized = executable.serialize(self._table, address)
    data = ctypes.create_string_buffer(self._serialized, len(self._serialized))
    call = structs.make(
        'Executable_DeserializeAndLoad',
        client=self._client.address,
        serialized_executable=ctypes.addressof(data),
        serialized_executable_size=len(self._serialized))
    return Work(
        Call('Executable_DeserializeAndLoad', call),
        lambda: self._computes(
            Loaded(self._table, call.loaded_executable), _COUNT),
        _nothing,
        held=data)

  def wait(self) -> Work:
    given, array = self._given()
    execution = self._sum.start([[given, self._addend]])
    event = Event(self._table, execution.events[0])

    def end() -> None:
      event.destroy()
      execution.destroy()
      given.destroy()

    return Work(
        Call('Event_Await', structs.make('Event_Await', event=event.address)),
        lambda: self._is_sum(execution.outputs[0][0], array), end)

  def ask(self) -> Work:
    call = structs.make('Buffer_ReadyEvent', buffer=self._addend.address)

    def wrong() -> str:
      self._table.await_event(call.event)
      return ''

    return Work(Call('Buffer_ReadyEvent', call), wrong, _nothing)

  def destroy(self) -> Work:
    buffer, _ = self._given()
    call = structs.make('Buffer_Destroy', buffer=buffer.address)
    return Work(Call('Buffer_Destroy', call), lambda: '', _nothing)

  def destroy_event(self) -> Work:
    event = self._table.call(
        'Buffer_ReadyEvent', buffer=self._addend.address).event
    call = structs.make('Event_Destroy', event=event)
    return Work(Call('Event_Destroy', call), lambda: '', _nothing)

  def _program(self, count: int) -> Program:
    return elementwise((count,)).program(self._form, self._client.ids[:1])

  def _array(self) -> HostArray:
    self._number += 1
    first = float(self._number * _COUNT % (1 << 20))
    return floats(first + place for place in range(_COUNT))

  def _given(self) -> tuple[Buffer, HostArray]:
    array = self._array()
    return self._client.put(array), array

  def _is_sum(self, result: Buffer, array: HostArray) -> str:
    values = struct.unpack(f'<{_COUNT}f', array.data)
    return floats(value + 1 for value in values).first_difference(
        result.read('F32', (_COUNT,)))

  def _computes(self, loaded: Loaded, size: int) -> str:
    """The fault of a sum's program, which is destroyed."""
    actual = floats(self._client.run(loaded, range(size), range(size)))
    difference = floats(2 * i for i in range(size)).first_difference(actual)
    loaded.destroy()
    return difference


def _nothing() -> None:
  """Ends work that owns nothing more."""


@dataclasses.dataclass(frozen=True)
class Call:
  """A function, and its arguments' struct, which the plugin fills."""
  name: str
  arguments: ctypes.Structure


def at_once(table: Table,
            lists: Sequence[Sequence[Call]]) -> list[list[Optional[PjrtError]]]:
  """Makes the calls of each list one after the other, on a thread of its own.

  All is prepared before, so that between two calls there is half a microsecond
  of Python's, in which it alone runs; a call holds up no other thread.

  Returns:
    The status of each call; None: it went well.
  """
  barrier = threading.Barrier(len(lists))

  def make(calls: Sequence[Call]) -> list[Optional[int]]:
    prepared = [(CALL(table.address_of(call.name)),
                 ctypes.addressof(call.arguments)) for call in calls]
    barrier.wait()
    return [function(arguments) for function, arguments in prepared]

  with concurrent.futures.ThreadPoolExecutor(len(lists)) as pool:
    addresses = list(pool.map(make, lists))
  return [[table.error_of(error) if error else None
           for error in errors]
          for errors in addresses]
