"""Says of a gather or scatter which dimensions it goes along: MLIR, in place.

    before   %n = stablehlo.iota dim = 0 : tensor<16x8x1xi64>
             %j = stablehlo.concatenate %n, %i, dim = 2
             %y = "stablehlo.gather"(%x, %j) <{dimension_numbers =
                 #stablehlo.gather<collapsed_slice_dims = [0, 1], ..>}>
    after    %y = "stablehlo.gather"(%x, %i) <{dimension_numbers =
                 #stablehlo.gather<collapsed_slice_dims = [1],
                 operand_batching_dims = [0],
                 start_indices_batching_dims = [0], ..>}>

As `sdy.index_dims`, which says why, does it to HLO.
"""

from __future__ import annotations

from typing import Any, Optional

from . import dialects
from .functions import array_of, erase_unused, owner_of
from ..sdy.index_dims import batched, IndexDims

_GATHER, _SCATTER = 'stablehlo.gather', 'stablehlo.scatter'
_NUMBERS = {_GATHER: 'dimension_numbers', _SCATTER: 'scatter_dimension_numbers'}


def batch(module: Any) -> int:
  """Says it of all gathers and scatters of a module, in place.

  Returns:
    Of how many.
  """
  found = [
      o for o in dialects.operations_of(module)
      if (o.name, len(o.operands)) in ((_GATHER, 2), (_SCATTER, 3))
  ]
  with dialects.scope(module):
    count = sum(_batch(operation) for operation in found)
  if count:
    erase_unused(module)
  return count


def _batch(operation: Any) -> bool:
  from jaxlib.mlir import ir
  concatenate = owner_of(operation.operands[1])
  if concatenate is None or concatenate.name != 'stablehlo.concatenate':
    return False
  into, shape = (array_of(v.type) for v in list(operation.operands)[:2])
  dims = _dims_of(operation)
  parts = list(concatenate.operands)
  if (into is None or shape is None or dims is None or
      _integer(concatenate, 'dimension') != dims.vector_dim or
      len(parts) != shape.dims[dims.vector_dim]):
    return False
  found = batched(dims, [_counted(part) for part in parts], into.dims,
                  shape.dims)
  if found is None:
    return False
  dims, left = found
  indices = parts[left[0]]
  if len(left) > 1:
    sizes = list(shape.dims)
    sizes[dims.vector_dim] = len(left)
    element = ir.RankedTensorType(indices.type).element_type
    with ir.InsertionPoint(operation), operation.location:
      indices = ir.Operation.create(
          concatenate.name,
          results=[ir.RankedTensorType.get(sizes, element)],
          operands=[parts[n] for n in left],
          attributes={
              'dimension': concatenate.attributes['dimension']
          }).results[0]
  operation.operands[1] = indices
  operation.attributes[_NUMBERS[operation.name]] = _numbers(operation, dims)
  return True


def _counted(part: Any) -> Optional[int]:
  """The dimension whose numbers a value is; None if it is anything else."""
  owner = owner_of(part)
  if owner is None or owner.name != 'stablehlo.iota':
    return None
  return _integer(owner, 'iota_dimension')


def _integer(operation: Any, name: str) -> int:
  from jaxlib.mlir import ir
  return ir.IntegerAttr(operation.attributes[name]).value


def _dims_of(operation: Any) -> Optional[IndexDims]:
  """None where it goes along some already: the bindings do not read those."""
  from jaxlib.mlir.dialects import stablehlo
  given = operation.attributes[_NUMBERS[operation.name]]
  if 'batching_dims' in str(given):
    return None
  if operation.name == _GATHER:
    numbers = stablehlo.GatherDimensionNumbers(given)
    return IndexDims(
        tuple(numbers.collapsed_slice_dims), tuple(numbers.start_index_map),
        numbers.index_vector_dim)
  numbers = stablehlo.ScatterDimensionNumbers(given)
  return IndexDims(
      tuple(numbers.inserted_window_dims),
      tuple(numbers.scattered_dims_to_operand_dims), numbers.index_vector_dim)


def _numbers(operation: Any, dims: IndexDims) -> Any:
  from jaxlib.mlir.dialects import stablehlo
  given = operation.attributes[_NUMBERS[operation.name]]
  lists = tuple(
      map(list, (dims.collapsed, dims.operand_batching, dims.indices_batching,
                 dims.index_map)))
  if operation.name == _GATHER:
    window = stablehlo.GatherDimensionNumbers(given).offset_dims
    kind = stablehlo.GatherDimensionNumbers
  else:
    window = stablehlo.ScatterDimensionNumbers(given).update_window_dims
    kind = stablehlo.ScatterDimensionNumbers
  return kind.get(list(window), *lists, dims.vector_dim)
