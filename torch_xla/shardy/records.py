"""What became of each program that this process compiled."""

import contextlib
import dataclasses
import threading
from typing import Iterator, List, Optional, Tuple

from .compile_options import CompileOptions, Partitioner
from .lower import LoweringReport


@dataclasses.dataclass(frozen=True)
class ProgramRecord:
  """One program on its way through the door.

  Attributes:
    name: the module's name; empty where the format does not say (StableHLO).
    format: 'hlo' or 'mlir'.
    options: how the program was spread out, as handed on.
    seconds: what the backend took to compile it.
    shardings: how many went to the backend in V2 and in V1, and why.
    note: why the program was handed on other than asked; empty if it was not.
    error: the backend's message if it refused the program, else None.
    sent: the program as the runtime sent it; None outside `record()`.
    handed_on: the program as the backend got it; None outside `record()`.
    options_sent: serialised CompileOptionsProto; None outside `record()`.
    options_handed_on: likewise.
  """
  name: str
  format: str
  options: CompileOptions
  seconds: float
  shardings: LoweringReport = LoweringReport()
  note: str = ''
  error: Optional[str] = None
  sent: Optional[bytes] = dataclasses.field(default=None, repr=False)
  handed_on: Optional[bytes] = dataclasses.field(default=None, repr=False)
  options_sent: Optional[bytes] = dataclasses.field(default=None, repr=False)
  options_handed_on: Optional[bytes] = dataclasses.field(
      default=None, repr=False)

  @property
  def partitioner(self) -> Partitioner:
    return self.options.partitioner

  def without_programs(self) -> 'ProgramRecord':
    return dataclasses.replace(
        self,
        sent=None,
        handed_on=None,
        options_sent=None,
        options_handed_on=None)


_lock = threading.Lock()
_programs: List[ProgramRecord] = []
_recordings: List[List[ProgramRecord]] = []


def add(program: ProgramRecord) -> None:
  """Files `program`; its bytes are only kept while someone records."""
  with _lock:
    _programs.append(program.without_programs())
    for recording in _recordings:
      recording.append(program)


def programs() -> Tuple[ProgramRecord, ...]:
  """All programs that this process compiled through the door, oldest first.

  Their bytes are not kept; `record()` keeps them. Programs that came out of a
  persistent compilation cache were not compiled and are not here.
  """
  with _lock:
    return tuple(_programs)


@contextlib.contextmanager
def collect() -> Iterator[List[ProgramRecord]]:
  """Collects one record, bytes and all, per program compiled meanwhile."""
  recording: List[ProgramRecord] = []
  with _lock:
    _recordings.append(recording)
  try:
    yield recording
  finally:
    with _lock:
      # By identity: two empty recordings are equal.
      _recordings[:] = [r for r in _recordings if r is not recording]
