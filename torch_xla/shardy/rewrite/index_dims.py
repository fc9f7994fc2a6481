"""Says of a gather or scatter which dimensions it goes along: HLO, in place.

torch's `gather` and `scatter` index one dimension and go along with the others.
torch_xla indexes all, these by their own numbers, and no sharding of them gets
past that. XLA has a form for it, which partitioners know:

    before   n = s64[16,8,1] iota(), iota_dimension=0
             j = s64[16,8,2] concatenate(n, i), dimensions={2}
             y = f32[16,8] gather(x, j), collapsed_slice_dims={0,1},
                 start_index_map={0,1}, index_vector_dim=2
    after    y = f32[16,8] gather(x, i), collapsed_slice_dims={1},
                 start_index_map={1}, index_vector_dim=2,
                 operand_batching_dims={0}, start_indices_batching_dims={0}

An `iota` never leaves the operand, so what is looked up is the same. That takes
a dimension that operand and indices have in the same size. Indices that
`v2.scatter_indices` holds whole are so still.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from ..hlo import array_shape
from ..hlo.editor import dims_of, Place, rewrite
from ..hlo.protos import HloInstructionProto, HloModuleProto


class IndexDims(NamedTuple):
  """The index dimensions of a gather or a scatter, in a gather's terms.

  Attributes:
    collapsed: of the operand; `inserted_window_dims` of a scatter.
    index_map: the operand's dimension that each part of an index is of.
    operand_batching: dimensions that are gone along with, rising.
    indices_batching: the same of the indices.
  """
  collapsed: tuple[int, ...]
  index_map: tuple[int, ...]
  vector_dim: int
  operand_batching: tuple[int, ...] = ()
  indices_batching: tuple[int, ...] = ()


def batched(dims: IndexDims, counted: Sequence[Optional[int]],
            operand: Sequence[int],
            indices: Sequence[int]) -> Optional[tuple[IndexDims, list[int]]]:
  """The dimensions without indices that only count.

  Args:
    counted: for each part of an index the dimension of the indices whose
      numbers it is; None for any other part.
    operand: the dimensions of what is looked up in, or added to.
    indices: of the indices.

  Returns:
    The same in other words, and which parts of an index are left; None if
    nothing is to be said otherwise.
  """
  pairs = [*zip(dims.operand_batching, dims.indices_batching, strict=True)]
  batched_parts = []
  for part, along in enumerate(counted):
    if along is None or along == dims.vector_dim:
      continue
    of_operand = dims.index_map[part]
    if (of_operand in dims.collapsed and
        operand[of_operand] == indices[along] and
        along not in (n for _, n in pairs)):
      pairs.append((of_operand, along))
      batched_parts.append(part)
  other_parts = [
      n for n in range(len(dims.index_map)) if n not in batched_parts
  ]
  if not batched_parts or not other_parts:
    return None
  pairs.sort()
  gone = {dims.index_map[n] for n in batched_parts}
  return IndexDims(
      tuple(n for n in dims.collapsed if n not in gone),
      tuple(dims.index_map[n] for n in other_parts), dims.vector_dim,
      tuple(n for n, _ in pairs), tuple(n for _, n in pairs)), other_parts


# The fields that say what `IndexDims` says, in its order.
_FIELDS = {
    'gather': ('collapsed_slice_dims', 'start_index_map', 'index_vector_dim',
               'operand_batching_dims', 'start_indices_batching_dims'),
    'scatter': ('inserted_window_dims', 'scatter_dims_to_operand_dims',
                'index_vector_dim', 'input_batching_dims',
                'scatter_indices_batching_dims'),
}
_OPERANDS = {'gather': 2, 'scatter': 3}
OPCODES = frozenset(_FIELDS)


def batch(module: HloModuleProto) -> int:
  """Says it of all gathers and scatters of a module, in place.

  Returns:
    Of how many.
  """
  return rewrite(module, OPCODES, _batch_one)


def _batch_one(place: Place) -> Optional[list[HloInstructionProto]]:
  """Changes a gather or scatter; what is new before it, None if it stays."""
  instruction, by_id, computation, editor = place
  opcode = instruction.opcode
  if len(instruction.operand_ids) != _OPERANDS[opcode]:
    return None
  operand, indices = place.operands[:2]
  numbers = getattr(instruction, f'{opcode}_dimension_numbers')
  call = indices if indices.custom_call_target == 'Sharding' else None
  if call:
    indices = by_id[call.operand_ids[0]]
  if (indices.opcode != 'concatenate' or
      array_shape.is_dynamic(operand.shape) or
      array_shape.is_dynamic(indices.shape) or
      list(indices.dimensions) != [numbers.index_vector_dim]):
    return None
  parts = [by_id[n] for n in indices.operand_ids]
  sizes = list(dims_of(indices))
  if len(parts) != sizes[numbers.index_vector_dim]:
    return None
  fields = (getattr(numbers, field) for field in _FIELDS[opcode])
  before: list[Any] = [n if isinstance(n, int) else tuple(n) for n in fields]
  batching = batched(
      IndexDims(*before),
      [part.dimensions[0] if part.opcode == 'iota' else None for part in parts],
      dims_of(operand), sizes)
  if batching is None:
    return None
  dims, other_parts = batching
  new_instructions = []
  if len(other_parts) == 1:
    indices = parts[other_parts[0]]
  else:
    sizes[dims.vector_dim] = len(other_parts)
    indices = editor.make(
        computation,
        'concatenate',
        array_shape.with_dims(indices.shape, tuple(sizes)),
        [parts[n].id for n in other_parts],
        dimensions=[dims.vector_dim])
    new_instructions.append(indices)
  if call:
    held = editor.copied(computation, call, [indices.id])
    held.shape = indices.shape
    new_instructions.append(held)
    indices = held
  instruction.operand_ids[1] = indices.id
  for field, value in zip(_FIELDS[opcode], dims, strict=True):
    if field != 'index_vector_dim':  # That stays.
      getattr(numbers, field)[:] = value
  return new_instructions
