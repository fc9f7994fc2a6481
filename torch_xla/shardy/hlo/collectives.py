"""The collectives that instructions of a compiled program start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from . import array_shape
from .protos import HloComputationProto, HloInstructionProto

KINDS = ('all-gather', 'all-reduce', 'all-to-all', 'collective-broadcast',
         'collective-permute', 'ragged-all-to-all', 'reduce-scatter')

# libtpu cuts a collective into steps and fuses each with what is computed
# meanwhile. All of a chain carry the same number and a copy of the collective;
# the first hands it to this call.
_CHAIN = 'chain_id'
_CHAIN_START = 'AsyncCollectiveStart'
# An array is the same array after these.
_SAME = ('bitcast', 'get-tuple-element')


class Started(NamedTuple):
  """A collective that an instruction starts.

  Attributes:
    kind: one of `KINDS`: what is moved, in whatever way it is written.
    instruction: the collective or its start, an HloInstructionProto.
    nbytes: the larger of what one device gives and gets.
  """
  kind: str
  instruction: HloInstructionProto
  nbytes: int


def started_in(computation: HloComputationProto) -> Iterator[Started]:
  """The collectives in a computation, those in its fusions not among them.

  An end is no collective, and of one that is cut into steps only the first is.

  Args:
    computation: an HloComputationProto, which may be of a fusion.
  """
  shapes: dict[int, bytes] = {}
  for instruction in computation.instructions:
    shapes[instruction.id] = instruction.shape
    kind = kind_of(instruction)
    if kind not in KINDS or _is_further_step(instruction, computation):
      continue
    if kind == 'all-reduce' and _is_scattered(instruction, computation):
      kind = 'reduce-scatter'
    yield Started(kind, instruction, _moved_bytes(instruction, kind, shapes))


def kind_of(instruction: HloInstructionProto) -> str:
  """The opcode of what an instruction does or starts."""
  return instruction.opcode.removesuffix('-start')


def _is_further_step(collective: HloInstructionProto,
                     computation: HloComputationProto) -> bool:
  attributes = collective.frontend_attributes.map
  return any(a.key == _CHAIN for a in attributes) and not any(
      user.custom_call_target == _CHAIN_START and
      collective.id in user.operand_ids for user in computation.instructions)


def _is_scattered(reduction: HloInstructionProto,
                  computation: HloComputationProto) -> bool:
  """Tests whether each device keeps only its slice of the reduced value.

  libtpu writes a reduce-scatter as a fusion of an all-reduce and of the slice
  that a device takes, and never makes the whole.
  """
  if not computation.is_fusion_computation:
    return False
  same, user_opcodes = {reduction.id}, set()
  for instruction in computation.instructions:
    if same.intersection(instruction.operand_ids):
      if instruction.opcode in _SAME:
        same.add(instruction.id)
      else:
        user_opcodes.add(instruction.opcode)
  return user_opcodes == {'dynamic-slice'}


def _moved_bytes(collective: HloInstructionProto, kind: str,
                 shapes: Mapping[int, bytes]) -> int:
  operands = sum(
      array_shape.nbytes_of(shapes[i]) for i in collective.operand_ids)
  results = array_shape.nbytes_of(collective.shape)
  if collective.opcode == 'all-gather-start':
    results -= operands  # It gives its operands back beside the results.
  elif kind == 'collective-permute':
    results = operands  # A start of it gives semaphores, too.
  return max(operands, results)
