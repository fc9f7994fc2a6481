"""Calls that are prepared, and made by several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import concurrent.futures
import ctypes
import dataclasses
import threading
from typing import Any, Optional

from . import structs
from .buffer import Buffer
from .client import Client
from .event import Event
from .executable import Loaded
from .graph import elementwise
from .host_array import floats, HostArray
from .table import CALL, PjrtError, Table

_COUNT = 64


@dataclasses.dataclass(frozen=True)
class Work:
  """A call that is ready to be made, and what is to be done behind it.

  Attributes:
    name: of the function.
    arguments: its struct, which the plugin fills.
    wrong: looks at what the call gave, and destroys it; empty: all is right.
    end: destroys the rest, whatever came of the call.
    refused: the code of the error that it has to give.
  """
  name: str
  arguments: Any
  wrong: Callable[[], str] = str
  end: Callable[[], object] = str
  refused: Optional[str] = None

  def judge(self, status: Optional[PjrtError]) -> str:
    """The fault in the call's outcome; empty if there is none."""
    if self.refused:
      right = status is not None and status.code == self.refused
      return '' if right else f'{status or "no error"}, not {self.refused}'
    return str(status) if status else self.wrong()


def _work(name: str,
          wrong: Callable[[Any], str] = lambda arguments: '',
          end: Callable[[], object] = str,
          **values: object) -> Work:
  """A call with a struct of its own, which `wrong` looks at."""
  arguments = structs.make(name, **values)
  return Work(name, arguments, lambda: wrong(arguments), end)


class Bench:
  """Makes calls of each kind, no two with the same numbers."""

  def __init__(self, client: Client):
    self._client, self._table = client, client.table
    self._number = 0
    self._sum = client.compile(elementwise((_COUNT,)))
    self._addend = client.put_floats([1.] * _COUNT)
    self._serialized = b''
    good = client.written(client.program(elementwise((_COUNT,))))
    self._nobodys = dataclasses.replace(good, format='a format of nobody')
    self._refusal = self._code_of_refusal()

  def execute(self) -> Work:
    given, array = self._given()
    call, get_execution = self._sum.prepared([[given, self._addend]])

    def wrong() -> str:
      execution = get_execution()
      execution.wait()
      difference = self._differs(execution.outputs[0][0], array)
      execution.destroy()
      return difference

    return Work('LoadedExecutable_Execute', call, wrong, given.destroy)

  def upload(self) -> Work:
    array = self._array()
    call = self._client.upload(array.data, array.type_number, array.dims)

    def wrong() -> str:
      self._table.await_event(call.done_with_host_buffer)
      buffer = Buffer(self._client, call.buffer)
      difference = array.first_difference(buffer.read('F32', (_COUNT,)))
      buffer.destroy()
      return difference

    return Work('Client_BufferFromHostBuffer', call, wrong)

  def read(self) -> Work:
    buffer, array = self._given()
    got = (ctypes.c_char * len(array.data))()

    def wrong(call: Any) -> str:
      self._table.await_event(call.event)
      return array.first_difference(HostArray('F32', (_COUNT,), bytes(got)))

    return _work(
        'Buffer_ToHostBuffer',
        wrong,
        buffer.destroy,
        src=buffer.address,
        dst=got,
        dst_size=len(array.data))

  def compile(self) -> Work:
    self._number += 1  # Of another shape each time, or a cache may know it.
    size = _COUNT + self._number
    program = self._client.written(self._client.program(elementwise((size,))))
    return _work(
        'Client_Compile',
        lambda call: self._computes(call.executable, size),
        client=self._client.address,
        **program.arguments())

  def refused(self) -> Work:
    """A program that nobody can read."""
    work = _work(
        'Client_Compile',
        client=self._client.address,
        **self._nobodys.arguments())
    return dataclasses.replace(work, refused=self._refusal)

  def _code_of_refusal(self) -> str:
    try:
      self._client.compile(self._nobodys)
    except PjrtError as e:
      return e.code
    raise PjrtError('OK', 'a program of an unknown format was compiled')

  def load(self) -> Work:
    self._serialized = self._serialized or self._sum.serialized()
    return _work(
        'Executable_DeserializeAndLoad',
        lambda call: self._computes(call.loaded_executable, _COUNT),
        client=self._client.address,
        serialized_executable=self._serialized)

  def wait(self) -> Work:
    given, array = self._given()
    execution = self._sum.start([[given, self._addend]])
    event = Event(self._table, execution.events[0])

    def end() -> None:
      event.destroy()
      execution.destroy()
      given.destroy()

    return _work(
        'Event_Await',
        lambda call: self._differs(execution.outputs[0][0], array),
        end,
        event=event.address)

  def ask(self) -> Work:

    def wrong(call: Any) -> str:
      self._table.await_event(call.event)
      return ''

    return _work('Buffer_ReadyEvent', wrong, buffer=self._addend.address)

  def destroy(self) -> Work:
    buffer, _ = self._given()
    del self._client.owned[id(buffer)]
    return _work('Buffer_Destroy', buffer=buffer.address)

  def destroy_event(self) -> Work:
    return _work('Event_Destroy', event=self._addend.ready_event().address)

  def _array(self) -> HostArray:
    self._number += 1
    first = float(self._number * _COUNT % (1 << 20))
    return floats(first + place for place in range(_COUNT))

  def _given(self) -> tuple[Buffer, HostArray]:
    array = self._array()
    return self._client.put(array), array

  def _differs(self, result: Buffer, array: HostArray) -> str:
    return floats(array.numbers() + 1).first_difference(
        result.read('F32', (_COUNT,)))

  def _computes(self, address: int, size: int) -> str:
    """The fault of a sum's program, which is destroyed."""
    loaded = Loaded(self._client, address)
    actual = floats(self._client.run(loaded, range(size), range(size)))
    difference = floats(2 * i for i in range(size)).first_difference(actual)
    loaded.destroy()
    return difference


def at_once(table: Table,
            lists: Sequence[Sequence[Work]]) -> list[list[Optional[PjrtError]]]:
  """Makes the calls of each list one after the other, on a thread of its own.

  All is prepared before, so that between two calls there is half a microsecond
  of Python's, in which it alone runs; a call holds up no other thread.

  Returns:
    The status of each call; None: it went well.
  """
  barrier = threading.Barrier(len(lists))

  def make(works: Sequence[Work]) -> list[Optional[int]]:
    prepared = [(CALL(table.address_of(work.name)),
                 ctypes.addressof(work.arguments)) for work in works]
    barrier.wait()
    return [function(arguments) for function, arguments in prepared]

  with concurrent.futures.ThreadPoolExecutor(len(lists)) as pool:
    addresses = list(pool.map(make, lists))
  return [[table.error_of(error) if error else None
           for error in errors]
          for errors in addresses]
