"""Arrays padded, cut and reshaped for manual regions: operations in MLIR.

Each function makes what it needs at the insertion point of its caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .functions import array_of


def with_dims(kind: Any, dims: Sequence[int]) -> Any:
  """The type of an array with other dimensions."""
  from jaxlib.mlir import ir
  return ir.RankedTensorType.get(
      list(dims),
      ir.RankedTensorType(kind).element_type)


def reshaped(value: Any, kind: Any) -> Any:
  """An array as one of type `kind`, of as many elements."""
  from jaxlib.mlir.dialects import stablehlo
  return value if value.type == kind else stablehlo.reshape(kind, value)


def padded(value: Any, dims: Sequence[int]) -> Any:
  """An array with zeros behind it, up to `dims`."""
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  before = array_of(value.type).dims
  if before == tuple(dims):
    return value
  zero = stablehlo.constant(ir.DenseElementsAttr.get(np.zeros((), np.int32)))
  scalar = stablehlo.convert(with_dims(value.type, ()), zero)
  none = [0] * len(dims)
  high = [to - size for size, to in zip(before, dims)]
  return stablehlo.pad(value, scalar, none, high, none)


def cut(value: Any, kind: Any) -> Any:
  """The first elements of an array in each dimension, as of type `kind`."""
  from jaxlib.mlir.dialects import stablehlo
  dims = array_of(kind).dims
  if value.type == kind:
    return value
  return stablehlo.slice(value, [0] * len(dims), list(dims), [1] * len(dims))
