"""The origin of a collective, in words: the operation and its weights."""

from __future__ import annotations

from collections.abc import Mapping
import re
import zlib

from ..hlo import messages
from ..hlo.protos import HloInstructionProto, HloModuleProto
from ..operation_names import origin_of
from .record import ProgramRecord

# An instruction's number changes with any other instruction.
_NUMBER = re.compile(r'[._]\d+$')
_UNKNOWN = 'a source that metadata do not tell'
# How many named weights of an operation are told.
_MOST = 2


def causes(record: ProgramRecord) -> dict[str, str]:
  """The words for the sources of the record's collectives, by op_name.

  'addmm of up': the operation of a module, where a tool runs, or else
  'dot of up.weight': the opcode of the instruction in the program as it was
  sent, and the nearest arguments with a name that it is computed from.
  """
  op_names = {
      source for collective in record.collectives or ()
      for source, _, _ in collective.sources
  }
  words = {
      name: origin_of(_NUMBER.sub('', name)) or _UNKNOWN for name in op_names
  }
  if record.packed is None or not op_names.difference(('',)):
    return words
  try:
    module = messages.parse(HloModuleProto, zlib.decompress(record.packed))
  except ValueError:  # In StableHLO.
    return words
  names = {
      t.parameter: t.name
      for t in record.tensors
      if t.parameter is not None and t.name
  }
  for computation in module.computations:
    by_id = {
        instruction.id: instruction for instruction in computation.instructions
    }
    is_entry = computation.id == module.entry_computation_id
    for instruction in computation.instructions:
      if instruction.name in op_names:
        near = _nearest(instruction, by_id, names if is_entry else {})
        words[instruction.name] = instruction.opcode + (f' of {", ".join(near)}'
                                                        if near else '')
  return words


def _nearest(i: HloInstructionProto, by_id: Mapping[int, HloInstructionProto],
             names: Mapping[int, str]) -> list[str]:
  """The named arguments that the fewest operations stand before."""
  level, visited, arguments = [i], {i.id}, dict[str, None]()
  while level and not arguments:
    above = [
        by_id[i]
        for each in level
        for i in each.operand_ids
        if i in by_id and i not in visited
    ]
    visited |= {each.id for each in above}
    arguments = {
        names[each.parameter_number]: None
        for each in above
        if each.opcode == 'parameter' and each.parameter_number in names
    }
    level = above
  return list(arguments)[:_MOST]
