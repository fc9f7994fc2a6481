"""Events of work that takes a while, and a look at what each promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import ctypes
import dataclasses
import random
import struct
import time

from .buffer import Buffer, destroy
from .client import Client
from .event import Event
from .graph import elementwise
from .host_array import floats, TYPES

# A call of ours takes some ten microseconds: what comes before the work is done
# is seen to come early.
_SECONDS = 5e-4
_TRIES = 10
_LEAST, _MOST = 1 << 20, 1 << 26
_PLACES = 16
_ALIGNMENT = 64


@dataclasses.dataclass(frozen=True)
class Promise:
  """An event, and what is there once it is ready.

  Attributes:
    wrong: looks at it without another wait; empty if all is there.
    end: destroys what belongs to it, but for the event.
  """
  event: Event
  wrong: Callable[[], str]
  end: Callable[[], object] = str


class LongWork:
  """A number in each place of a large array, which grows with each step.

  What it promises has another content each time, so that what was left in
  memory by an earlier one is not taken for it.
  """

  def __init__(self, client: Client):
    """Finds sizes with which a step and an upload take long enough."""
    self._client = client
    self._random = random.Random(17)
    self._uploads = 0
    self._small = client.put_floats([1.])
    self._small_sum = client.compile(elementwise((1,)))
    self._size = _LEAST
    self._begin()
    while _least_seconds(self._step) < _SECONDS and self._size < _MOST:
      destroy((self._state, self._term, self._sum))
      self._size *= 2
      self._begin()
    self._sent_size = _LEAST
    self._rooms: list[ctypes.Array[ctypes.c_char]] = []
    self._make_room()
    while _least_seconds(self._upload) < _SECONDS and self._sent_size < _MOST:
      self._sent_size *= 2
      self._make_room()

  def keep_rooms(self) -> None:
    """Keeps the host's arrays for good.

    A plugin that said too early that it is done with them still uses them.
    """
    for room in self._rooms:
      ctypes.pythonapi.Py_IncRef(ctypes.py_object(room))

  @property
  def host_sees(self) -> bool:
    """Tests whether the host can read the memory of the devices."""
    table = self._client.table
    return (table.has('Buffer_UnsafePointer') and
            table.has('Buffer_IsOnCpu') and
            table.call('Buffer_IsOnCpu', buffer=self._state.address).is_on_cpu)

  def stir(self) -> None:
    """Other events of each kind, in a number that no period goes with.

    What fails in each fiftieth might do so in none that is looked at.
    """
    for _ in range(self._random.randrange(3)):
      self._client.put_floats([2.]).destroy()
      (result,), = self._small_sum.execute([[self._small, self._small]])
      result.ready_event().destroy()
      self._get(result)
      result.destroy()

  def executed(self) -> Promise:
    """The completion of an execution."""
    return Promise(self._step(), self._state_differs)

  def result(self) -> Promise:
    """The readiness of its result."""
    self._step().destroy()
    return Promise(self._state.ready_event(), self._state_differs)

  def read(self) -> Promise:
    """A copy of its result to the host."""
    self._step().destroy()
    _write(ctypes.addressof(self._got), self._size, 0)
    return Promise(
        self._state.copy_into(self._got),
        lambda: _differs(ctypes.addressof(self._got), self._size, self._word))

  def sent(self) -> Promise:
    """The host may write its array again, which it has sent."""
    event, buffer, word = self._send()

    def wrong() -> str:
      _write(self._data, self._sent_size, 0)
      self._get(buffer)
      return _differs(ctypes.addressof(self._got), self._sent_size, word)

    return Promise(event, wrong, buffer.destroy)

  def arrived(self) -> Promise:
    """The readiness of an array that the host has sent."""
    done, buffer, word = self._send()

    def end() -> None:
      done.wait()
      done.destroy()
      buffer.destroy()

    return Promise(buffer.ready_event(),
                   lambda: _differs(buffer.pointer, self._sent_size, word), end)

  def copied(self) -> Promise:
    """The readiness of a copy on the next device."""
    self._step().destroy()
    copy = self._state.copy_to(self._client.devices[1])
    return Promise(copy.ready_event(),
                   lambda: _differs(copy.pointer, self._size, self._word),
                   copy.destroy)

  def _state_differs(self) -> str:
    return _differs(self._state.pointer, self._size, self._word)

  def _begin(self) -> None:
    data = floats([1.] * self._size)
    self._state, self._term = self._client.put(data), self._client.put(data)
    self._value = 1.
    self._sum = self._client.compile(elementwise((self._size,)))

  def _make_room(self) -> None:
    # What the host sends and gets, with room to move it off its alignment.
    self._sent = (ctypes.c_char * (4 * self._sent_size + 2 * _ALIGNMENT))()
    self._got = (ctypes.c_char * (4 * max(self._size, self._sent_size)))()
    self._rooms += [self._sent, self._got]

  def _step(self) -> Event:
    """Starts an execution that waits for another one; when it is done."""
    self._add().destroy()
    return self._add()

  def _add(self) -> Event:
    execution = self._sum.start([[self._state, self._term]])
    self._state.destroy()
    self._state = execution.outputs[0][0]
    self._value += 1
    return Event(self._client.table, execution.events[0])

  def _get(self, buffer: Buffer) -> None:
    copy = buffer.copy_into(self._got)
    copy.wait()
    copy.destroy()

  def _send(self) -> tuple[Event, Buffer, int]:
    """Starts an upload: when it is done, its buffer, and the word in it."""
    self._uploads += 1
    _write(self._data, self._sent_size, self._uploads)
    transfer = self._client.upload(self._data, TYPES['S32'][0],
                                   [self._sent_size])
    self._client.table.call_with('Client_BufferFromHostBuffer', transfer)
    return (Event(self._client.table, transfer.done_with_host_buffer),
            Buffer(self._client, transfer.buffer), self._uploads)

  def _upload(self) -> Event:
    event, buffer, _ = self._send()
    buffer.destroy()
    return event

  @property
  def _data(self) -> int:
    """Where the array lies that is sent: aligned, and not, in turn."""
    start = ctypes.addressof(self._sent)
    return start + -start % _ALIGNMENT + 4 * (self._uploads % 2)

  @property
  def _word(self) -> int:
    return int.from_bytes(struct.pack('<f', self._value), 'little')


def _places(address: int, size: int) -> Iterator[ctypes.c_uint32]:
  """Words of an array, from its end: what is made in order comes there last."""
  for place in reversed(range(_PLACES)):
    yield ctypes.c_uint32.from_address(address + place * (size - 1) //
                                       (_PLACES - 1) * 4)


def _write(address: int, size: int, word: int) -> None:
  for place in _places(address, size):
    place.value = word


def _differs(address: int, size: int, word: int) -> str:
  words = [place.value for place in _places(address, size)]
  wrong = _PLACES - words.count(word)
  return f'{wrong} of {_PLACES} places differ' if wrong else ''


def _least_seconds(start: Callable[[], Event]) -> float:
  """The least duration of the work."""
  spent = []
  for _ in range(_TRIES):
    begun = time.perf_counter()
    event = start()
    event.wait()
    spent.append(time.perf_counter() - begun)
    event.destroy()
  return min(spent)
