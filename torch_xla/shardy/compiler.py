"""What the door calls for each program: lower, have it compiled, record."""

import time

from . import compile_options, lower, records
from .door import Compilation
from .errors import BackendCompileError
from .mode import Mode

# Said of every program that the mode does not reach yet.
_MLIR_NOTE = 'StableHLO is handed on unchanged'
_SHARDY_NOTE = 'lowering to Shardy is not built yet: GSPMD partitions'


def compile_program(compilation: Compilation, mode: Mode) -> None:
  """Hands `compilation` on to the backend, lowered, and files its record.

  Raises:
    BackendCompileError: the backend refused the program.
    ValueError: the program or its options are damaged.
  """
  if compilation.format == 'hlo':
    lowered = lower.lower(compilation.program)
  else:
    lowered = lower.Lowered(compilation.program, '', lower.LoweringReport())
  options = compile_options.with_partitioner(compilation.options,
                                             compile_options.Partitioner.GSPMD)
  read = compile_options.read(options)
  note = ''
  if compilation.format != 'hlo':
    note = _MLIR_NOTE
  elif (mode is Mode.SHARDY and
        read.partitioner is not compile_options.Partitioner.NONE):
    note = _SHARDY_NOTE
  error = None
  start = time.perf_counter()
  try:
    compilation.compile(lowered.program, options)
  except BackendCompileError as e:
    error = str(e)
    raise
  finally:
    records.add(
        records.ProgramRecord(
            name=lowered.name,
            format=compilation.format,
            options=read,
            seconds=time.perf_counter() - start,
            shardings=lowered.report,
            note=note,
            error=error,
            sent=compilation.program,
            handed_on=lowered.program,
            options_sent=compilation.options,
            options_handed_on=options))
