"""Splits sums that users mark as unreduced: HloModuleProto, in place.

A value that is unreduced over an axis is a part of a sum on each device along
it. XLA takes that at its word: where Shardy cannot say so of the sum itself,
which it does of what no other call places, what is whole is added up again, and
where what is summed is not split over just these axes, Shardy ends the
process, as it does where tiles are uneven. So only a product of matrices or a sum
can be called so, and its operands are split as it says, whatever they are
otherwise:

    before   d = f32[8,8] dot(a, b), contracting a's dimension 1 and b's 0
             c = custom-call(d), target="Sharding", unreduced over x
    after    l = custom-call(a), target="Sharding", [{?}, {"x"}]
             r = custom-call(b), target="Sharding", [{"x"}, {?}]
             d = f32[8,8] dot(l, r)
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
import math
from typing import Optional

from . import extract
from ..annotate.annotation import Annotation
from ..hlo import op_sharding
from ..hlo.editor import dims_of, Place, rewrite
from ..hlo.protos import HloInstructionProto, HloModuleProto
from ..sdy.mesh_axes import InexpressibleError
from ..sharding.partition_spec import sharding_of, uneven_dims
from ..v2 import holding

# An operand of a sum: its place among the operands, the dimensions that are
# summed over, and which of them is split.
_Operand = tuple[int, list[int], int]


def split(module: HloModuleProto, annotations: extract.Annotations) -> None:
  """Splits what unreduced values are sums of.

  Raises:
    InexpressibleError: one is no sum, or what it is a sum of is not split.
  """
  unreduced = {
      key: annotation
      for key, annotation in annotations.constraints.items()
      if annotation.unreduced
  }
  if not unreduced:
    return
  sums: dict[extract.InstructionKey, tuple[Annotation, list[_Operand]]] = {}
  for computation in module.computations:
    by_id = {i.id: i for i in computation.instructions}
    calls = collections.Counter(n for i in computation.instructions
                                if i.opcode == 'custom-call'
                                for n in i.operand_ids)
    for key, annotation in unreduced.items():
      where, number = key
      # What is not used any more has no call.
      if where != computation.id or (call := by_id.get(number)) is None:
        continue
      source = by_id[call.operand_ids[0]]
      try:
        _check(source, annotation, calls[source.id], module)
        sums[where,
             source.id] = annotation, _split_dims(source, annotation, by_id)
      except InexpressibleError as e:
        raise InexpressibleError(str(e), key) from e

  def split_one(place: Place) -> Optional[list[HloInstructionProto]]:
    source, by_id, computation, editor = place
    if (computation.id, source.id) not in sums:
      return None
    annotation, operands = sums[computation.id, source.id]
    calls = []
    for place_of, summed, dim in operands:
      operand = by_id[source.operand_ids[place_of]]
      rank = len(dims_of(operand))
      spec = tuple(
          annotation.unreduced if n == dim else None for n in range(rank))
      call = editor.call(
          computation,
          extract.SHARDING_TARGET,
          operand.shape, [operand.id],
          sharding=op_sharding.to_bytes(
              sharding_of(annotation.mesh.shape, annotation.mesh.device_ids,
                          spec)),
          backend_config=holding.holding(rank, summed).encode())
      source.operand_ids[place_of] = call.id
      calls.append(call)
    return calls

  rewrite(module, ('dot', 'reduce'), split_one)


def _check(source: HloInstructionProto, annotation: Annotation, count: int,
           module: HloModuleProto) -> None:
  """Raises InexpressibleError: it is no sum, or more than one call takes it."""
  if source.opcode != 'dot' and not _adds(source, module):
    raise InexpressibleError(
        f'{_axes(annotation)} as unreduced: the value is no product of '
        f'matrices and no sum, but {source.opcode} (mark the product or the '
        'sum itself)')
  if count > 1 or source.HasField('sharding'):
    raise InexpressibleError(
        f'{_axes(annotation)} as unreduced: the value is placed elsewhere, too '
        '(mark it once)')
  tiles, dims = annotation.sharding.tiles, dims_of(source)
  if tiles is not None and uneven_dims(dims, tiles.dims):
    raise InexpressibleError(
        f'{_axes(annotation)} as unreduced: the value of shape {list(dims)} '
        f'does not divide into the tiles of {annotation.spec_text} (leave '
        'unreduced out)')


def _axes(annotation: Annotation) -> str:
  names = tuple(
      annotation.mesh.axis_name(axis) for axis in annotation.unreduced)
  return f'axes {names}'


def _split_dims(source: HloInstructionProto, annotation: Annotation,
                by_id: Mapping[int, HloInstructionProto]) -> list[_Operand]:
  """The splits of a sum's operands, by dimension."""
  tiles = math.prod(
      annotation.mesh.shape[axis] for axis in annotation.unreduced)
  if source.opcode == 'reduce':
    summed = [list(source.dimensions)]
  else:
    numbers = source.dot_dimension_numbers
    summed = [
        list(numbers.lhs_contracting_dimensions),
        list(numbers.rhs_contracting_dimensions)
    ]
  first = dims_of(by_id[source.operand_ids[0]])
  sizes = [first[dim] for dim in summed[0]]
  for n, size in enumerate(sizes):
    if size % tiles == 0:
      return [(place, dims, dims[n]) for place, dims in enumerate(summed)]
  raise InexpressibleError(
      f'{_axes(annotation)} as unreduced: the value is a sum over {sizes}, '
      f'which {tiles} devices do not share evenly')


def _adds(reduce: HloInstructionProto, module: HloModuleProto) -> bool:
  """Tests whether it adds up elements of one array."""
  if reduce.opcode != 'reduce' or len(reduce.operand_ids) != 2:
    return False
  called, = (
      c for c in module.computations
      if c.id == reduce.called_computation_ids[0])
  root, = (i for i in called.instructions if i.id == called.root_id)
  return root.opcode == 'add' and sorted(
      i.opcode
      for i in called.instructions) == ['add', 'parameter', 'parameter']
