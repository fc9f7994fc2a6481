"""Events, and the ways of learning that one is ready."""

from __future__ import annotations

from collections.abc import Callable, Collection
import ctypes
import dataclasses
import threading
import time
from typing import Optional

from .table import PjrtError, Table

# In which a callback comes.
_SECONDS = 20.
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@dataclasses.dataclass(frozen=True)
class Event:
  """An event, which its owner destroys."""
  table: Table
  address: int

  def wait(self) -> None:
    """Waits until it is ready.

    Raises:
      PjrtError: of what was waited for.
    """
    self.table.call('Event_Await', event=self.address)

  @property
  def is_ready(self) -> bool:
    return self.table.call('Event_IsReady', event=self.address).is_ready

  def destroy(self) -> None:
    self.table.call('Event_Destroy', event=self.address)


Told = tuple[int, Optional[PjrtError]]


class Callbacks:
  """Functions that a plugin calls once events are ready.

  It has to live as long as the plugin may call one of them.
  """

  def __init__(self, table: Table):
    self._table = table
    self._calls: list[Told] = []
    self._ends: dict[int, Callable[[], None]] = {}
    self._changed = threading.Condition()
    self._function = _Callback(self._called)

  def add(self,
          event: Event,
          number: int,
          end: Optional[Callable[[], None]] = None) -> None:
    """Registers one more for an event.

    Args:
      number: by which its calls are known.
      end: is called in the callback, as XLA's own client destroys the event.
    """
    if end:
      self._ends[number] = end
    self._table.call(
        'Event_OnReady',
        event=event.address,
        callback=ctypes.cast(self._function, ctypes.c_void_p),
        user_arg=number)

  def missing(self, numbers: Collection[int], seconds: float) -> set[int]:
    """Those of `numbers` that were not called, be it after `seconds`."""

    def left() -> set[int]:
      return set(numbers).difference(number for number, _ in self._calls)

    with self._changed:
      self._changed.wait_for(lambda: not left(), seconds)
      return left()

  def take_calls(self) -> list[Told]:
    """The calls till now, by number with the error of each; forgets them."""
    with self._changed:
      calls, self._calls = self._calls, []
    return calls

  def _called(self, error: Optional[int], number: Optional[int]) -> None:
    error_value = self._table.error_of(error) if error else None
    self._ends.pop(number or 0, lambda: None)()
    with self._changed:
      self._calls.append((number or 0, error_value))
      self._changed.notify_all()


def wait_by_polling(event: Event, callbacks: Callbacks) -> None:
  while not event.is_ready:
    time.sleep(0)


def wait_by_callback(event: Event, callbacks: Callbacks) -> None:
  """Returns once a callback was called."""
  callbacks.add(event, 0)
  if callbacks.missing((0,), _SECONDS):
    raise TimeoutError(f'a callback of an event was not called in {_SECONDS:g} '
                       's')
  callbacks.take_calls()


# By name, how one learns that an event is ready.
WAYS = {
    'await': lambda event, callbacks: event.wait(),
    'polling': wait_by_polling,
    'callback': wait_by_callback
}
