"""One way to compile a program, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import enum
import logging
import time
from typing import Optional

from ..door.memory import Memory
from ..door.shim import Compilation
from ..errors import BackendCompileError
from ..hlo import compile_options, compiled_program, messages
from ..hlo.compile_options import Partitioner
from ..hlo.compiled_program import CompiledProgram
from ..sharding.hlo_sharding import HloSharding
from ..v2 import to_v1
from ..v2.to_v2 import ShardingCounts
from .record import TensorRecord

logger = logging.getLogger(__name__)

Dims = tuple[int, ...]

_UNIMPLEMENTED = 12  # PJRT_Error_Code_UNIMPLEMENTED


class Failure(enum.Enum):
  """The kinds of ways in which an attempt fails."""
  REFUSED = enum.auto()
  LAYOUTS = enum.auto()
  PADDING = enum.auto()


@dataclasses.dataclass(frozen=True)
class Outcome:
  """The backend's result of an attempt.

  Attributes:
    options: serialised CompileOptionsProto, as the backend got it.
    seconds: the duration of the compile.
    error: the backend's refusal of the program, if it refused.
    compiled: the compiled program, where the backend reports it.
    answer: the compiled program, serialised; empty if it is not reported.
    answer_format: of that: 'hlo_with_config', 'mlir'.
    cannot_report: whether the backend reports no program at all.
    unreadable: why the report cannot be read; empty if it can.
    memory: the program's memory on a device, where the backend reports it.
  """
  options: bytes
  seconds: float
  error: Optional[BackendCompileError] = None
  compiled: Optional[CompiledProgram] = None
  answer: bytes = b''
  answer_format: str = ''
  cannot_report: bool = False
  unreadable: str = ''
  memory: Optional[Memory] = None

  @property
  def results(self) -> Optional[tuple[HloSharding, ...]]:
    """The layouts of the results; None where the backend reports none."""
    return None if self.compiled is None else self.compiled.results


def hlo_answer(
    outcome: Outcome, results: Sequence[HloSharding] = ()
) -> Optional[tuple[bytes, str]]:
  """The HLO of a program for the runtime to read, and its format.

  The runtime reads it more than once, and a backend serialises the program anew
  each time. None: the runtime reads the backend's own.

  Args:
    results: what it is to say of its results, as for `to_v1`.
  """
  if (outcome.compiled is None or
      outcome.answer_format not in messages.HLO_FORMATS):
    return None
  read = to_v1.to_v1(outcome.answer, outcome.answer_format, results)
  return read or outcome.answer, outcome.answer_format


# Why an outcome cannot be used; None if it can.
Promise = Callable[[Outcome], Optional[str]]
# From a compiled program, its format, and the instructions to look for.
Reader = Callable[[bytes, str, frozenset[compiled_program.Source]],
                  Optional[CompiledProgram]]


@dataclasses.dataclass(frozen=True)
class Attempt:
  """A program as it is to be handed to the backend.

  Attributes:
    program: serialised.
    partitioner: who is to split it, if torch_xla wants it split at all.
    shardings: how many go out in V2 and in V1, and why.
    tensors: what is known of its tensors.
    promise: what the result must keep to be used; None: it is used as it is.
    program_format: that the program is in; None: that of the program that came.
    read: reads the compiled program.
    answer: what the runtime is to read in place of what the backend tells, and
      its format; None: the backend's own.
    note_of: what the record says of an outcome that is used.
    form: how the program says its shardings, where that is not the HLO way.
    is_untupled: whether parameters that came as one tuple are its parameters.
    padded: the dimensions, before and after, of results that nobody placed and
      that are padded to the tiles that a probe reported, by number.
  """
  program: bytes
  partitioner: Partitioner
  shardings: ShardingCounts = ShardingCounts()
  tensors: tuple[TensorRecord, ...] = ()
  promise: Optional[Promise] = None
  program_format: Optional[str] = None
  read: Reader = compiled_program.read
  answer: Callable[[Outcome], Optional[tuple[bytes, str]]] = hlo_answer
  note_of: Callable[[Outcome], str] = lambda outcome: ''
  form: str = ''
  is_untupled: bool = False
  padded: Mapping[int, tuple[Dims,
                             Dims]] = dataclasses.field(default_factory=dict)

  def run(self, compilation: Compilation) -> Outcome:
    """Compiles it by the backend; a refusal is an outcome, too.

    Raises:
      ValueError: the compilation's options are damaged.
    """
    options = compile_options.with_partitioner(compilation.options,
                                               self.partitioner,
                                               self.is_untupled)
    start = time.perf_counter()
    try:
      compilation.compile(self.program, options, self.program_format)
    except BackendCompileError as e:
      # Its frames hold their callers', and so tensors of the user's: a sync
      # fails as long as one lives that a failed sync computed.
      return Outcome(options,
                     time.perf_counter() - start, e.with_traceback(None))
    seconds = time.perf_counter() - start
    compiled, answer, answer_format = None, b'', ''
    memory, cannot_report, unreadable = compilation.memory(), False, ''
    try:
      answer, answer_format = compilation.compiled_program()
      compiled = self.read(answer, answer_format, self._sources())
    except (BackendCompileError, ValueError) as e:
      logger.debug('the compiled program cannot be read: %s', e)
      cannot_report = getattr(e, 'code', None) == _UNIMPLEMENTED
      if not isinstance(e, BackendCompileError):
        unreadable = str(e)
    return Outcome(options, seconds, None, compiled, answer, answer_format,
                   cannot_report, unreadable, memory)

  def failure(self, outcome: Outcome) -> Optional[tuple[str, Failure]]:
    """Why the outcome cannot be used; None if it can."""
    broken = self.promise(outcome) if self.promise else None
    if broken is not None:
      return broken, Failure.LAYOUTS if outcome.error is None else (
          Failure.REFUSED)
    results = outcome.results or ()
    for number, (dims, padded) in self.padded.items():
      # The runtime, which knows of no padding, has to get the tiles it expects.
      if number >= len(results) or results[number].tile_shape(
          padded) != results[number].tile_shape(dims):
        return (f'result {number} is split otherwise than the probe reported',
                Failure.PADDING)
    return None

  def _sources(self) -> frozenset[compiled_program.Source]:
    """The instructions that a compiled program can be asked for by name."""
    if self.partitioner is not Partitioner.SHARDY:
      return frozenset()
    return frozenset(tensor.source for tensor in self.tensors)
