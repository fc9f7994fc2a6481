"""What the door calls for each program when Shardy is to partition.

Shardy's result is used only where it keeps every promise that torch_xla relies
on: each parameter is laid out as it is stored, each constrained result as it
was asked for. Otherwise GSPMD compiles the same program again, in V2, as the
official wheel would; the record says why, and so does one warning.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Optional

from . import array_shape, binding, calls, compile_options, compiler, factoring
from . import proto, records, sdy, sdy_lower
from .compile_options import Partitioner
from .compiled import CompiledProgram
from .door import Compilation

logger = logging.getLogger(__name__)

_warned: set[str] = set()
_NOT_ANNOTATED = 'no annotated tensor in it: GSPMD partitions'


def compile_program(compilation: Compilation) -> None:
  """Hands `compilation` on to the backend and files its record.

  Raises:
    BackendCompileError: the backend refused the program, GSPMD's too.
    ValueError: the program, its options or its annotations are damaged.
  """
  if compilation.format != 'hlo':
    compiler.hand_through(compilation)
    return
  module = proto.parse('HloModuleProto', compilation.program)
  taken = calls.take(module)
  gspmd = compiler.lowered_module(module)
  options = compile_options.read(compilation.options)
  if options.partitioner is Partitioner.NONE or options.num_partitions == 1:
    compiler.finish(compilation, gspmd)
    return
  if not taken.found:
    compiler.finish(compilation, gspmd, note=_NOT_ANNOTATED)
    return
  names = _names(taken)
  seconds = 0.0
  try:
    lowering = sdy_lower.lower(module, taken, options.num_partitions)
  except (factoring.InexpressibleError, sdy.SdyError) as e:
    reason = f'Shardy cannot be told of {e}'
    tensors = _annotated(module, taken, names)
  else:
    tensors = tuple(_record(tensor, names) for tensor in lowering.tensors)
    lowered = gspmd._replace(program=module.SerializeToString())
    sources = frozenset(tensor.source for tensor in lowering.tensors)
    attempt = compiler.Attempt(compilation, lowered, Partitioner.SHARDY,
                               sources)
    attempt.run()
    reason = _broken_promise(attempt, lowering)
    if reason is None:
      attempt.file('', tensors, 0.0)
      return
    seconds = attempt.seconds
  note = f'{reason}: GSPMD partitions'
  _warn(note)
  compiler.finish(
      compilation, gspmd, note=note, tensors=tensors, seconds=seconds)


def lower_program(program: bytes, num_devices: int) -> bytes:
  """The program that `compile_program` would hand on first.

  Raises:
    ValueError: the program or its annotations are damaged.
  """
  module = proto.parse('HloModuleProto', program)
  taken = calls.take(module)
  lowered = compiler.lowered_module(module).program
  if not taken.found or num_devices == 1:
    return lowered
  try:
    sdy_lower.lower(module, taken, num_devices)
  except (factoring.InexpressibleError, sdy.SdyError):
    return lowered
  return module.SerializeToString()


def _broken_promise(attempt: compiler.Attempt,
                    lowering: sdy_lower.Lowering) -> Optional[str]:
  """Why Shardy's program cannot be used; None if it can."""
  if attempt.error is not None:
    return f'the backend refused the program for Shardy ({attempt.error})'
  made: Optional[CompiledProgram] = attempt.compiled
  if made is None:
    return 'the backend does not tell how it laid out the parameters'
  parameters = [t for t in lowering.tensors if t.parameter is not None]
  if parameters:
    if made.parameters is None or len(made.parameters) != len(parameters):
      return 'the backend does not tell how it laid out the parameters'
    for tensor, sharding in zip(parameters, made.parameters):
      if sharding != tensor.placement:
        return (f'parameter {tensor.parameter}, {tensor.shape}, is stored as '
                f'{tensor.placement} and Shardy takes it as {sharding}')
  for place, placement in lowering.results.items():
    if made.results is None or place >= len(made.results):
      return 'the backend does not tell how it lays out the results'
    if made.results[place] != placement:
      return (f'result {place} is to be laid out as {placement} and Shardy '
              f'gives {made.results[place]}')
  return None


def _names(taken: calls.Taken) -> dict[Optional[int], str]:
  """The users' names of parameters: bindings list them in the same order."""
  names = binding.binding_names()
  if len(names) != len(taken.operands):
    return {}
  return dict(zip(taken.operands, names))


def _record(tensor: sdy_lower.Tensor, names: dict[Optional[int],
                                                  str]) -> records.TensorRecord:
  said = tensor.annotation
  return records.TensorRecord(
      parameter=tensor.parameter,
      instruction=tensor.instruction,
      shape=tensor.shape,
      spec=None if said is None else said.spec_text,
      priority=None if said is None else said.priority,
      sdy=tensor.sdy,
      placement=str(tensor.placement),
      source=tensor.source,
      name=names.get(tensor.parameter, ''))


def _annotated(
    module: Any, taken: calls.Taken,
    names: dict[Optional[int], str]) -> tuple[records.TensorRecord, ...]:
  """What was said of a program's tensors, where Shardy is told nothing."""
  found = []
  for computation in module.computations:
    for i in computation.instructions:
      if (i.opcode == 'parameter' and
          computation.id == module.entry_computation_id):
        parameter, said = i.parameter_number, taken.parameters.get(
            i.parameter_number)
      else:
        parameter, said = None, taken.constraints.get((computation.id, i.id))
      if said is not None and not array_shape.is_tuple(i.shape):
        found.append(
            sdy_lower.Tensor(
                parameter=parameter,
                instruction=i.name,
                shape=array_shape.arrays_of(i.shape)[0],
                placement=said.sharding,
                annotation=said,
                sdy='',
                source=(i.name, i.opcode)))
  return tuple(_record(tensor, names) for tensor in found)


def _warn(note: str) -> None:
  """Says it, once for all programs that differ in numbers alone."""
  kind = re.sub(r'\{.*?\}|\[.*?\]|\d+', '', note)
  if kind not in _warned:
    _warned.add(kind)
    logger.warning(
        '%s. Programs like this one run as in the official wheel; '
        'torch_xla.shardy.programs() has them all.', note)
