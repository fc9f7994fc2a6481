"""One way to have a program compiled, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
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

_UNIMPLEMENTED = 12  # PJRT_Error_Code_UNIMPLEMENTED


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What the backend made of an attempt.

  Attributes:
    options: serialised CompileOptionsProto, as the backend got it.
    seconds: what it took.
    error: what it refused the program with, if it did.
    compiled: the program that it made, where it tells.
    answer: what it tells of the program, serialised; empty if nothing.
    answer_format: of that: 'hlo_with_config', 'mlir'.
    never_tells: whether it tells of no program at all.
    unreadable: why what it tells cannot be read; empty if it can.
    memory: what the program takes on a device, where the backend tells.
  """
  options: bytes
  seconds: float
  error: Optional[BackendCompileError] = None
  compiled: Optional[CompiledProgram] = None
  answer: bytes = b''
  answer_format: str = ''
  never_tells: bool = False
  unreadable: str = ''
  memory: Optional[Memory] = None

  @property
  def results(self) -> Optional[tuple[HloSharding, ...]]:
    """How the backend laid out the results; None where it does not tell."""
    return None if self.compiled is None else self.compiled.results


def as_read(outcome: Outcome) -> Optional[tuple[bytes, str]]:
  """What the runtime is to read of a program, and its format.

  The runtime asks more than once, and a backend writes the program down anew
  each time. None: it is to ask the backend.
  """
  if (outcome.compiled is None or
      outcome.answer_format not in messages.HLO_FORMATS):
    return None
  read = to_v1.to_v1(outcome.answer, outcome.answer_format)
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
    made_if_told: the attempt is only for backends that tell how they lay
      results out (True), or only for those that do not (False).
    made_if_refused: the attempt is only for backends that refused the one
      before.
    instead: what it stands for, where that is not the official wheel's way.
    note_of: what the record says of an outcome that is used.
    asks: what the attempt is to find out for the next, which is the program's
      own; empty where it is that itself.
    form: how the program says its shardings, where that is not the HLO way.
    is_untupled: whether parameters that came as one tuple are its parameters.
  """
  program: bytes
  partitioner: Partitioner
  shardings: ShardingCounts = ShardingCounts()
  tensors: tuple[TensorRecord, ...] = ()
  promise: Optional[Promise] = None
  program_format: Optional[str] = None
  read: Reader = compiled_program.read
  answer: Callable[[Outcome], Optional[tuple[bytes, str]]] = as_read
  made_if_told: Optional[bool] = None
  made_if_refused: bool = False
  instead: str = ''
  note_of: Callable[[Outcome], str] = lambda outcome: ''
  asks: str = ''
  form: str = ''
  is_untupled: bool = False

  def run(self, compilation: Compilation) -> Outcome:
    """Has the backend compile it; what it refuses is an outcome, too.

    Raises:
      ValueError: the compilation's options are damaged.
    """
    options = compile_options.with_partitioner(compilation.options,
                                               self.partitioner)
    if self.is_untupled:
      options = compile_options.with_flat_parameters(options)
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
    memory, never_tells, unreadable = compilation.memory(), False, ''
    try:
      answer, answer_format = compilation.compiled_program()
      compiled = self.read(answer, answer_format, self._sources())
    except (BackendCompileError, ValueError) as e:
      logger.debug('the compiled program cannot be read: %s', e)
      never_tells = getattr(e, 'code', None) == _UNIMPLEMENTED
      if not isinstance(e, BackendCompileError):
        unreadable = str(e)
    return Outcome(options, seconds, None, compiled, answer, answer_format,
                   never_tells, unreadable, memory)

  def _sources(self) -> frozenset[compiled_program.Source]:
    """The instructions that a compiled program can be asked for by name."""
    if self.partitioner is not Partitioner.SHARDY:
      return frozenset()
    return frozenset(tensor.source for tensor in self.tensors)
