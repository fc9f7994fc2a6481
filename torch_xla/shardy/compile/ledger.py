"""The records of the programs that a process compiled."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import dataclasses
import threading

from .record import ProgramRecord


class Ledger:
  """Records in the order in which programs were compiled, on any thread."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._programs: list[ProgramRecord] = []
    self._recordings: list[list[ProgramRecord]] = []

  def add(self, program: ProgramRecord) -> int:
    """Files `program`; its bytes are only kept while someone records.

    Returns:
      The number of the record.
    """
    with self._lock:
      self._programs.append(program.without_programs())
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


# Of the programs that go through this process's door.
of_process = Ledger()
