"""Writes manual regions as operations of the sdy dialect, in MLIR.

    before   %b = stablehlo.custom_call @SPMDFullToShardShape(%a)
             %m = stablehlo.tanh %b
             %e = stablehlo.custom_call @SPMDShardToFullShape(%m)
    after    %e = sdy.manual_computation(%a)
                 in_shardings=[<@mesh, [{"x"}, {}], replicated={"y"}>]
                 out_shardings=[<@mesh, [{"x"}, {}], replicated={"y"}>]
                 manual_axes={"x", "y"} (%p: tensor<4x8xf32>) {
               %m = stablehlo.tanh %p
               sdy.return %m
             }

What enters and leaves is as in `sdy.manual_outline`, which does so for HLO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Any, NamedTuple, Optional

from . import dialects, manual_arrays
from ..hlo.array_shape import ArrayShape
from ..sdy import attributes, manual
from ..sdy.extract import SHARDING_TARGET
from ..sdy.lowering import Constraint, Tensor
from ..sdy.manual import BEGIN_TARGET, END_TARGET
from ..sdy.manual_graph import Region
from .functions import (array_of, main_of, owner_of, returned_by, set_types,
                        SHARDING_ATTRIBUTE, target_of)
from .manual_blocks import Boundary, ManualBlock

OPERATION, RETURN = 'sdy.manual_computation', 'sdy.return'
IN, OUT, AXES = 'in_shardings', 'out_shardings', 'manual_axes'


@dataclasses.dataclass
class Written:
  """What is known of regions that are written.

  Attributes:
    tensors: those that are split, or put together, in order.
    arguments: manual ones, as they are stacked, by number.
    results: likewise.
  """
  tensors: list[Tensor] = dataclasses.field(default_factory=list)
  arguments: dict[int, Constraint] = dataclasses.field(default_factory=dict)
  results: dict[int, Constraint] = dataclasses.field(default_factory=dict)


class _Value(NamedTuple):
  """One that enters or leaves a region, and how it is split without."""
  value: Any
  kind: Any
  dims: attributes.TensorSharding


def write(module: Any, found: Sequence[ManualBlock], mesh: attributes.Mesh,
          constraints: Mapping[Any, Constraint]) -> Written:
  """Writes all regions of a module, in place, within its scope."""
  written = Written()
  for number, block in enumerate(found):
    _BlockWriter(number, block, mesh, constraints, written).run()
  main = main_of(module)
  if found:
    block = main.regions[0].blocks[0]
    set_types(main, [argument.type for argument in block.arguments],
              [value.type for value in returned_by(main).operands])
  return written


class _BlockWriter:
  """Writes the regions of one block."""

  def __init__(self, number: int, found: ManualBlock, mesh: attributes.Mesh,
               constraints: Mapping[Any, Constraint], written: Written):
    self._number = number
    self.found = found
    self._mesh = mesh
    self._constraints = constraints
    self._written = written
    # Manual values as they are stacked, with their types within.
    self._stacked: dict[Any, tuple[Any, Any]] = {}
    # Erased last: until then no other value is taken for theirs.
    self._dead: list[Any] = []

  def run(self) -> None:
    from jaxlib.mlir import ir
    found = self.found
    for argument in found.arguments:
      kind = argument.type
      argument.set_type(self._stacked_type(kind, self._mesh.num_devices))
      self._stacked[argument] = argument, kind
      self._written.arguments[ir.BlockArgument(
          argument).arg_number] = self._constraint(kind)
    outside: dict[int, list[Any]] = {}
    *operations, last = found.operations
    for place, operation in enumerate(operations):
      if place not in found.cut.manual and target_of(operation) != END_TARGET:
        outside.setdefault(found.cut.stages[place], []).append(operation)
    for stage in sorted({*outside, *found.cut.regions}):
      for operation in outside.get(stage, ()):
        operation.move_before(last)
      for region in found.cut.regions.get(stage, ()):
        with ir.InsertionPoint(last), ir.Location.unknown():
          self._region(region)
    for place, value in enumerate(last.operands):
      if value in self._stacked:
        last.operands[place], kind = self._stacked[value]
        self._written.results[place] = self._constraint(kind)
    for operation in reversed(self._dead):
      operation.erase()

  def _region(self, region: Region[int]) -> None:
    from jaxlib.mlir import ir
    found = self.found
    ends = [found.operations[place] for place in region.ends]
    left = found.left(set(region.members))
    operations = [found.operations[place] for place in region.members]
    if not ends and not left:
      self._dead.extend(operations)  # Nothing uses it.
      return
    entering = _Entering(self, region)
    inputs = entering.inputs
    outputs = [
        *(self._end(place, end) for place, end in zip(region.ends, ends)),
        *(self._stacked_value(value, value.type) for value in left)
    ]
    made = ir.Operation.create(
        OPERATION,
        results=[o.kind for o in outputs],
        operands=[i.value for i in inputs.values()],
        attributes={
            IN:
                self._shardings(inputs.values()),
            OUT:
                self._shardings(outputs),
            AXES:
                ir.Attribute.parse(
                    attributes.manual_axes_attribute(self._mesh))
        },
        regions=1)
    kinds = entering.kinds
    block = made.regions[0].blocks.append(
        *kinds, arg_locs=[ir.Location.unknown()] * len(kinds))
    with ir.InsertionPoint(block):
      within = {
          value: manual_arrays.reshaped(argument, kind) for value, kind, argument
          in zip(inputs, entering.within, block.arguments)
      }
      for value, owner in entering.constants.items():
        within[value] = _with_operands(owner.clone(), within).results[0]
      within.update(
          (value, within[first]) for value, first in entering.same.items())
      for operation in operations:
        self._take_in(block, operation, within)
      returned = [
          *(end.operands[0] for end in ends),
          *left,
      ]
      returned = [within.get(value, value) for value in returned]
      returned[len(ends):] = [
          manual_arrays.reshaped(value, self._stacked_type(value.type))
          for value in returned[len(ends):]
      ]
      ir.Operation.create(RETURN, operands=returned)
    for end, result in zip(ends, made.results):
      end.results[0].replace_all_uses_with(
          manual_arrays.cut(result, end.results[0].type))
    self._dead.extend(ends)
    for value, result in zip(left, list(made.results)[len(ends):]):
      self._stacked[value] = result, value.type

  def _take_in(self, block: Any, operation: Any, within: dict[Any,
                                                              Any]) -> None:
    target = target_of(operation)
    if target == SHARDING_TARGET:
      operand = operation.operands[0]
      within[operation.results[0]] = within.get(operand, operand)
    if target in (SHARDING_TARGET, BEGIN_TARGET):
      self._dead.append(operation)
      return
    if SHARDING_ATTRIBUTE in operation.attributes:
      del operation.attributes[SHARDING_ATTRIBUTE]
    block.append(_with_operands(operation, within))

  def begin(self, place: int) -> _Value:
    """What enters a region in tiles, padded where these are not equal."""
    call = self.found.operations[place]
    constraint = self._constraints[Boundary(self._number, place)]
    source, local = call.operands[0], array_of(call.results[0].type)
    self._note(call, array_of(source.type), constraint, source)
    dims = manual.even_dims(constraint.placement, local)
    padded = manual_arrays.padded(source, dims)
    return _Value(padded, padded.type, constraint.dims)

  def _end(self, place: int, end: Any) -> _Value:
    """What leaves a region, in equal tiles."""
    constraint = self._constraints[Boundary(self._number, place)]
    value, result = end.operands[0], end.results[0]
    self._note(end, array_of(result.type), constraint, value)
    dims = manual.even_dims(constraint.placement, array_of(value.type))
    return _Value(value, manual_arrays.with_dims(result.type, dims),
                  constraint.dims)

  def _note(self, call: Any, shape: ArrayShape, constraint: Constraint,
            source: Any) -> None:
    name = f'region.{len(self._written.tensors)}'
    text = attributes.manual_attribute(self._mesh, [constraint.dims])
    self._written.tensors.append(
        Tensor(None, name, shape, constraint.placement, constraint.annotation,
               text, (name, target_of(call))))

  def stacked_input(self, value: Any) -> Optional[tuple[_Value, Any]]:
    """How a manual value enters that is of another region, or an argument.

    Returns:
      That, and its type within; None for any other value.
    """
    if value not in self._stacked:
      return None
    stacked, kind = self._stacked[value]
    return self._stacked_value(stacked, kind), kind

  def _stacked_value(self, value: Any, kind: Any) -> _Value:
    return _Value(value, self._stacked_type(kind, self._mesh.num_devices),
                  self._constraint(kind).dims)

  def _stacked_type(self, kind: Any, num_devices: int = 1) -> Any:
    return manual_arrays.with_dims(
        kind, manual.stacked_dims(array_of(kind).dims, num_devices))

  def _constraint(self, kind: Any) -> Constraint:
    return manual.stacked(self._mesh, max(1, len(array_of(kind).dims)))

  def _shardings(self, values: Iterable[_Value]) -> Any:
    from jaxlib.mlir import ir
    return ir.Attribute.parse(
        attributes.manual_attribute(self._mesh, [v.dims for v in values]))


class _Entering:
  """What enters a region.

  Attributes:
    inputs: by the values that the region uses; of tensors that are split, the
      first call that does so gives them.
    kinds: the types of these where they enter.
    within: those that they have for the region.
    constants: operations that are made again within, by what they give.
    same: values that are another one of `inputs`.
  """

  def __init__(self, writer: _BlockWriter, region: Region[int]):
    self._writer = writer
    self._found = writer.found
    self._members = set(region.members)
    self.inputs: dict[Any, _Value] = {}
    self.kinds: list[Any] = []
    self.within: list[Any] = []
    self.constants: dict[Any, Any] = {}
    self.same: dict[Any, Any] = {}
    begun: dict[Any, Any] = {}
    for place in region.members:
      operation = self._found.operations[place]
      if target_of(operation) == BEGIN_TARGET:
        source, value = operation.operands[0], operation.results[0]
        if source in begun:
          self.same[value] = begun[source]
        else:
          begun[source] = value
          self._enter(value, writer.begin(place), value.type)
        continue
      for value in self._found.used[place]:
        self._look_at(value)

  def _look_at(self, value: Any) -> None:
    if (self._found.places.get(value) in self._members or
        value in self.inputs or value in self.constants):
      return
    owner = owner_of(value)
    if (stacked := self._writer.stacked_input(value)) is not None:
      whole, kind = stacked
      dims = manual.stacked_dims(array_of(kind).dims)
      self._enter(value, whole, kind, manual_arrays.with_dims(kind, dims))
    elif owner is not None and _is_constant(owner):
      for operand in owner.operands:
        self._look_at(operand)
      self.constants[value] = owner
    else:
      rank = len(array_of(value.type).dims)
      whole = (attributes.DimSharding(),) * rank
      self._enter(value, _Value(value, value.type, whole), value.type)

  def _enter(self,
             key: Any,
             value: _Value,
             kind: Any,
             handed_over: Optional[Any] = None) -> None:
    self.inputs[key] = value
    self.within.append(kind)
    self.kinds.append(handed_over or kind)


def _is_constant(operation: Any) -> bool:
  if operation.name == 'stablehlo.broadcast_in_dim':
    return not array_of(operation.operands[0].type).dims
  return operation.name in ('stablehlo.constant', 'stablehlo.iota')


def _with_operands(operation: Any, within: Mapping[Any, Any]) -> Any:
  """An operation that, with all in it, uses other values."""
  for inner in dialects.operations_of(operation):
    for place, value in enumerate(inner.operands):
      if value in within:
        inner.operands[place] = within[value]
  return operation
