"""Gives scatters indices of 32 bits: a module in MLIR, in place.

    before   %y = "stablehlo.scatter"(%x, %i, %u), %i : tensor<3x1xi64>
    after    %c = stablehlo.clamp %-1, %i, %2147483647 : tensor<3x1xi64>
             %j = stablehlo.convert %c : (tensor<3x1xi64>) -> tensor<3x1xi32>
             %y = "stablehlo.scatter"(%x, %j, %u)

As `lower.scatter_indices`, which says why, does it to HLO.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dialects
from .functions import array_of
from ..lower.scatter_indices import is_to_be_narrowed, LEAST, MOST

_SCATTER = 'stablehlo.scatter'


def narrow(module: Any) -> int:
  """Converts the indices of scatters to i32, in place.

  Returns:
    Of how many.
  """
  found = [o for o in dialects.operations_of(module) if o.name == _SCATTER]
  count = 0
  with dialects.scope(module):
    for operation in found:
      count += _narrow(operation)
  return count


def _narrow(operation: Any) -> bool:
  from jaxlib.mlir import ir
  # Operands, indices, updates; as many of the last as of the first.
  place = len(operation.operands) // 2
  indices = operation.operands[place]
  into, shape = (array_of(v.type) for v in (operation.operands[0], indices))
  if into is None or shape is None or not is_to_be_narrowed(into, shape):
    return False
  kind = ir.RankedTensorType.get(shape.dims, ir.IntegerType.get_signless(32))
  with ir.InsertionPoint(operation), operation.location:
    if shape.dtype in LEAST:
      indices = _clamped(indices, LEAST[shape.dtype])
    operation.operands[place] = ir.Operation.create(
        'stablehlo.convert', results=[kind], operands=[indices]).results[0]
  return True


def _clamped(indices: Any, least: int) -> Any:
  """Out of bounds is to stay so; within a location."""
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  scalar = ir.RankedTensorType.get([],
                                   ir.RankedTensorType(
                                       indices.type).element_type)
  low, high = (
      stablehlo.broadcast_in_dim(
          indices.type,
          stablehlo.convert(
              scalar,
              stablehlo.constant(
                  ir.DenseElementsAttr.get(np.array(n, np.int32)))), [])
      for n in (least, MOST))
  return stablehlo.minimum(stablehlo.maximum(indices, low), high)
