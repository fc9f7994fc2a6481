"""Gives scatters indices of 32 bits: HloModuleProto, in place.

XLA's partitioner pads indices that it splits unevenly with a -1 of type s32,
whatever their type is, and ends the process where that is another
(`SpmdPartitioningVisitor::HandleScatter`, spmd_partitioner_util.h, "Check
failed: ShapeUtil::IsScalarWithElementType"). torch's indices have 64 bits.

    before   y = f32[16,4] scatter(x, i, u), i = s64[3,1]
    after    j = s32[3,1] convert(minimum(maximum(i, -1), 2147483647))
             y = f32[16,4] scatter(x, j, u)

An index that is in bounds stays what it is, and one that is not, which a
scatter leaves out, stays out of them. Indices that are put together of parts
are so still: `rewrite.index_dims` looks at these. torch_xla narrows the indices of
gathers itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from ..hlo import array_shape, messages
from ..hlo.array_shape import ArrayShape
from ..hlo.editor import Editor, instructions_of, put_before
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto, LiteralProto)

_TYPE = 's32'
MOST = 2**31 - 1
# The least index to tell from others, of the types that hold more than s32.
LEAST = {'s64': -1, 'u32': 0, 'u64': 0}


def narrow(module: HloModuleProto) -> int:
  """Converts the indices of scatters to s32, in place.

  Returns:
    Of how many.
  """
  if not any(i.opcode == 'scatter' for i in instructions_of(module)):
    return 0
  editor = Editor(module)
  return sum(_narrow_in(c, editor) for c in module.computations)


def _is_to_be_narrowed(operand: ArrayShape, indices: ArrayShape) -> bool:
  """Tests whether indices are of another type and fit the operand's."""
  return indices.dtype != _TYPE and max(operand.dims, default=0) <= MOST


def _narrow_in(computation: HloComputationProto, editor: Editor) -> int:
  by_id = {i.id: i for i in computation.instructions}

  def narrowed(
      instruction: HloInstructionProto) -> Optional[list[HloInstructionProto]]:
    if instruction.opcode != 'scatter':
      return None
    # Operands, indices, updates; as many of the last as of the first.
    place = len(instruction.operand_ids) // 2
    indices = by_id[instruction.operand_ids[place]]
    operand = by_id[instruction.operand_ids[0]]
    if not _is_to_be_narrowed(*array_shape.arrays_of(operand.shape),
                              *array_shape.arrays_of(indices.shape)):
      return None
    added = _narrowed(indices, by_id, computation, editor)
    instruction.operand_ids[place] = added[-1].id
    return added

  return put_before(computation, narrowed)


def _narrowed(indices: HloInstructionProto, by_id: Mapping[int,
                                                           HloInstructionProto],
              computation: HloComputationProto,
              editor: Editor) -> list[HloInstructionProto]:
  """The instructions that make indices of 32 bits, these last."""
  wide, = array_shape.arrays_of(indices.shape)
  shape = array_shape.with_type(indices.shape, _TYPE)
  parts = []
  if indices.opcode == 'concatenate':
    parts = [
        _narrowed(by_id[n], by_id, computation, editor)
        for n in indices.operand_ids
    ]
  if parts or (indices.opcode == 'iota' and wide.dtype in LEAST):
    narrow = editor.copied(computation, indices, [p[-1].id for p in parts])
    narrow.shape = shape
    return [i for part in parts for i in part] + [narrow]
  added = []
  if wide.dtype in LEAST:
    added = _clamped(indices, LEAST[wide.dtype], computation, editor)
    indices = added[-1]
  return [*added, editor.make(computation, 'convert', shape, [indices.id])]


def _clamped(indices: HloInstructionProto, least: int,
             computation: HloComputationProto,
             editor: Editor) -> list[HloInstructionProto]:
  """Clamps indices by full arrays: XLA moves reshapes past a scalar's clamp."""
  integer = array_shape.with_type(
      array_shape.with_dims(indices.shape, ()), _TYPE)
  instructions = []
  for opcode, number in (('maximum', least), ('minimum', MOST)):
    literal = messages.make(LiteralProto, shape=integer, s32s=[number])
    constant = editor.make(computation, 'constant', integer, literal=literal)
    scalar = editor.make(computation, 'convert',
                         array_shape.with_dims(indices.shape, ()),
                         [constant.id])
    bound = editor.make(computation, 'broadcast', indices.shape, [scalar.id])
    indices = editor.make(computation, opcode, indices.shape,
                          [indices.id, bound.id])
    instructions += [constant, scalar, bound, indices]
  return instructions
