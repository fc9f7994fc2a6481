"""What a collective comes from, in words: the operation and its weights."""

from __future__ import annotations

from collections.abc import Mapping
import re
import zlib

from ..hlo import messages
from ..hlo.protos import HloInstructionProto, HloModuleProto
from .record import ProgramRecord

# An instruction's number changes with any other instruction.
_NUMBER = re.compile(r'[._]\d+$')
_UNKNOWN = 'a source that metadata do not tell'
# Of an operation: as many weights as it may be of.
_MOST = 2


def causes(record: ProgramRecord) -> dict[str, str]:
  """The words for the sources of the record's collectives, by op_name.

  'dot of up.weight': the opcode of the instruction in the program as it was
  sent, and the nearest arguments with a name that it is computed from.
  """
  wanted = {
      source for made in record.collectives or ()
      for source, _, _ in made.sources
  }
  found = {name: _NUMBER.sub('', name) or _UNKNOWN for name in wanted}
  if record.packed is None or not wanted.difference(('',)):
    return found
  try:
    module = messages.parse(HloModuleProto, zlib.decompress(record.packed))
  except ValueError:  # In StableHLO.
    return found
  names = {
      t.parameter: t.name
      for t in record.tensors
      if t.parameter is not None and t.name
  }
  for computation in module.computations:
    by_id = {one.id: one for one in computation.instructions}
    is_entry = computation.id == module.entry_computation_id
    for one in computation.instructions:
      if one.name in wanted:
        near = _nearest(one, by_id, names if is_entry else {})
        found[one.name] = one.opcode + (f' of {", ".join(near)}'
                                        if near else '')
  return found


def _nearest(one: HloInstructionProto, by_id: Mapping[int, HloInstructionProto],
             names: Mapping[int, str]) -> list[str]:
  """The named arguments that the fewest operations stand before."""
  level, seen, found = [one], {one.id}, dict[str, None]()
  while level and not found:
    above = [
        by_id[i]
        for each in level
        for i in each.operand_ids
        if i in by_id and i not in seen
    ]
    seen |= {each.id for each in above}
    found = {
        names[each.parameter_number]: None
        for each in above
        if each.opcode == 'parameter' and each.parameter_number in names
    }
    level = above
  return list(found)[:_MOST]
