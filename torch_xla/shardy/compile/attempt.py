"""One way to have a program compiled, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import logging
import time
from typing import Optional

from ..door.shim import Compilation
from ..errors import BackendCompileError
from ..hlo import compile_options, compiled_program
from ..hlo.compile_options import Partitioner
from ..hlo.compiled_program import CompiledProgram
from ..lower.to_v2 import ShardingCounts
from .record import TensorRecord

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What the backend made of an attempt.

  Attributes:
    options: serialised CompileOptionsProto, as the backend got it.
    seconds: what it took.
    error: what it refused the program with, if it did.
    compiled: the program that it made, where it tells.
  """
  options: bytes
  seconds: float
  error: Optional[BackendCompileError] = None
  compiled: Optional[CompiledProgram] = None


# Why an outcome cannot be used; None if it can.
Promise = Callable[[Outcome], Optional[str]]


@dataclasses.dataclass(frozen=True)
class Attempt:
  """A program as it is to be handed to the backend.

  Attributes:
    program: serialised.
    partitioner: who is to split it, if torch_xla wants it split at all.
    shardings: how many go out in V2 and in V1, and why.
    tensors: what is known of its tensors.
    promise: what the result must keep to be used; None: it is used as it is.
  """
  program: bytes
  partitioner: Partitioner
  shardings: ShardingCounts = ShardingCounts()
  tensors: tuple[TensorRecord, ...] = ()
  promise: Optional[Promise] = None

  def run(self, compilation: Compilation) -> Outcome:
    """Has the backend compile it; what it refuses is an outcome, too.

    Raises:
      ValueError: the compilation's options are damaged.
    """
    options = compile_options.with_partitioner(compilation.options,
                                               self.partitioner)
    start = time.perf_counter()
    try:
      compilation.compile(self.program, options)
    except BackendCompileError as e:
      return Outcome(options, time.perf_counter() - start, e)
    seconds = time.perf_counter() - start
    try:
      compiled = compiled_program.read(*compilation.compiled_program(),
                                       self._sources())
    except (BackendCompileError, ValueError) as e:
      logger.debug('the compiled program cannot be read: %s', e)
      compiled = None
    return Outcome(options, seconds, None, compiled)

  def _sources(self) -> frozenset[compiled_program.Source]:
    """The instructions that a compiled program can be asked for by name."""
    if self.partitioner is not Partitioner.SHARDY:
      return frozenset()
    return frozenset(tensor.source for tensor in self.tensors)
