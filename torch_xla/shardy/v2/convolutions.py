"""Gives XLA convolutions that it can partition: HloModuleProto, in place.

Where both operands of a convolution are split, one of them along a dimension of
the window, XLA sums what devices computed over all of them, and not over those
that share the sum: the result is too large on a mesh with an axis that none of
it is split over. A result that is split there may be wrong as well. With batch
groups, as the weight gradient of a grouped convolution has, it does so wherever
the sum is split, and ends the process on other splits ("Check failed:
new_input_batch_size % new_output_batch_size"; xla/service/spmd/
convolution_handler.cc). So

- what has batch groups becomes products, one for each place of the window:

    before   y = f32[2,8,2] convolution(x, w), window={size=5 pad=1_0},
                 dim_labels=bf0_oi0->bf0, batch_group_count=4
    after    a = f32[8,3,6] pad(f32[8,3,5] x, zero)
             b = f32[4,2,3,6] reshape(a); v = f32[4,2,3,5] reshape(w)
             c = f32[4,2,2] dot(b[0:5], v), lhs_batch_dims={0}, ..
             d = f32[4,2,2] dot(b[1:6], v), ..
             y = f32[2,8,2] reshape(transpose(concatenate(c, d)))

  or is whole on each device, where there are more than `MOST_PLACES`;
- others are whole along what has a window, operands and result, by `Sharding`
  calls that leave the other dimensions open.

Both compute the same. Programs without anything split are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import itertools
import math
import re
from typing import Any, Optional

from ..hlo import array_shape, messages, op_sharding
from ..hlo.editor import dims_of, Editor, instructions_of, put_before
from ..hlo.protos import (DotDimensionNumbers, HloComputationProto,
                          HloInstructionProto, HloModuleProto)
from ..sharding.hlo_sharding import REPLICATED, ShardingType

MOST_PLACES = 128
_OPEN = re.compile(r'unspecified_dims=\[([\d,]*)\]')


def make_partitionable(module: HloModuleProto) -> str:
  """Changes the convolutions of a program that is to be partitioned, in place.

  Returns:
    What became of them, for the record; empty if nothing did.
  """
  if not any(i.opcode == 'convolution' for i in instructions_of(module)):
    return ''
  if not op_sharding.is_split(module):
    return ''
  editor = Editor(module)
  products = sum(_write_out(c, editor) for c in module.computations)
  # The values of a manual region have no sharding but the region's.
  if any(s and s.type is ShardingType.MANUAL for s in op_sharding.said(module)):
    left = sum(_held_windows(i) is not None for i in instructions_of(module))
    return _note(products, left=left)
  return _note(products, sum(_hold(c, editor) for c in module.computations))


def _note(products: int, whole: int = 0, left: int = 0) -> str:
  """What a record says of convolutions that were changed."""
  parts = []
  if products:
    parts.append(f'{products} written out as products')
  if whole:
    parts.append(f'{whole} with operands held whole along the window')
  if left:
    parts.append(f'{left} left as they were, as a manual region may hold them')
  if not parts:
    return ''
  return f'convolutions, so that XLA partitions them right: {", ".join(parts)}'


def _has_window(size: int, stride: int, low: int, high: int,
                dilation: int) -> bool:
  """Whether a dimension is not just gone along; `dilation` of the operand."""
  return (size, stride, low, high, dilation) != (1, 1, 0, 0, 1)


def holding(rank: int, held: Iterable[int]) -> str:
  """The `backend_config` of a `Sharding` call that holds dimensions whole."""
  left = sorted(set(range(rank)).difference(held))
  return f'unspecified_dims=[{",".join(map(str, left))}]' if left else ''


def open_dims(backend_config: str) -> tuple[int, ...]:
  """The dimensions that a `Sharding` call leaves open."""
  found = _OPEN.search(backend_config)
  return tuple(map(int, found[1].split(','))) if found and found[1] else ()


def _held_windows(instruction: HloInstructionProto) -> Optional[list[int]]:
  """The places in its window that a convolution is held along, if it is."""
  if instruction.opcode != 'convolution':
    return None
  windows = [
      n for n, w in enumerate(instruction.window.dimensions) if _has_window(
          w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation)
  ]
  return windows if windows or instruction.batch_group_count > 1 else None


def _hold(computation: HloComputationProto, editor: Editor) -> int:
  """Has convolutions take their operands whole along the window."""
  by_id = {i.id: i for i in computation.instructions}

  def held(
      instruction: HloInstructionProto) -> Optional[list[HloInstructionProto]]:
    windows = _held_windows(instruction)
    if windows is None:
      return None
    numbers = instruction.convolution_dimension_numbers
    is_whole = instruction.batch_group_count > 1

    def call(value: HloInstructionProto,
             spatial: Sequence[int]) -> HloInstructionProto:
      rank = len(dims_of(value))
      dims = range(rank) if is_whole else [spatial[n] for n in windows]
      return editor.call(
          computation,
          'Sharding',
          value.shape, [value.id],
          sharding=op_sharding.to_bytes(REPLICATED),
          backend_config=holding(rank, dims).encode())

    operands = [
        call(by_id[number], spatial) for number, spatial in zip(
            instruction.operand_ids, (numbers.input_spatial_dimensions,
                                      numbers.kernel_spatial_dimensions),
            strict=True)
    ]
    copy = editor.copied(computation, instruction, [i.id for i in operands])
    copy.ClearField('sharding')
    instructions = [
        *operands, copy,
        call(copy, numbers.output_spatial_dimensions)
    ]
    if instruction.HasField('sharding'):  # That of the result's users.
      instructions.append(
          editor.call(computation, 'Sharding', copy.shape,
                      [instructions[-1].id]))
    _become(instruction, instructions.pop())
    return instructions

  return put_before(computation, held)


def _write_out(computation: HloComputationProto, editor: Editor) -> int:
  """Has convolutions with batch groups be products."""
  by_id = {i.id: i for i in computation.instructions}

  def written_out(
      instruction: HloInstructionProto) -> Optional[list[HloInstructionProto]]:
    if instruction.opcode != 'convolution' or not _is_of_products(instruction):
      return None
    *made, last = _products(instruction, by_id, computation, editor)
    _become(instruction, last)
    return made

  return put_before(computation, written_out)


def _is_of_products(instruction: HloInstructionProto) -> bool:
  """Whether a convolution is one that is written out."""
  dims = dims_of(instruction)
  numbers = instruction.convolution_dimension_numbers
  places = math.prod(dims[n] for n in numbers.output_spatial_dimensions)
  return (instruction.batch_group_count > 1 and 0 < places <= MOST_PLACES and
          not array_shape.is_dynamic(instruction.shape) and
          not any(w.window_reversal for w in instruction.window.dimensions))


def _products(instruction: HloInstructionProto,
              by_id: Mapping[int, HloInstructionProto],
              computation: HloComputationProto,
              editor: Editor) -> list[HloInstructionProto]:
  """What computes a convolution with batch groups, its result last."""
  numbers = instruction.convolution_dimension_numbers
  window = instruction.window.dimensions
  groups = instruction.batch_group_count
  metadata = {'metadata': instruction.metadata}
  instructions: list[HloInstructionProto] = []

  def make(opcode: str, like: HloInstructionProto, dims: Sequence[int],
           *operands: HloInstructionProto,
           **fields: Any) -> HloInstructionProto:
    instructions.append(
        editor.make(computation, opcode,
                    array_shape.with_dims(like.shape, tuple(dims)),
                    [o.id for o in operands], **metadata, **fields))
    return instructions[-1]

  def grouped(operand: HloInstructionProto, dim: int) -> HloInstructionProto:
    dims = dims_of(operand)
    return make('reshape', operand,
                (*dims[:dim], groups, dims[dim] // groups, *dims[dim + 1:]),
                operand)

  x, w = (by_id[n] for n in instruction.operand_ids)
  lhs_batch = numbers.input_batch_dimension
  rhs_batch = numbers.kernel_output_feature_dimension
  # The groups come before what is split into them.
  lhs_spatial, rhs_spatial = ([
      n + (n > batch) for n in spatial
  ] for spatial, batch in ((numbers.input_spatial_dimensions, lhs_batch),
                           (numbers.kernel_spatial_dimensions, rhs_batch)))
  padded = list(dims_of(x))
  for dim, size in zip(numbers.input_spatial_dimensions, window, strict=True):
    padded[dim] += (
        max(size.padding_low, 0) + max(size.padding_high, 0) +
        max(padded[dim] - 1, 0) * (size.base_dilation - 1))
  if padded != list(dims_of(x)):
    instructions += editor.padded(computation, x, padded, **metadata)
    x = instructions[-1]
    for dim, size in zip(numbers.input_spatial_dimensions, window, strict=True):
      config = x.padding_config.dimensions[dim]
      config.edge_padding_low = max(size.padding_low, 0)
      config.edge_padding_high = max(size.padding_high, 0)
      config.interior_padding = size.base_dilation - 1
  x, w = grouped(x, lhs_batch), grouped(w, rhs_batch)

  dots = messages.make(
      DotDimensionNumbers,
      lhs_batch_dimensions=[lhs_batch],
      rhs_batch_dimensions=[rhs_batch],
      lhs_contracting_dimensions=[
          _past(numbers.input_feature_dimension, lhs_batch), *lhs_spatial
      ],
      rhs_contracting_dimensions=[
          _past(numbers.kernel_input_feature_dimension, rhs_batch), *rhs_spatial
      ])
  dims = dims_of(instruction)
  sizes = [dims[n] for n in numbers.output_spatial_dimensions]
  product = (groups, dims[numbers.output_batch_dimension],
             dims[numbers.output_feature_dimension] // groups)
  columns = []
  for place in itertools.product(*map(range, sizes)):
    bounds = [(0, size, 1) for size in dims_of(x)]
    for dim, at, size in zip(lhs_spatial, place, window, strict=True):
      # XLA's partitioner gets padding below zero wrong.
      start = at * size.stride - min(size.padding_low, 0)
      bounds[dim] = (start, start + (size.size - 1) * size.window_dilation + 1,
                     size.window_dilation)
    part = make('slice', x,
                [-(-(limit - start) // step) for start, limit, step in bounds],
                x)
    for start, limit, step in bounds:
      part.slice_dimensions.add(start=start, limit=limit, stride=step)
    dot = make(
        'dot',
        instruction,
        product,
        part,
        w,
        dot_dimension_numbers=dots,
        precision_config=instruction.precision_config)
    columns.append(make('reshape', instruction, (*product, 1), dot))
  result = make(
      'concatenate',
      instruction, (*product, len(columns)),
      *columns,
      dimensions=[3])
  result = make('reshape', instruction, (*product, *sizes), result)
  # Where the result has them; its features have the groups in them.
  places = {
      numbers.output_batch_dimension: [1],
      numbers.output_feature_dimension: [0, 2],
      **{
          dim: [3 + n] for n, dim in enumerate(numbers.output_spatial_dimensions)
      }
  }
  order = [n for dim in sorted(places) for n in places[dim]]
  result = make(
      'transpose',
      instruction, [dims_of(result)[n] for n in order],
      result,
      dimensions=order)
  make('reshape', instruction, dims, result)
  return instructions


def _past(dim: int, grouped: int) -> int:
  """A dimension's number once another is two."""
  return dim + (dim > grouped)


def _become(instruction: HloInstructionProto,
            other: HloInstructionProto) -> None:
  """Has an instruction be another, but for its id, name and sharding."""
  other.id, other.name = instruction.id, instruction.name
  other.control_predecessor_ids[:] = instruction.control_predecessor_ids
  for field in ('metadata', 'frontend_attributes', 'sharding'):
    if instruction.HasField(field):
      if field == 'sharding':
        other.sharding = instruction.sharding
      else:
        getattr(other, field).CopyFrom(getattr(instruction, field))
  instruction.CopyFrom(other)
