"""The memory of arguments and results, with the padding of their layouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import dataclasses
import functools
import math
from typing import Any

from .compiled_module import CompiledModule
from ..report import HeavyTensor
from ...hlo import array_shape, messages
from ...hlo.protos import ShapeProto
from ...operation_names import origin_of

_TUPLE = 13
# Opaque values and tokens, which have no elements.
_NO_ARRAYS = (14, 17)
# What the compiler puts in; its result is what its operand has.
_SAME_VALUES = ('bitcast', 'copy', 'copy-done', 'copy-start')
# A dimension of a tile that joins one of the array with the next inner one.
_JOINED = -2**63


@dataclasses.dataclass(frozen=True)
class Buffer:
  """An array in a device's memory.

  Attributes:
    index: where it lies in a tuple, from the outermost; empty for an array.
    shape: as XLA writes it: 'bf16[1024,512]'.
    nbytes: with padding.
  """
  index: tuple[int, ...]
  shape: str
  nbytes: int


def heavy_tensors(module: CompiledModule,
                  names: Mapping[int, str] = {},
                  most: int = 8) -> tuple[HeavyTensor, ...]:
  """The heaviest tensors of a program on one device, the heaviest first.

  Arguments and results are exact: their sums are what the compiler tells of
  them, but for the table of addresses that it adds to several results. Results
  in the memory of an argument are left out. They go by their number, with the
  operation that they come from and its module.

  Args:
    names: the users' names of arguments, by number.
    most: how many to list.
  """
  tensors = [*_arguments(module, names), *_results(module)]
  tensors.sort(key=lambda t: (-t.nbytes, t.role, t.name))
  return tuple(tensors[:most])


def _arguments(module: CompiledModule,
               names: Mapping[int, str]) -> Iterator[HeavyTensor]:
  parameters = sorted(
      (i for i in module.entry.instructions if i.opcode == 'parameter'),
      key=lambda i: i.parameter_number)
  buffers = [b for p in parameters for b in buffers_of(p.shape)]
  for number, buffer in enumerate(buffers):
    yield HeavyTensor(
        names.get(
            number, f'parameter {number}' +
            (' (nothing with a name holds it)' if names else '')), 'argument',
        buffer.shape, buffer.nbytes)


def _results(module: CompiledModule) -> Iterator[HeavyTensor]:
  by_id = {i.id: i for i in module.entry.instructions}
  root = by_id[module.entry.root_id]
  aliased = {
      tuple(entry.output_shape_index)
      for entry in module.message.input_output_alias.entries
  }
  for number, buffer in enumerate(buffers_of(root.shape)):
    if buffer.index not in aliased:
      source = by_id[root.operand_ids[buffer.index[0]]] if (
          root.opcode == 'tuple') else root
      while not source.metadata.op_name and source.opcode in _SAME_VALUES:
        source = by_id[source.operand_ids[0]]
      origin = origin_of(source.metadata.op_name) or (
          f'{source.opcode}, which the compiler does not name')
      yield HeavyTensor(f'result {number} ({origin})', 'result', buffer.shape,
                        buffer.nbytes)


@functools.lru_cache(maxsize=4096)
def buffers_of(shape: bytes) -> tuple[Buffer, ...]:
  """The arrays in a serialised ShapeProto, tuples flattened.

  Raises:
    ValueError: `shape` is damaged.
  """
  return tuple(_buffers(messages.parse(ShapeProto, shape), ()))


def _buffers(shape: Any, index: tuple[int, ...]) -> Iterator[Buffer]:
  if shape.element_type == _TUPLE:
    for i, element in enumerate(shape.tuple_shapes):
      yield from _buffers(element, (*index, i))
    return
  if shape.element_type in _NO_ARRAYS:
    return
  array, = array_shape.arrays_of(shape.SerializeToString())
  layout = shape.layout
  # Where nothing else is said, small elements take a byte each.
  bits = layout.element_size_in_bits or -(-array.bits // 8) * 8
  nbytes = -(-_padded_elements(array.dims, layout) * bits // 8)
  yield Buffer(index, str(array),
               nbytes + layout.dynamic_shape_metadata_prefix_bytes)


def _padded_elements(dims: tuple[int, ...], layout: Any) -> int:
  """How many elements a layout makes room for.

  Each tile divides the innermost dimensions of what is left of the one before:
  dimensions are counted in tiles, rounded up, and a tile has its own inside.
  The rule is that of openxla.org/xla/tiled_layout.
  """
  inner_first = layout.minor_to_major or reversed(range(len(dims)))
  physical = [dims[i] for i in inner_first][::-1]
  for tile in layout.tiles:
    sizes = list(tile.dimensions)
    while len(physical) < len(sizes):
      physical.insert(0, 1)
    outer = physical[:len(physical) - len(sizes)]
    divided, joined = [], 1
    for dim, size in zip(physical[len(outer):], sizes):
      dim, joined = dim * joined, 1
      if size == _JOINED:
        joined = dim
      else:
        divided.append((dim, size))
    physical = [
        *outer, *(-(-dim // size) for dim, size in divided),
        *(size for _, size in divided)
    ]
  aligned = layout.tail_padding_alignment_in_elements or 1
  return -(-math.prod(physical) // aligned) * aligned
