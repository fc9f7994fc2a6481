"""The records of the programs that a process compiled."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import threading

from .record import ProgramRecord


class Ledger:
  """Records in the order in which programs were compiled, on any thread."""

  def __init__(self):
    self._lock = threading.Lock()
    self._programs: list[ProgramRecord] = []
    self._recordings: list[list[ProgramRecord]] = []

  def add(self, program: ProgramRecord) -> None:
    """Files `program`; its bytes are only kept while someone records."""
    with self._lock:
      self._programs.append(program.without_programs())
      for recording in self._recordings:
        recording.append(program)

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


# Of the programs that go through this process's door.
of_process = Ledger()
