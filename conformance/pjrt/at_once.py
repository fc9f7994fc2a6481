"""Calls of a plugin by several threads that are in it nearly all of the time."""

from __future__ import annotations

from collections.abc import Sequence
import concurrent.futures
import ctypes
import dataclasses
import threading
from typing import Optional

from .table import CALL, PjrtError, Table


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
