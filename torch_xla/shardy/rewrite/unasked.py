"""Annotates constraints that nobody asked for: HloModuleProto.

torch_xla places what it casts or copies of a sharded tensor, and what it updates
in place, as that tensor is placed:

    p = f32[8,4] parameter(0), sharding={devices=[8,1]<=[8]}
    c = bf16[8,4] convert(p), sharding={devices=[8,1]<=[8]}
    m = bf16[8,4] multiply(c, d)
    s = bf16[8,4] custom-call(m), target="Sharding", sharding={devices=[8,1]<=[8]}

Propagation would bring p's annotation to c and m, and c and s only repeat its
placement: so they get the annotation of p, also where the update went through a
view of it and back. Of several annotated values the first in propagation's order
counts. What a pass holds whole (`v2/holding.py`) stays whole: an annotation of
open dimensions would let XLA split it.
"""

from __future__ import annotations

from . import extract
from .dot_dims import ELEMENTWISE
from .manual_regions import is_sharding_call, placement
from ..annotate.annotation import Annotation
from ..hlo import array_shape
from ..hlo.editor import dims_of
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sharding.hlo_sharding import HloSharding
from ..v2 import holding

# What updates in place are lowered to.
_UPDATES = ELEMENTWISE | {
    'abs', 'clamp', 'copy', 'dynamic-update-slice', 'floor', 'log',
    'opt-barrier', 'power', 'round-nearest-even', 'rsqrt', 'scatter', 'sign',
    'sqrt'
}
_VIEWS = ('reshape', 'transpose')

# The views that led from an annotated value to another, each as the dimensions
# before and the order that a transpose gives them.
_Views = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def repeat(module: HloModuleProto, annotations: extract.Annotations) -> None:
  """Adds the annotations of such constraints to `annotations.repeated`.

  Raises:
    InexpressibleError: a sharding is not understood.
  """
  if annotations.parameters or annotations.constraints or annotations.repeated:
    for computation in module.computations:
      _repeat_in(computation, computation.id == module.entry_computation_id,
                 annotations)


def _repeat_in(computation: HloComputationProto, is_entry: bool,
               annotations: extract.Annotations) -> None:
  by_id = {i.id: i for i in computation.instructions}
  # By id, placement and views, the annotations of what it is made of.
  values: dict[int, dict[tuple[HloSharding, _Views], Annotation]] = {}
  for i in computation.instructions:
    key = computation.id, i.id
    marks: dict[tuple[HloSharding, _Views], Annotation] = {}
    for operand in _updated(i, by_id):
      for (where, views), mark in values.get(operand, {}).items():
        if i.opcode in _VIEWS:
          views = _viewed(views, i, dims_of(by_id[operand]))
        marks[where, views] = min(
            marks.get((where, views), mark), mark, key=_order)
    if i.HasField('sharding') and not array_shape.is_tuple(i.shape):
      own = annotations.constraints.get(key) or annotations.repeated.get(key)
      placed = placement(i)
      if i.opcode == 'parameter':
        own = annotations.parameters.get(
            i.parameter_number) if is_entry else None
      elif (own is None and placed is not None and (placed, ()) in marks and
            not holding.is_hold(i)):
        own = annotations.repeated[key] = marks[placed, ()]
      is_kept = own is not None and own.sharding == placed
      marks = {
          (own.sharding, ()): own.without_unreduced
      } if own and is_kept else {}
    if marks:
      values[i.id] = marks


def _updated(i: HloInstructionProto,
             by_id: dict[int, HloInstructionProto]) -> list[int]:
  """The ids of operands that an instruction may be a new value of."""
  if i.opcode == 'get-tuple-element':
    barrier = by_id[i.operand_ids[0]]
    values = by_id[(*barrier.operand_ids, barrier.id)[0]]
    is_through = barrier.opcode == 'opt-barrier' and values.opcode == 'tuple'
    return [values.operand_ids[i.tuple_index]] if is_through else []
  if i.opcode in _VIEWS:
    return list(i.operand_ids)
  if i.opcode not in _UPDATES and not is_sharding_call(i):
    return []
  return [
      n for n in i.operand_ids
      if by_id[n].shape == i.shape or _dims(by_id[n]) == _dims(i)
  ]


def _viewed(views: _Views, i: HloInstructionProto,
            before: tuple[int, ...]) -> _Views:
  """The views with this one, which may lead back from the last of them."""
  order, dims = tuple(i.dimensions), dims_of(i)
  if views and len(views[-1][1]) == len(order):
    *rest, (first, taken) = views
    if not order:  # A reshape of a reshape.
      return (*rest, *([] if dims == first else [(first, ())]))
    if all(taken[k] == n for n, k in enumerate(order)):
      return tuple(rest)
  return views if dims == before and not order else (*views, (before, order))


def _dims(i: HloInstructionProto) -> object:
  return i.id if array_shape.is_tuple(i.shape) else dims_of(i)


def _order(annotation: Annotation) -> tuple[int, str]:
  """Sorts annotations as Shardy takes them; what has no priority comes first."""
  priority = annotation.priority or (None,) * len(annotation.partition_spec)
  levels = [
      level or 0
      for axes, level in zip(annotation.partition_spec, priority, strict=True)
      if axes or level is not None
  ]
  return min(levels, default=0), annotation.text
