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

Features in groups are right in as many tiles as divide the groups. In others
XLA takes features of another group, or counts none in a group and ends with
"feature_group_count must be a positive number, got 0" (`CreateShardedConvolution`
of the same file), as it does where one operand's are whole; without a window it
may free what it has not allocated. So they are whole unless there is a window,
there are as many groups as devices, or a multiple, and sums may be split.

A window of one place has no dilation: XLA takes it for a window that is split.

Both compute the same. Programs without anything split are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
import itertools
import math
from typing import Any, Optional

from ..hlo import array_shape, messages, op_sharding
from ..hlo.editor import dims_of, Editor, instructions_of, Place, rewrite
from ..hlo.protos import (DotDimensionNumbers, HloInstructionProto,
                          HloModuleProto)
from . import contractions
from .holding import become, has_manual, Held, hold_around

MOST_PLACES = 128


def undilate(module: HloModuleProto) -> int:
  """Drops dilations of one place, which XLA takes for a window; how many."""
  sizes = [
      size for i in instructions_of(module) if i.opcode == 'convolution'
      for size in i.window.dimensions
      if size.size == 1 and size.window_dilation != 1
  ]
  if not sizes or not op_sharding.is_split(module):
    return 0
  for size in sizes:
    size.window_dilation = 1
  return len(sizes)


def make_partitionable(module: HloModuleProto, unordered: int = 0) -> str:
  """Changes the convolutions of a program that is to be partitioned, in place.

  Args:
    unordered: how many devices there are, if their order is not regular: then
      nothing that is summed is split, as `contractions` has it.

  Returns:
    What became of them, for the record; empty if nothing did.
  """
  if not any(
      i.opcode == 'convolution'
      for i in instructions_of(module)) or not op_sharding.is_split(module):
    return ''

  def written_out(place: Place) -> Optional[list[HloInstructionProto]]:
    if not _is_of_products(place, unordered):
      return None
    *added, last = _products(place)
    become(place.instruction, last)
    return added

  editor = Editor(module)
  products = rewrite(module, ('convolution',), written_out, editor)
  shardings = list(op_sharding.module_shardings(module))
  num_devices = max(
      (math.prod(s.tiles.dims) for s in shardings if s and s.tiles), default=1)

  def held_of(instruction: HloInstructionProto) -> Held:
    return _held(instruction, num_devices, bool(unordered))

  if has_manual(shardings):
    held = sum(i.opcode == 'convolution' and any(held_of(i))
               for i in instructions_of(module))
    how = 'left as they were, as a manual region may hold them'
  else:
    held = hold_around(module, 'convolution', held_of, editor)
    how = 'with operands held whole along the window'
  counts = (products, 'written out as products'), (held, how)
  parts = ', '.join(f'{count} {which}' for count, which in counts if count)
  return parts and f'convolutions, so that XLA partitions them right: {parts}'


def _has_window(size: int, stride: int, low: int, high: int,
                dilation: int) -> bool:
  """Tests for a window other than the trivial; `dilation` of the operand."""
  return (size, stride, low, high, dilation) != (1, 1, 0, 0, 1)


def _held(instruction: HloInstructionProto, num_devices: int,
          sums_are_whole: bool) -> Held:
  numbers = instruction.convolution_dimension_numbers
  if instruction.batch_group_count > 1:
    return Held(*[range(len(dims_of(instruction)))] * 3)
  windows = [
      n for n, w in enumerate(instruction.window.dimensions) if _has_window(
          w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation)
  ]
  lhs, rhs, result = ({spatial[n]
                       for n in windows}
                      for spatial in (numbers.input_spatial_dimensions,
                                      numbers.kernel_spatial_dimensions,
                                      numbers.output_spatial_dimensions))
  groups = instruction.feature_group_count
  is_grouped = groups > 1 and (sums_are_whole or not windows or
                               groups % num_devices != 0)
  if sums_are_whole or is_grouped:
    lhs.add(numbers.input_feature_dimension)
    rhs.add(numbers.kernel_input_feature_dimension)
  if sums_are_whole:  # A window of size 1 may be split, too, mostly padding.
    rhs.update(numbers.kernel_spatial_dimensions)
  if is_grouped:
    rhs.add(numbers.kernel_output_feature_dimension)
    result.add(numbers.output_feature_dimension)
  return Held(lhs, rhs, result)


def _is_of_products(place: Place, unordered: int) -> bool:
  """Tests whether to write out: batch groups, and more if unordered."""
  instruction = place.instruction
  dims = dims_of(instruction)
  numbers = instruction.convolution_dimension_numbers
  places = math.prod(dims[n] for n in numbers.output_spatial_dimensions)
  summed = numbers.input_feature_dimension
  x, w = place.operands
  # The gradient of a weight, whose sum over the batch may then be split.
  is_sum = (
      bool(unordered) and instruction.feature_group_count <= 1 and
      contractions.parts_of(
          dims_of(x)[summed], unordered,
          math.prod(dims_of(x)) + math.prod(dims_of(w)), math.prod(dims)) > 1)
  return ((instruction.batch_group_count > 1 or is_sum) and
          0 < places <= MOST_PLACES and
          not array_shape.is_dynamic(instruction.shape) and
          not any(w.window_reversal for w in instruction.window.dimensions))


def _products(place: Place) -> list[HloInstructionProto]:
  """Instructions that compute a convolution with batch groups, result last."""
  instruction, _, computation, editor = place
  numbers = instruction.convolution_dimension_numbers
  window = instruction.window.dimensions
  groups = max(instruction.batch_group_count, 1)
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

  x, w = place.operands
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
  for offsets in itertools.product(*map(range, sizes)):
    bounds = [(0, size, 1) for size in dims_of(x)]
    for dim, at, size in zip(lhs_spatial, offsets, window, strict=True):
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
