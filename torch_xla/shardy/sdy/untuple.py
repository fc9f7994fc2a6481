"""Takes away the computation that a program of many parameters is wrapped in.

torch_xla hands parameters over as one tuple from
XLA_PARAMETER_WRAPPING_THREADSHOLD (3200) of them on, and Shardy's importer
reads no shardings of tuples:

    before   ENTRY in = (f32[8], f32[4]) parameter(0), sharding={..}
             a = f32[8] get-tuple-element(in), index=0
             b = f32[4] get-tuple-element(in), index=1
             ROOT r = (f32[8]) call(a, b), to_apply=program
    after    ENTRY program

The compile options then must not say that arguments are tupled. In MLIR it is
`stablehlo.wrapper` that does the like.
"""

from __future__ import annotations

from typing import Any

from ..hlo import array_shape, op_sharding
from ..hlo.editor import entry_of
from ..sharding.hlo_sharding import ShardingType
from .mesh_axes import InexpressibleError


def is_tupled(module: Any) -> bool:
  """Whether an HloModuleProto message has one parameter, and that a tuple."""
  entry = entry_of(module)
  parameters = [
      i for i in (entry.instructions if entry else ())
      if i.opcode == 'parameter'
  ]
  return len(parameters) == 1 and array_shape.is_tuple(parameters[0].shape)


def untuple(module: Any) -> None:
  """Makes the computation that a tupled program merely calls its own, in place.

  Raises:
    InexpressibleError: the program does more with the tuple; the module is as
      it was.
  """
  entry = entry_of(module)
  wrapped, program = _wrapped(module, entry)
  for parameter in program.instructions:
    if parameter.opcode == 'parameter' and wrapped:
      parameter.sharding = wrapped[parameter.parameter_number]
  module.entry_computation_id = program.id
  module.host_program_shape.CopyFrom(program.program_shape)
  kept = [
      type(c).FromString(c.SerializeToString())
      for c in module.computations
      if c.id != entry.id
  ]
  del module.computations[:]
  module.computations.extend(kept)
  for entries in (module.buffer_donor.entries,
                  module.input_output_alias.entries):
    for one in entries:
      one.parameter_number, = one.parameter_shape_index
      one.parameter_shape_index[:] = []


def _wrapped(module: Any, entry: Any) -> tuple[list[bytes], Any]:
  """The parameters' shardings, none if nothing is said, and what is called."""
  by_id = {i.id: i for i in entry.instructions}
  call = by_id[entry.root_id]
  given, = (i for i in entry.instructions if i.opcode == 'parameter')
  elements = [by_id[operand] for operand in call.operand_ids]
  called = [
      c for c in module.computations if c.id in call.called_computation_ids
  ]
  if (call.opcode != 'call' or len(called) != 1 or
      len(by_id) != len(elements) + 2 or
      any(i.opcode != 'get-tuple-element' or i.tuple_index != place
          for place, i in enumerate(elements)) or
      sum(1 for i in called[0].instructions if i.opcode == 'parameter') != len(
          array_shape.arrays_of(given.shape)) or
      sum(called[0].id in i.called_computation_ids
          for c in module.computations
          for i in c.instructions) != 1):
    raise InexpressibleError(
        'parameters that are handed over as one tuple, of which the program '
        'does more than call a computation with them')
  return _leaves(given, len(elements)), called[0]


def _leaves(parameter: Any, count: int) -> list[bytes]:
  """The sharding of each element; none if the tuple has none."""
  if not parameter.HasField('sharding'):
    return []
  message = op_sharding.parse(parameter.sharding)
  if message.type != ShardingType.TUPLE:
    return [parameter.sharding] * count
  if len(message.tuple_shardings) != count:
    raise InexpressibleError(f'{len(message.tuple_shardings)} shardings for '
                             f'{count} parameters')
  return list(message.tuple_shardings)
