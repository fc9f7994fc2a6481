"""Gives scatters indices that XLA can partition: HloModuleProto, in place.

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

Where the mesh has an axis more than those that indices or updates are split
over, the partitioner pads with 0 instead, and scatters this padding, as does
Shardy. So what may be split unevenly stays whole, but windows of updates:

    before   y = f32[16,4] scatter(x, j, u), j = s32[3,1]
    after    k = s32[3,1] custom-call(j), target="Sharding", sharding={replicated}
             v = f32[3,4] custom-call(u), target="Sharding", ..
             y = f32[16,4] scatter(x, k, v)

A scatter of one index XLA makes a slice, a choice and an update of, and where
a device has another part of `x`, its simplifier merges that slice with the one
that took the part: another row is written (seed 8167 of the fuzz). One of two
indices is a loop, which it leaves alone; -1 is out of bounds:

    before   y = f32[16,4] scatter(x, j, u), j = s32[1,1]
    after    k = s32[2,1] concatenate(j, -1), v = f32[2,4] concatenate(u, u)
             y = f32[16,4] scatter(x, k, v)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import math
from typing import Optional

from ..hlo import array_shape, op_sharding
from ..hlo.array_shape import ArrayShape
from ..hlo.editor import dims_of, Editor, instructions_of, Place, rewrite
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sharding.partition_spec import uneven_dims
from . import holding

_OPCODES = ('scatter',)
_TYPE = 's32'
MOST = 2**31 - 1
# The least index to tell from others, of the types that hold more than s32.
LEAST = {'s64': -1, 'u32': 0, 'u64': 0}


def narrow(module: HloModuleProto) -> int:
  """Converts the indices of scatters to s32, in place.

  Returns:
    Of how many.
  """
  return rewrite(module, _OPCODES, _narrow)


def pair_single(module: HloModuleProto) -> int:
  """Gives scatters of one index a second, out of bounds, in place.

  Returns:
    To how many.
  """
  return rewrite(module, _OPCODES, _pair)


def keep_whole(module: HloModuleProto) -> int:
  """Holds whole what is scattered and may be split unevenly, in place.

  Returns:
    Of how many scatters; none where there is a manual region.
  """
  if not any(i.opcode in _OPCODES
             for i in instructions_of(module)) or holding.has_manual(
                 op_sharding.module_shardings(module)):
    return 0
  is_uneven = _unevenness(module)
  return rewrite(module, _OPCODES, lambda scatter: _hold(scatter, is_uneven))


def _parts(
    scatter: Place
) -> tuple[int, HloInstructionProto, list[HloInstructionProto]]:
  """The place of a scatter's indices, these, and the updates."""
  operands = scatter.operands
  # Operands, indices, updates; as many of the last as of the first.
  place = len(operands) // 2
  return place, operands[place], operands[place + 1:]


def _unevenness(module: HloModuleProto) -> Callable[[int], bool]:
  """A test of a size for tiles of a program that do not divide it.

  Nobody splits a dimension of size 1 but who placed it so.
  """
  counts: set[int] = set()
  placed: set[int] = set()
  leaves = {
      data: op_sharding.elements(data)[0] for data in
      {i.sharding for i in instructions_of(module) if i.HasField('sharding')}
  }
  for instruction in instructions_of(module):
    leaf = leaves.get(instruction.sharding)
    if leaf is None or leaf.tiles is None or array_shape.is_tuple(
        instruction.shape):
      continue
    dims = dims_of(instruction)
    tiles = leaf.tiles.dims[:len(dims)]
    counts.update(tiles, [math.prod(tiles)])
    placed.update(dims[n] for n, _ in uneven_dims(dims, tiles))

  def is_uneven(size: int) -> bool:
    return size in placed or size > 1 and any(size % n for n in counts)

  return is_uneven


def _hold(
    scatter: Place,
    is_uneven: Callable[[int], bool]) -> Optional[list[HloInstructionProto]]:
  instruction, _, computation, editor = scatter
  place, indices, updates = _parts(scatter)
  numbers = instruction.scatter_dimension_numbers
  sizes = dims_of(indices)
  if not any(
      is_uneven(size)
      for n, size in enumerate(sizes)
      if n != numbers.index_vector_dim):
    return None
  calls = [holding.hold(computation, editor, indices, range(len(sizes)))]
  for update in updates:
    whole = [
        dim for dim, size in enumerate(dims_of(update))
        if is_uneven(size) and dim not in numbers.update_window_dims
    ]
    calls.append(holding.hold(computation, editor, update, whole))
  instruction.operand_ids[place:] = [call.id for call in calls]
  return calls


def _pair(scatter: Place) -> Optional[list[HloInstructionProto]]:
  instruction, _, computation, editor = scatter
  place, indices, updates = _parts(scatter)
  numbers = instruction.scatter_dimension_numbers
  array, = array_shape.arrays_of(indices.shape)
  dims = [n for n in range(len(array.dims)) if n != numbers.index_vector_dim]
  if array.dtype != _TYPE or not dims or numbers.input_batching_dims or any(
      array.dims[n] != 1 for n in dims):
    return None
  scalar = editor.integer(computation, indices.shape, -1)
  outside = editor.make(computation, 'broadcast', indices.shape, [scalar.id])

  def pair(value: HloInstructionProto, other: HloInstructionProto,
           dim: int) -> HloInstructionProto:
    sizes = list(dims_of(value))
    sizes[dim] = 2
    return editor.make(
        computation,
        'concatenate',
        array_shape.with_dims(value.shape, tuple(sizes)), [value.id, other.id],
        dimensions=[dim])

  pairs = [pair(indices, outside, dims[0])] + [
      pair(
          update, update,
          next(
              d
              for d in range(len(dims_of(update)))
              if d not in numbers.update_window_dims))
      for update in updates
  ]
  instruction.operand_ids[place:] = [p.id for p in pairs]
  instruction.indices_are_sorted = False
  return [scalar, outside, *pairs]


def _is_to_be_narrowed(operand: ArrayShape, indices: ArrayShape) -> bool:
  """Tests whether indices are of another type and fit the operand's."""
  return indices.dtype != _TYPE and max(operand.dims, default=0) <= MOST


def _narrow(scatter: Place) -> Optional[list[HloInstructionProto]]:
  place, indices, _ = _parts(scatter)
  if not _is_to_be_narrowed(*array_shape.arrays_of(scatter.operands[0].shape),
                            *array_shape.arrays_of(indices.shape)):
    return None
  added = _narrowed(indices, scatter.by_id, scatter.computation, scatter.editor)
  scatter.instruction.operand_ids[place] = added[-1].id
  return added


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
  instructions = []
  for opcode, number in (('maximum', least), ('minimum', MOST)):
    constant = editor.integer(computation, indices.shape, number)
    scalar = editor.make(computation, 'convert',
                         array_shape.with_dims(indices.shape, ()),
                         [constant.id])
    bound = editor.make(computation, 'broadcast', indices.shape, [scalar.id])
    indices = editor.make(computation, opcode, indices.shape,
                          [indices.id, bound.id])
    instructions += [constant, scalar, bound, indices]
  return instructions
