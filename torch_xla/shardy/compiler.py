"""What the door calls for each program: lower, have it compiled, record."""

import logging
import time
from typing import Any, Optional

from . import compile_options, compiled, lower, proto, records
from .compile_options import Partitioner
from .door import Compilation
from .errors import BackendCompileError

logger = logging.getLogger(__name__)

# Said of programs in a format that is not lowered.
_MLIR_NOTE = 'StableHLO is handed on unchanged'


def compile_program(compilation: Compilation) -> None:
  """Hands `compilation` on to the backend, in V2, and files its record.

  Raises:
    BackendCompileError: the backend refused the program.
    ValueError: the program or its options are damaged.
  """
  if compilation.format == 'hlo':
    finish(compilation, lower.lower(compilation.program))
  else:
    hand_through(compilation)


def hand_through(compilation: Compilation) -> None:
  """`compile_program` for a format that is not lowered."""
  finish(
      compilation,
      lower.Lowered(compilation.program, '', lower.LoweringReport()),
      note=_MLIR_NOTE)


def finish(compilation: Compilation,
           lowered: lower.Lowered,
           *,
           note: str = '',
           tensors: tuple[records.TensorRecord, ...] = (),
           seconds: float = 0.0) -> None:
  """Has GSPMD partition `lowered`, or nobody if that is what was asked for.

  Args:
    note: why the program is handed on other than asked.
    tensors: what is known of its tensors.
    seconds: what was spent on it before.

  Raises:
    BackendCompileError: the backend refused the program.
  """
  attempt = Attempt(compilation, lowered, Partitioner.GSPMD)
  attempt.run()
  attempt.file(note, tensors, seconds)
  if attempt.error is not None:
    raise attempt.error


class Attempt:
  """One compile of a lowered program.

  Attributes:
    seconds: what the backend took.
    error: what it refused the program with, if it did.
    compiled: what it made, where it tells.
  """

  def __init__(self,
               compilation: Compilation,
               lowered: lower.Lowered,
               partitioner: Partitioner,
               sources: frozenset[compiled.Source] = frozenset()):
    self._compilation = compilation
    self._lowered = lowered
    self._sources = sources
    self._options = compile_options.with_partitioner(compilation.options,
                                                     partitioner)
    self.seconds = 0.0
    self.error: Optional[BackendCompileError] = None
    self.compiled: Optional[compiled.CompiledProgram] = None

  def run(self) -> None:
    start = time.perf_counter()
    try:
      self._compilation.compile(self._lowered.program, self._options)
    except BackendCompileError as e:
      self.error = e
    self.seconds = time.perf_counter() - start
    if self.error is None:
      try:
        self.compiled = compiled.read(*self._compilation.compiled_program(),
                                      self._sources)
      except (BackendCompileError, ValueError) as e:
        logger.debug('the compiled program cannot be read: %s', e)

  def file(self, note: str, tensors: tuple[records.TensorRecord, ...],
           seconds: float) -> None:
    records.add(
        records.ProgramRecord(
            name=self._lowered.name,
            format=self._compilation.format,
            options=compile_options.read(self._options),
            seconds=seconds + self.seconds,
            shardings=self._lowered.report,
            tensors=records.with_compiled(tensors, self.compiled),
            collectives=self.compiled.collectives if self.compiled else None,
            note=note,
            error=None if self.error is None else str(self.error),
            sent=self._compilation.program,
            handed_on=self._lowered.program,
            options_sent=self._compilation.options,
            options_handed_on=self._options))


def lowered_module(module: Any) -> lower.Lowered:
  """An HloModuleProto message lowered to V2, in place, and serialised."""
  _, report = lower.lower_module(module)
  return lower.Lowered(module.SerializeToString(), module.name, report)
