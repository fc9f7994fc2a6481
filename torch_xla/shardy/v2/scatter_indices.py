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
from typing import NamedTuple, Optional

from ..hlo import array_shape, messages, op_sharding
from ..hlo.array_shape import ArrayShape
from ..hlo.editor import dims_of, Editor, instructions_of, put_before
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto, LiteralProto)
from ..sharding.partition_spec import uneven_dims
from . import holding

_TYPE = 's32'
MOST = 2**31 - 1
# The least index to tell from others, of the types that hold more than s32.
LEAST = {'s64': -1, 'u32': 0, 'u64': 0}


class _Scatter(NamedTuple):
  """A scatter, and what it takes to put instructions before it.

  Attributes:
    place: of the indices among its operands.
  """
  instruction: HloInstructionProto
  place: int
  by_id: Mapping[int, HloInstructionProto]
  computation: HloComputationProto
  editor: Editor

  @property
  def operands(self) -> list[HloInstructionProto]:
    return [self.by_id[n] for n in self.instruction.operand_ids]

  @property
  def indices(self) -> HloInstructionProto:
    return self.operands[self.place]


# The instructions that come before a scatter, which takes them; None: none.
_Rewrite = Callable[[_Scatter], Optional[list[HloInstructionProto]]]


def narrow(module: HloModuleProto) -> int:
  """Converts the indices of scatters to s32, in place.

  Returns:
    Of how many.
  """
  return _rewrite(module, _narrow)


def pair_single(module: HloModuleProto) -> int:
  """Gives scatters of one index a second, out of bounds, in place.

  Returns:
    To how many.
  """
  return _rewrite(module, _pair)


def keep_whole(module: HloModuleProto) -> int:
  """Holds whole what is scattered and may be split unevenly, in place.

  Returns:
    Of how many scatters; none where there is a manual region.
  """
  if not _has_scatters(module) or holding.has_manual(
      op_sharding.module_shardings(module)):
    return 0
  is_uneven = _unevenness(module)
  return _rewrite(module, lambda scatter: _hold(scatter, is_uneven))


def _has_scatters(module: HloModuleProto) -> bool:
  return any(i.opcode == 'scatter' for i in instructions_of(module))


def _rewrite(module: HloModuleProto, rewrite: _Rewrite) -> int:
  """Rewrites the scatters of all computations; returns how many."""
  if not _has_scatters(module):
    return 0
  editor = Editor(module)

  def rewrite_in(computation: HloComputationProto) -> int:
    by_id = {i.id: i for i in computation.instructions}
    # Operands, indices, updates; as many of the last as of the first.
    return put_before(
        computation, lambda i: rewrite(
            _Scatter(i,
                     len(i.operand_ids) // 2, by_id, computation, editor))
        if i.opcode == 'scatter' else None)

  return sum(map(rewrite_in, module.computations))


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
    scatter: _Scatter,
    is_uneven: Callable[[int], bool]) -> Optional[list[HloInstructionProto]]:
  instruction, place, _, computation, editor = scatter
  numbers = instruction.scatter_dimension_numbers
  sizes = dims_of(scatter.indices)
  if not any(
      is_uneven(size)
      for n, size in enumerate(sizes)
      if n != numbers.index_vector_dim):
    return None
  calls = [
      holding.hold(computation, editor, scatter.indices, range(len(sizes)))
  ]
  for update in scatter.operands[place + 1:]:
    whole = [
        dim for dim, size in enumerate(dims_of(update))
        if is_uneven(size) and dim not in numbers.update_window_dims
    ]
    calls.append(holding.hold(computation, editor, update, whole))
  instruction.operand_ids[place:] = [call.id for call in calls]
  return calls


def _pair(scatter: _Scatter) -> Optional[list[HloInstructionProto]]:
  instruction, place, _, computation, editor = scatter
  numbers = instruction.scatter_dimension_numbers
  indices = scatter.indices
  array, = array_shape.arrays_of(indices.shape)
  dims = [n for n in range(len(array.dims)) if n != numbers.index_vector_dim]
  if array.dtype != _TYPE or not dims or numbers.input_batching_dims or any(
      array.dims[n] != 1 for n in dims):
    return None
  integer = array_shape.with_dims(indices.shape, ())
  literal = messages.make(LiteralProto, shape=integer, s32s=[-1])
  scalar = editor.make(computation, 'constant', integer, literal=literal)
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
      for update in scatter.operands[place + 1:]
  ]
  instruction.operand_ids[place:] = [p.id for p in pairs]
  instruction.indices_are_sorted = False
  return [scalar, outside, *pairs]


def _is_to_be_narrowed(operand: ArrayShape, indices: ArrayShape) -> bool:
  """Tests whether indices are of another type and fit the operand's."""
  return indices.dtype != _TYPE and max(operand.dims, default=0) <= MOST


def _narrow(scatter: _Scatter) -> Optional[list[HloInstructionProto]]:
  indices = scatter.indices
  if not _is_to_be_narrowed(*array_shape.arrays_of(scatter.operands[0].shape),
                            *array_shape.arrays_of(indices.shape)):
    return None
  added = _narrowed(indices, scatter.by_id, scatter.computation, scatter.editor)
  scatter.instruction.operand_ids[scatter.place] = added[-1].id
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
