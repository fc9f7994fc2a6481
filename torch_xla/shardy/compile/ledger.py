"""The records of the programs that a process compiled."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import threading
from typing import NamedTuple
import zlib

from .record import ProgramRecord, TensorRecord

# How many programs are stored, to compare later ones with.
_MOST_SENT = 64


class IncomingProgram(NamedTuple):
  """A program as the runtime sent it, before it is compiled.

  Attributes:
    name: the module's; empty where the format does not say.
    format: 'hlo' or 'mlir'.
    packed: the program, by zlib.
    tensors: what Shardy is told of its tensors.
  """
  name: str
  format: str
  packed: bytes
  tensors: tuple[TensorRecord, ...]

  @classmethod
  def pack(cls, name: str, program_format: str, program: bytes,
           tensors: tuple[TensorRecord, ...]) -> IncomingProgram:
    return cls(name, program_format, zlib.compress(program, 1), tensors)

  @property
  def program(self) -> bytes:
    return zlib.decompress(self.packed)


# Gets a program and those sent before it, the last ones, oldest first.
Watcher = Callable[[IncomingProgram, tuple[IncomingProgram, ...]], None]


class Ledger:
  """Records in the order in which programs were compiled, on any thread."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._programs: list[ProgramRecord] = []
    self._recordings: list[list[ProgramRecord]] = []
    self._sent: collections.deque[IncomingProgram] = collections.deque(
        maxlen=_MOST_SENT)
    self._watchers: list[Watcher] = []

  def begin(self, program: IncomingProgram) -> None:
    """Shows a program to those who watch, before it is compiled."""
    with self._lock:
      earlier = tuple(self._sent)
      self._sent.append(program)
      watchers = tuple(self._watchers)
    for watcher in watchers:
      watcher(program, earlier)

  @contextlib.contextmanager
  def watch(self, watcher: Watcher) -> Iterator[None]:
    """Calls `watcher` with each program that is about to be compiled."""
    with self._lock:
      self._watchers.append(watcher)
    try:
      yield
    finally:
      with self._lock:
        self._watchers.remove(watcher)

  def add(self, program: ProgramRecord) -> int:
    """Files `program`; its bytes are only kept while someone records.

    Returns:
      The number of the record.
    """
    with self._lock:
      self._programs.append(program.without_programs())
      for old in self._programs[-_MOST_SENT - 1:-_MOST_SENT]:
        self._programs[-_MOST_SENT - 1] = dataclasses.replace(old, packed=None)
      for recording in self._recordings:
        recording.append(program)
      return len(self._programs) - 1

  def add_use(self, number: int, program: ProgramRecord) -> None:
    """Counts one use more of the executable of `program`, record `number`.

    A recording that began after the compile gets a record of no seconds.
    """
    with self._lock:
      self._programs[number] = _used_again(self._programs[number])
      for recording in self._recordings:
        at = next((i for i, recorded in enumerate(recording)
                   if recorded.sent is program.sent), None)
        if at is None:
          at = len(recording)
          recording.append(dataclasses.replace(program, seconds=0.))
        recording[at] = _used_again(recording[at])

  def programs(self) -> tuple[ProgramRecord, ...]:
    """All records, oldest first, without bytes."""
    with self._lock:
      return tuple(self._programs)

  @contextlib.contextmanager
  def collect(self) -> Iterator[list[ProgramRecord]]:
    """Collects one record, bytes and all, per program compiled meanwhile."""
    recording: list[ProgramRecord] = []
    with self._lock:
      self._recordings.append(recording)
    try:
      yield recording
    finally:
      with self._lock:
        # By identity: two empty recordings are equal.
        self._recordings[:] = [
            r for r in self._recordings if r is not recording
        ]


def _used_again(program: ProgramRecord) -> ProgramRecord:
  return dataclasses.replace(program, reused=program.reused + 1)


# The ledger of the programs that go through this process's door.
process_ledger = Ledger()
