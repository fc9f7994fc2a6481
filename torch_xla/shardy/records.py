"""What became of each program that this process compiled."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from typing import Iterator, List, Optional, Tuple

from .array_shape import ArrayShape
from .compile_options import CompileOptions, Partitioner
from .compiled import Collective, CompiledProgram
from .lower import LoweringReport


@dataclasses.dataclass(frozen=True)
class TensorRecord:
  """A parameter, or an intermediate tensor with a sharding of its own.

  Attributes:
    parameter: its number, or None for an intermediate.
    instruction: the name of its instruction in the program.
    shape: element type and global dimensions.
    spec: the partition spec that a user asked for; None without one.
    priority: the user's, for each dimension; None without any.
    sdy: the attribute that Shardy was handed; empty if it was handed none.
    placement: the sharding that it is stored with, or constrained to.
    source: name and opcode of the instruction whose result it is.
    compiled: a parameter's sharding in the compiled program. None where the
      backend does not tell, and for intermediates: no compiled program says it.
    local_shape: what one device holds of a parameter, or computes of an
      intermediate, in the compiled program; None where that cannot be found.
    name: the user's name for it, where one is known.
  """
  parameter: Optional[int]
  instruction: str
  shape: ArrayShape
  spec: Optional[str]
  priority: Optional[Tuple[Optional[int], ...]]
  sdy: str
  placement: str
  source: Tuple[str, str]
  compiled: Optional[str] = None
  local_shape: Optional[ArrayShape] = None
  name: str = ''


def with_compiled(
    tensors: Tuple[TensorRecord, ...],
    compiled: Optional[CompiledProgram]) -> Tuple[TensorRecord, ...]:
  """`tensors` with what is known of them in the compiled program."""
  if compiled is None:
    return tensors
  shardings = compiled.parameters or ()

  def of(tensor: TensorRecord) -> TensorRecord:
    if tensor.parameter is None:
      return dataclasses.replace(
          tensor, local_shape=compiled.local_shapes.get(tensor.source))
    if tensor.parameter >= len(shardings):
      return tensor
    sharding = shardings[tensor.parameter]
    local = dataclasses.replace(
        tensor.shape, dims=sharding.tile_shape(tensor.shape.dims))
    return dataclasses.replace(
        tensor, compiled=str(sharding), local_shape=local)

  return tuple(map(of, tensors))


@dataclasses.dataclass(frozen=True)
class ProgramRecord:
  """One program on its way through the door.

  Attributes:
    name: the module's name; empty where the format does not say (StableHLO).
    format: 'hlo' or 'mlir'.
    options: how the program was spread out, as handed on.
    seconds: what the backend took to compile it, or to load it from
      `torch_xla.shardy.cache`.
    shardings: how many went to the backend in V2 and in V1, and why.
    tensors: what Shardy was told of its tensors; empty where GSPMD was asked.
    collectives: in the compiled program, by kind; None where the backend does
      not tell.
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
  tensors: Tuple[TensorRecord, ...] = ()
  collectives: Optional[Tuple[Collective, ...]] = None
  note: str = ''
  error: Optional[str] = None
  sent: Optional[bytes] = dataclasses.field(default=None, repr=False)
  handed_on: Optional[bytes] = dataclasses.field(default=None, repr=False)
  options_sent: Optional[bytes] = dataclasses.field(default=None, repr=False)
  options_handed_on: Optional[bytes] = dataclasses.field(
      default=None, repr=False)

  def __str__(self) -> str:
    from .record_text import table  # Knows this class.
    return table(self)

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

  Their bytes are not kept; `record()` keeps them.
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
