"""Takes away the computation that a program of many parameters is wrapped in.

torch_xla hands parameters over as one tuple from
XLA_PARAMETER_WRAPPING_THREADSHOLD (3200) of them on, and Shardy's importer
reads no shardings of tuples:

    before   ENTRY in = (f32[8], f32[4]) parameter(0), sharding={..}
             a = f32[8] get-tuple-element(in), index=0
             b = f32[4] get-tuple-element(in), index=1
             ROOT r = (f32[8]) call(a, b), to_apply=program
    after    ENTRY program

The compile options then must not say that arguments are tupled. In StableHLO
these are the program's own parameters, and a call is left.
"""

from __future__ import annotations

from typing import Optional

from ..hlo import array_shape, op_sharding
from ..hlo.editor import entry_of, instructions_of
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sdy.mesh_axes import InexpressibleError
from ..sharding.hlo_sharding import ShardingType


def is_tupled(module: HloModuleProto) -> bool:
  """Tests whether an HloModuleProto has one parameter, and that a tuple."""
  parameters = [
      i for c in module.computations if c.id == module.entry_computation_id
      for i in c.instructions if i.opcode == 'parameter'
  ]
  return len(parameters) == 1 and array_shape.is_tuple(parameters[0].shape)


def unwrap(module: HloModuleProto) -> None:
  """Makes the computation that a program merely calls its own, in place.

  A program whose parameters come one by one, as those from StableHLO do, may do
  more than that: it is let be then.

  Raises:
    InexpressibleError: a tupled program does more with the tuple; the module is
      as it was.
    ValueError: there is no entry computation.
  """
  entry = entry_of(module)
  parameters = [i for i in entry.instructions if i.opcode == 'parameter']
  if is_tupled(module):
    program = _called(module, entry, 'get-tuple-element',
                      len(array_shape.arrays_of(parameters[0].shape)))
    if program is None:
      raise InexpressibleError(
          'parameters that are handed over as one tuple, of which the program '
          'does more than call a computation with them')
    shardings = _leaves(parameters[0], len(program.program_shape.parameters))
    for entries in (module.buffer_donor.entries,
                    module.input_output_alias.entries):
      for alias in entries:
        alias.parameter_number, = alias.parameter_shape_index
        alias.parameter_shape_index[:] = []
  else:
    program = _called(module, entry, 'parameter', len(parameters))
    if program is None:
      return
    shardings = {
        i.parameter_number: i.sharding
        for i in parameters
        if i.HasField('sharding')
    }
  for parameter in program.instructions:
    if (parameter.opcode == 'parameter' and
        parameter.parameter_number in shardings):
      parameter.sharding = shardings[parameter.parameter_number]
  module.entry_computation_id = program.id
  module.host_program_shape.CopyFrom(program.program_shape)
  module.computations.remove(entry)


def _called(module: HloModuleProto, entry: HloComputationProto, opcode: str,
            count: int) -> Optional[HloComputationProto]:
  """The computation that nobody but the program calls, which does only that.

  Args:
    opcode: of what the call is given: `count` of it, in order.
  """
  by_id = {i.id: i for i in entry.instructions}
  call, other_count = by_id[entry.root_id], 1
  if call.opcode == 'tuple' and call.operand_ids:
    # The call's elements, put together again.
    elements = [by_id[n] for n in call.operand_ids]
    call, other_count = by_id[(*elements[0].operand_ids,
                               call.id)[0]], len(by_id)
    if [(i.opcode, i.tuple_index, list(i.operand_ids)) for i in elements
       ] == [('get-tuple-element', place, [call.id])
             for place in range(len(array_shape.arrays_of(call.shape)))]:
      other_count = 2 + len(elements)
  called = [
      c for c in module.computations if c.id in call.called_computation_ids
  ]
  operands = [by_id[number] for number in call.operand_ids]
  other_count += opcode != 'parameter'  # The tuple.
  # A composite says what it is in attributes.
  if (call.opcode != 'call' or call.frontend_attributes.map or
      len(called) != 1 or len(by_id) != count + other_count or [
          (i.opcode, i.tuple_index or i.parameter_number) for i in operands
      ] != [(opcode, place) for place in range(count)] or
      len(called[0].program_shape.parameters) != count or
      sum(called[0].id in i.called_computation_ids
          for i in instructions_of(module)) != 1):
    return None
  return called[0]


def _leaves(parameter: HloInstructionProto, count: int) -> dict[int, bytes]:
  """The sharding of each element; none if the tuple has none."""
  if not parameter.HasField('sharding'):
    return {}
  message = op_sharding.parse(parameter.sharding)
  if message.type != ShardingType.TUPLE:
    return dict.fromkeys(range(count), parameter.sharding)
  if len(message.tuple_shardings) != count:
    raise InexpressibleError(f'{len(message.tuple_shardings)} shardings for '
                             f'{count} parameters')
  return dict(enumerate(message.tuple_shardings))
