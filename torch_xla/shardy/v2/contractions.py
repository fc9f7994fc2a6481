"""Makes products sum over the right devices: HloModuleProto, in place.

Where what a product sums is split, and an operand is on several devices each,
XLA's partitioner lists these devices anew, sorted, and takes the sum over those
that stand in one place of the lists (`PartitionDotGroupOnContractingImpl`,
xla/service/spmd/dot_handler.cc: `lhs_sharding`, of groups that are aligned by
then). On a mesh in no regular order, as [[7, 2], [4, 1], [0, 5], [6, 3]], these
are not the devices that share the sum, and gradients of weights are wrong, in
the official wheel as well. jax is spared: its programs count devices in the
order of the mesh.

So in a program with such an order no product has what it sums split:

    before   y = f32[2,6] dot(f32[64,2] x, f32[64,6] w), ..
    after    a = f32[8,8,2] custom-call(reshape(x)), target="Sharding", ..
             b = f32[8,8,6] custom-call(reshape(w)), target="Sharding", ..
             p = f32[8,2,6] dot(a, b), lhs_batch_dims={0}, ..
             y = f32[2,6] reduce(p, zero), dimensions={0}, to_apply=shardy.add

The calls hold whole what is summed and leave the rest open, so that the parts
may be split, and `reduce` adds them up. Where the parts would be larger than
the operands, these are held whole along what is summed. `convolutions` does
likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Optional

from ..hlo import array_shape, messages, op_sharding
from ..hlo.editor import dims_of, Editor, Place, rewrite
from ..hlo.protos import (DotDimensionNumbers, HloInstructionProto,
                          HloModuleProto)
from .holding import become, hold

_FLOATS = frozenset(('bf16', 'f16', 'f32', 'f64'))


def devices_out_of_order(module: HloModuleProto) -> int:
  """The number of devices of a program in no regular order, else 0."""
  return max((math.prod(s.tiles.dims)
              for s in op_sharding.module_shardings(module)
              if s and s.tiles and s.v1_reason),
             default=0)


def parts_of(size: int, num_devices: int, operands: int, result: int) -> int:
  """Into how many parts a sum is to be split; 1 if into none.

  Of a size that the devices do not divide an operand may be split unevenly,
  and the partitioner's `HandleReshape` never ends for one such dimension that
  becomes two (random chain 7947).

  Args:
    size: of the dimension that is summed.
    operands, result: how many elements they have.
  """
  is_even = num_devices > 0 and size % num_devices == 0
  return num_devices if is_even and num_devices * result <= operands else 1


def make_partitionable(module: HloModuleProto, num_devices: int) -> str:
  """Changes the products of a program, whose devices are in no order, in place.

  Returns:
    What became of them, for the record; empty if nothing did.
  """
  editor, parted = Editor(module), 0

  def changed(place: Place) -> Optional[list[HloInstructionProto]]:
    nonlocal parted
    # One element can be split too, and the rest of the devices be padding.
    if not place.instruction.dot_dimension_numbers.lhs_contracting_dimensions:
      return None
    added, is_parted = _split_product(place, num_devices)
    parted += is_parted
    return added

  count = rewrite(module, ('dot',), changed, editor)
  editor.add_adders()
  if not count:
    return ''
  return (
      f'products, as the mesh has its devices in no regular order, which XLA '
      f'sums wrong: {parted} in parts, {count - parted} whole along what they '
      'sum')


def _split_product(place: Place,
                   num_devices: int) -> tuple[list[HloInstructionProto], bool]:
  """Changes a product; the instructions before it, and whether it is in parts."""
  instruction, _, computation, editor = place
  dots = instruction.dot_dimension_numbers
  operands = place.operands
  summed = [
      list(dots.lhs_contracting_dimensions),
      list(dots.rhs_contracting_dimensions)
  ]
  sizes = [dims_of(operands[0])[n] for n in summed[0]]
  is_static = not any(
      map(array_shape.is_dynamic, (o.shape for o in (*operands, instruction))))
  elements = sum(math.prod(dims_of(o)) for o in operands)
  dtype = array_shape.arrays_of(instruction.shape)[0].dtype
  parts = [
      parts_of(size, num_devices, elements, math.prod(dims_of(instruction)))
      if is_static and dtype in _FLOATS else 1 for size in sizes
  ]
  widest = max(range(len(sizes)), key=parts.__getitem__)
  count = parts[widest]
  added: list[HloInstructionProto] = []
  if count > 1:
    for side, operand in enumerate(operands):
      dims, dim = list(dims_of(operand)), summed[side][widest]
      dims[dim:dim + 1] = [count, dims[dim] // count]
      added.append(
          editor.make(computation, 'reshape',
                      array_shape.with_dims(operand.shape, tuple(dims)),
                      [operand.id]))
      operands[side] = added[-1]
    dots = _parted_dims(dots, [dims[widest] for dims in summed])
    summed = [
        list(dots.lhs_contracting_dimensions),
        list(dots.rhs_contracting_dimensions)
    ]
  for side, operand in enumerate(operands):
    added.append(hold(computation, editor, operand, summed[side]))
    operands[side] = added[-1]
  instruction.operand_ids[:] = [o.id for o in operands]
  if count == 1:
    return added, False
  product = editor.copied(computation, instruction, instruction.operand_ids)
  product.ClearField('sharding')
  product.shape = array_shape.with_dims(instruction.shape,
                                        (count, *dims_of(instruction)))
  product.dot_dimension_numbers.CopyFrom(dots)
  scalar = array_shape.with_dims(instruction.shape, ())
  zeros = editor.zero(computation, scalar)
  total = editor.make(
      computation,
      'reduce',
      instruction.shape, [product.id, zeros[-1].id],
      dimensions=[0],
      called_computation_ids=[editor.adder_id(scalar)])
  become(instruction, total)
  return [*added, product, *zeros], True


def _parted_dims(dots: DotDimensionNumbers,
                 dims: Sequence[int]) -> DotDimensionNumbers:
  """The dimensions where these, of each side, are two, the first a batch's."""

  def moved(numbers: Sequence[int], dim: int) -> list[int]:
    return [n + (n >= dim) for n in numbers]

  lhs, rhs = dims
  return messages.make(
      DotDimensionNumbers,
      lhs_batch_dimensions=[lhs, *moved(dots.lhs_batch_dimensions, lhs)],
      rhs_batch_dimensions=[rhs, *moved(dots.rhs_batch_dimensions, rhs)],
      lhs_contracting_dimensions=moved(dots.lhs_contracting_dimensions, lhs),
      rhs_contracting_dimensions=moved(dots.rhs_contracting_dimensions, rhs))
