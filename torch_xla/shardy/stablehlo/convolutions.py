"""Has convolutions take operands whole along the window: MLIR, in place.

    before   %2 = stablehlo.convolution(%0, %1) ..
    after    %a = stablehlo.custom_call @Sharding(%0) {mhlo.sharding =
                 "{replicated}", backend_config = "unspecified_dims=[0,1]"}
             %b = .. @Sharding(%1) ..
             %2 = stablehlo.convolution(%a, %b) ..

As `lower.convolutions`, which says why, does it to HLO. What has batch groups
takes its operands whole altogether: it is not written out here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dialects
from .functions import (ARGUMENTS, array_of, attributes_of, custom_call,
                        main_of, SHARDING_ATTRIBUTE)
from ..lower.convolutions import has_window, holding, note, open_dims
from ..sdy.extract import SHARDING_TARGET

_CONVOLUTION = 'stablehlo.convolution'


def make_partitionable(module: Any) -> str:
  """Changes the convolutions of a program that is to be partitioned, in place.

  Call it before `extract.take`, which notes `Sharding` calls.

  Returns:
    What became of them, for the record; empty if nothing did.
  """
  operations = dialects.operations_of(module)
  found = [o for o in operations if o.name == _CONVOLUTION]
  if not found:
    return ''
  given = (*(o.attributes for o in operations),
           *attributes_of(main_of(module), ARGUMENTS))
  said = {str(g[SHARDING_ATTRIBUTE]) for g in given if SHARDING_ATTRIBUTE in g}
  # The values of a manual region have no sharding but the region's.
  if (not any('devices=' in text for text in said) or
      any('manual' in text for text in said)):
    return ''
  with dialects.scope(module):
    return note(0, sum(map(_hold, found)))


def open_dims_of(call: Any) -> tuple[int, ...]:
  """The dimensions that a `Sharding` call leaves open."""
  if 'backend_config' not in call.attributes:
    return ()
  return open_dims(str(call.attributes['backend_config']))


def _hold(operation: Any) -> bool:
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  numbers = stablehlo.ConvDimensionNumbers(
      operation.attributes['dimension_numbers'])
  kernel = array_of(operation.operands[1].type)
  if kernel is None:
    return False
  count = len(numbers.kernel_spatial_dimensions)
  strides = _integers(operation, 'window_strides', [1] * count)
  padding = _integers(operation, 'padding', [[0, 0]] * count)
  dilation = _integers(operation, 'lhs_dilation', [1] * count)
  windows = [
      n for n, dim in enumerate(numbers.kernel_spatial_dimensions)
      if has_window(kernel.dims[dim], strides[n], *padding[n], dilation[n])
  ]
  is_whole = operation.attributes['batch_group_count'].value > 1
  if not windows and not is_whole:
    return False

  def call(value: Any, spatial: list[int]) -> Any:
    rank = count + 2
    dims = range(rank) if is_whole else [spatial[n] for n in windows]
    return custom_call(
        SHARDING_TARGET, value, operation, {
            SHARDING_ATTRIBUTE: ir.StringAttr.get('{replicated}'),
            'backend_config': ir.StringAttr.get(holding(rank, dims))
        })

  for place, spatial in enumerate(
      (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions)):
    operation.operands[place] = call(operation.operands[place], spatial)
  result = operation.results[0]
  whole = call(result, numbers.output_spatial_dimensions)
  whole.owner.move_after(operation)
  result.replace_all_uses_except(whole, whole.owner.operation)
  return True


def _integers(operation: Any, name: str, otherwise: list[Any]) -> list[Any]:
  from jaxlib.mlir import ir
  if name not in operation.attributes:
    return otherwise
  given = operation.attributes[name]
  if name == 'padding':
    return np.array(ir.DenseIntElementsAttr(given)).tolist()
  return list(ir.DenseI64ArrayAttr(given))
