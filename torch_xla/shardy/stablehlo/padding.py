"""Pads what is stored in tiles that do not divide it evenly: MLIR, in place.

    before   func @main(%p: tensor<10x6xf32> {mhlo.sharding = "{devices=[8,1]..
               return %c : tensor<10x6xf32>
    after    func @main(%p: tensor<16x6xf32> {mhlo.sharding = ..
               %s = stablehlo.slice %p [0:10, 0:6]
               %q = stablehlo.custom_call @Sharding(%s) {mhlo.sharding = ..}
               %e = stablehlo.pad %c, %zero, low = [0, 0], high = [6, 0], ..
               return %e : tensor<16x6xf32>

Why is in `sdy.padding`, which does so for HLO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import Any, Optional

import numpy as np

from . import dialects, to_sdy
from ..annotate.annotation import Annotation
from ..hlo.array_shape import ArrayShape
from ..sdy import free_results
from ..sdy.extract import SHARDING_TARGET
from ..sdy.free_results import Dims
from ..sdy.padding import leaves_open, Padded, padded_dims, uneven_sizes
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from .extract import Taken
from .functions import (ARGUMENTS, array_of, attributes_of, constraint_name,
                        custom_call, main_of, owner_of, RESULTS, returned_by,
                        set_types, SHARDING_ATTRIBUTE)

_SCATTER = 'stablehlo.scatter'


def pad(module: Any, taken: Taken, num_devices: int,
        tiles: Mapping[int, Dims]) -> tuple[Taken, Padded]:
  """Pads a module, in place.

  Args:
    tiles: of results that nobody placed, by number.

  Returns:
    `taken` with what was added to the program, and what was padded.

  Raises:
    InexpressibleError: a sharding is not understood; the module is as it was.
  """
  main = main_of(module)
  placed = list(_placed(main, taken))
  sizes = uneven_sizes(
      (array.dims, placement.tiles.dims)
      for value, _, placement, _ in placed
      if placement.tiles is not None and (array := array_of(
          value.type)) is not None and placement.rank == len(array.dims))
  with dialects.scope(module):
    sharded, in_question, free = _pad_results(main, placed, num_devices, tiles)
    calls, shapes, of_arguments = _pad_arguments(main)
    calls += _whole_indices(module, sizes)
  first = len(taken.sharding_calls)
  constraints = dict(taken.constraints)
  for place, number in enumerate(of_arguments, first):
    if (said := taken.parameters.get(number)) is not None:
      constraints[place] = said
  more = dataclasses.replace(
      taken,
      constraints=constraints,
      sharding_calls=(*taken.sharding_calls, *calls),
      sharded=(*taken.sharded, *sharded))
  names = map(constraint_name, range(first, first + len(calls)))
  return more, Padded(shapes, frozenset(names), in_question if sizes else {},
                      free)


def _placed(
    main: Any, taken: Taken
) -> Iterator[tuple[Any, Any, HloSharding, Optional[Annotation]]]:
  """Values that the program places: attribute, placement, what users said."""
  arguments = main.regions[0].blocks[0].arguments
  said = [(value, given, None)
          for value, given in zip(arguments, attributes_of(main, ARGUMENTS))]
  said += [(call.results[0], call.attributes, taken.constraints.get(number))
           for number, call in enumerate(taken.sharding_calls)]
  said += [(one.results[0], one.attributes, None)
           for one in taken.sharded
           if len(one.results) == 1]
  for value, given, annotation in said:
    placement = to_sdy.placement_of(given)
    if placement is not None:
      yield value, given[SHARDING_ATTRIBUTE], placement, annotation


def _whole_indices(module: Any, sizes: frozenset[int]) -> list[Any]:
  """The constraints that keep the indices of scatters whole."""
  from jaxlib.mlir import ir
  calls = []
  for operation in dialects.operations_of(module) if sizes else ():
    if operation.name != _SCATTER:
      continue
    # Operands, indices, updates; as many of the last as of the first.
    place = len(operation.operands) // 2
    indices = operation.operands[place]
    array = array_of(indices.type)
    if array is not None and not sizes.isdisjoint(array.dims):
      whole = ir.StringAttr.get(str(REPLICATED))
      said = custom_call(SHARDING_TARGET, indices, operation,
                         {SHARDING_ATTRIBUTE: whole})
      operation.operands[place] = said
      calls.append(owner_of(said))
  return calls


def _pad_arguments(
    main: Any) -> tuple[list[Any], dict[int, ArrayShape], list[int]]:
  """The constraints after what is cut off, the shapes before, the numbers."""
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  block = main.regions[0].blocks[0]
  given = attributes_of(main, ARGUMENTS)
  first = block.operations[0]
  calls, shapes = [], {}
  for number, (argument, one) in enumerate(zip(block.arguments, given)):
    placement = to_sdy.placement_of(one)
    array = array_of(argument.type)
    dims = None
    if placement is not None and array is not None:
      dims = padded_dims(array.dims, placement)
    if dims is None:
      continue
    element = ir.RankedTensorType(argument.type).element_type
    shapes[number] = array
    argument.set_type(ir.RankedTensorType.get(dims, element))
    with ir.InsertionPoint(first), ir.Location.unknown():
      zeros = [0] * len(dims)
      cut = stablehlo.slice(argument, zeros, list(array.dims), [1] * len(dims))
    said = custom_call(SHARDING_TARGET, cut, first,
                       {SHARDING_ATTRIBUTE: one[SHARDING_ATTRIBUTE]})
    argument.replace_all_uses_except(said, owner_of(cut))
    calls.append(owner_of(said))
  _retype(main)
  return calls, shapes, list(shapes)


def _pad_results(
    main: Any, placed: list[tuple], num_devices: int, tiles: Mapping[int, Dims]
) -> tuple[list[Any], dict[int, Dims], dict[int, tuple[Dims, Dims]]]:
  """The operations that pad what is placed, and as `Padded`: in_question and free."""
  end = returned_by(main).operation
  # An operation is not hashed: it is known by what it gives.
  known = {value: what for value, *what in placed}
  added, in_question, free = [], {}, {}
  for number, (value, given) in enumerate(
      zip(end.operands, attributes_of(main, RESULTS))):
    if (array := array_of(value.type)) is None:
      continue
    sharding, placement, annotation = known.get(value, (None, None, None))
    if (of_result := to_sdy.placement_of(given)) is not None:
      sharding, placement = given[SHARDING_ATTRIBUTE], of_result
    if placement is not None and not leaves_open(annotation, placement):
      if (dims := padded_dims(array.dims, placement)) is not None:
        operation = owner_of(_pad(value, array, dims, end))
        operation.attributes[SHARDING_ATTRIBUTE] = sharding
        end.operands[number] = operation.results[0]
        added.append(operation)
    elif free_results.may_be_uneven(array.dims, num_devices):
      in_question[number] = array.dims
      if number in tiles and (dims := free_results.padded(
          array.dims, tiles[number])) is not None:
        free[number] = array.dims, dims
        end.operands[number] = _pad(value, array, dims, end)
  return added, in_question, free


def pad_results_evenly(module: Any, numbers: Iterable[int],
                       num_devices: int) -> None:
  """Pads results to multiples of all devices; within `dialects.scope`."""
  main = main_of(module)
  end = returned_by(main).operation
  for number in numbers:
    array = array_of(end.operands[number].type)
    dims = [num_devices * -(-size // num_devices) for size in array.dims]
    end.operands[number] = _pad(end.operands[number], array, dims, end)
  _retype(main)


def _pad(value: Any, array: ArrayShape, dims: Sequence[int], end: Any) -> Any:
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  element = ir.RankedTensorType(value.type).element_type
  none = [0] * len(dims)
  with ir.InsertionPoint(end), end.location:
    zero = stablehlo.constant(ir.DenseElementsAttr.get(np.zeros((), np.int32)))
    scalar = stablehlo.convert(ir.RankedTensorType.get([], element), zero)
    high = [to - size for size, to in zip(array.dims, dims)]
    return stablehlo.pad(value, scalar, none, high, none)


def _retype(main: Any) -> None:
  block = main.regions[0].blocks[0]
  set_types(main, [argument.type for argument in block.arguments],
            [value.type for value in returned_by(main).operands])
