"""Writes manual regions as XLA's importer for Shardy takes them, in HLO.

    before   b = f32[4,8] custom-call(a), target="SPMDFullToShardShape"
             m = f32[4,8] tanh(b)
             e = f32[8,8] custom-call(m), target="SPMDShardToFullShape"
    after    xla.sdy.manual_computation_body.1 { m = f32[4,8] tanh(p) .. }
             g = f32[4,8] custom-call(a), target="xla.sdy.GlobalToLocalShape",
               xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{"x"},
               {}], replicated={"y"}>]>",
               xla.sdy.manual_axes="#sdy<manual_axes{"x", "y"}>"
             k = f32[4,8] call(g), to_apply=xla.sdy.manual_computation_body.1
             e = f32[8,8] custom-call(k), target="xla.sdy.LocalToGlobalShape",
               xla.sdy.out_shardings=.., xla.sdy.manual_axes=..

Several values are a tuple. What a region uses from outside without its having
been split enters whole on each device; constants are made inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from ..compile.record import TensorRecord
from ..hlo import array_shape, messages
from ..hlo.editor import dims_of, Editor, set_attribute, set_program_shape
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sdy import attributes, manual
from ..sdy.constraints import Constraint, record_of
from ..sdy.manual import BEGIN_TARGET
from ..sdy.manual_graph import Region
from .manual_body import Body, shape_of, Value
from .manual_boundaries import RegionBoundary, SiteKey
from .manual_regions import is_sharding_call, ManualComputation


def outline(
    module: HloModuleProto, computations: Mapping[int, ManualComputation],
    mesh: attributes.Mesh, constraints: Mapping[SiteKey, Constraint]
) -> tuple[tuple[TensorRecord, ...], dict[SiteKey, Constraint], frozenset[int]]:
  """Writes all regions of an HloModuleProto message, in place.

  Returns:
    The tensors that are split, or put together, in order; how parameters and
    results that are manual are handed over, by computation and id; and the
    places of manual results.
  """
  editor = Editor(module)
  writers = {
      number: _ComputationWriter(editor, mesh, constraints, computation)
      for number, computation in computations.items()
  }
  for writer in writers.values():
    writer.run()
  if module.entry_computation_id in writers:
    entry = writers[module.entry_computation_id]
    set_program_shape(module)
    _drop_aliases(module, entry.parameters, entry.results)
  editor.add_computations((), {
      n: writer.bodies for n, writer in writers.items()
  })
  return (tuple(t for w in writers.values() for t in w.tensors), {
      key: c for w in writers.values() for key, c in w.stacked.items()
  }, frozenset(place for w in writers.values() for place in w.results))


def _drop_aliases(module: HloModuleProto, parameters: set[int],
                  results: set[int]) -> None:
  """Drops aliases of stacked tensors with others: XLA compares the shapes."""
  aliases = module.input_output_alias.entries
  for alias in list(aliases):
    is_stacked = bool(results.intersection(alias.output_shape_index or (0,)))
    if is_stacked != (alias.parameter_number in parameters):
      aliases.remove(alias)


class _ComputationWriter:
  """Writes the regions of one computation."""

  def __init__(self, editor: Editor, mesh: attributes.Mesh,
               constraints: Mapping[SiteKey,
                                    Constraint], source: ManualComputation):
    self._editor = editor
    self._mesh = mesh
    self._constraints = constraints
    self._source = source
    self._written: list[HloInstructionProto] = []
    # What came of the ends of regions and of manual values, by their ids.
    self._ended: dict[int, int] = {}
    self._stacked: dict[int, HloInstructionProto] = {}
    self._local: dict[int, bytes] = {}  # Shapes of manual parameters.
    self.number = source.number
    self.bodies: list[HloComputationProto] = []
    self.tensors: list[TensorRecord] = []
    self.stacked: dict[SiteKey, Constraint] = {}
    self.parameters: set[int] = set()
    self.results: set[int] = set()

  def run(self) -> None:
    source, computation = self._source, self._source.computation
    outside: dict[int, list[HloInstructionProto]] = {}
    for i in computation.instructions:
      if i.id in source.parameters or not source.carries_sharding(i):
        outside.setdefault(source.cut.stages[i.id], []).append(i)
    for stage in sorted({*outside, *source.cut.regions}):
      for i in outside.get(stage, ()):
        self._outside(i)
      for region in source.cut.regions.get(stage, ()):
        self._region(region)
    root = computation.root_id
    if root in self._stacked:
      self._hand_over(self._stacked[root])
      self.results.add(0)
      root = self._stacked[root].id
    computation.root_id = self._ended.get(root, root)
    del computation.instructions[:]
    computation.instructions.extend(self._written)

  def _outside(self, i: HloInstructionProto) -> None:
    if i.id in self._source.parameters:
      self.parameters.add(i.parameter_number)
      self._local[i.id] = i.shape
      i.shape = self._stacked_shape(i.shape, self._mesh.num_devices)
      self._stacked[i.id] = i
      self._hand_over(i)
    stacked = {}
    for place, operand in enumerate(i.operand_ids):
      if operand in self._stacked:
        stacked[place] = self._stacked[operand]
        i.operand_ids[place] = stacked[place].id
      else:
        i.operand_ids[place] = self._ended.get(operand, operand)
    if stacked:  # The program's results.
      self.results.update(stacked)
      shapes = array_shape.elements_of(i.shape)
      for place, value in stacked.items():
        self._hand_over(value)
        shapes[place] = value.shape
      i.shape = array_shape.tuple_of(shapes)
    self._written.append(i)

  def _region(self, region: Region[int]) -> None:
    body = Body(self._editor)
    begun: dict[int, int] = {}
    for m in self._source.members_of(region):
      if m.custom_call_target == BEGIN_TARGET:
        source = m.operand_ids[0]
        if source not in begun:
          begun[source] = body.enter(self._begin(m))
        body.inside[m.id] = begun[source]
        continue
      operands = [self._operand(body, o) for o in m.operand_ids]
      if is_sharding_call(m):
        body.inside[m.id], = operands
      else:
        body.add(m, operands)
    ends = list(self._source.ends_of(region))
    values = [self._value_of_end(body, end) for end in ends]
    for left in region.left:
      value, inside = self._source.by_id[left], body.inside[left]
      if not dims_of(value):
        inside = body.reshape(inside, self._stacked_shape(value.shape))
      values.append(self._stacked_value(inside, value.shape))
    if not values:
      return  # Nothing uses it.
    outputs = self._write(body, values)
    for end, whole in zip(ends, outputs, strict=False):
      if dims_of(end) != dims_of(whole):
        whole = self._editor.cut(self._source.computation, whole, dims_of(end))
        self._written.append(whole)
      self._ended[end.id] = whole.id
    self._stacked.update(zip(region.left, outputs[len(ends):], strict=True))

  def _operand(self, body: Body, operand: int) -> int:
    """The value in the body for an operand of a member."""
    if operand in body.inside:
      return body.inside[operand]
    outside = self._source.by_id[operand]
    if operand in self._stacked:
      shape = self._local.get(operand, outside.shape)
      inside = body.enter(self._stacked_value(self._stacked[operand].id, shape))
      if not array_shape.arrays_of(shape)[0].dims:
        inside = body.reshape(inside, shape)
      body.inside[operand] = inside
    elif self._is_constant(outside):
      body.add(
          outside, [self._operand(body, o) for o in outside.operand_ids],
          is_copied=True)
    else:
      body.inside[operand] = body.enter(
          Value(
              self._ended.get(operand, operand), outside.shape, outside.shape,
              (attributes.DimSharding(),) * len(dims_of(outside))))
    return body.inside[operand]

  def _is_constant(self, i: HloInstructionProto) -> bool:
    if i.opcode == 'broadcast':
      return not dims_of(self._source.by_id[i.operand_ids[0]])
    return i.opcode in ('constant', 'iota')

  def _begin(self, call: HloInstructionProto) -> Value:
    """The operand of a region in tiles, padded where these are not equal."""
    source = self._source.by_id[call.operand_ids[0]]
    constraint = self._constraints[RegionBoundary(self.number, source.id, True)]
    (shape,), (tile,) = map(array_shape.arrays_of, (source.shape, call.shape))
    dims = manual.even_dims(constraint.placement, tile)
    self._note(call, source.shape, constraint, source)
    whole = messages.make(
        HloInstructionProto,
        id=self._ended.get(source.id, source.id),
        shape=source.shape)
    if dims != shape.dims:
      *others, whole = self._editor.padded(self._source.computation, whole,
                                           dims)
      self._written.extend((*others, whole))
    return Value(whole.id, call.shape, whole.shape, constraint.dims)

  def _value_of_end(self, body: Body, end: HloInstructionProto) -> Value:
    operand = self._source.by_id[end.operand_ids[0]]
    constraint = self._constraints[RegionBoundary(self.number, end.id, False)]
    tile, = array_shape.arrays_of(operand.shape)
    self._note(end, end.shape, constraint, operand)
    dims = manual.even_dims(constraint.placement, tile)
    return Value(body.inside[operand.id], operand.shape,
                 array_shape.with_dims(end.shape, dims), constraint.dims)

  def _note(self, call: HloInstructionProto, shape: bytes,
            constraint: Constraint, source: HloInstructionProto) -> None:
    text = attributes.manual_attribute(self._mesh, [constraint.dims])
    record = record_of(call, constraint.placement, constraint.annotation, text,
                       source)
    whole, = array_shape.arrays_of(shape)
    self.tensors.append(dataclasses.replace(record, shape=whole))

  def _stacked_value(self, number: int, shape: bytes) -> Value:
    local = self._stacked_shape(shape)
    rank = len(array_shape.arrays_of(local)[0].dims)
    return Value(number, local,
                 self._stacked_shape(shape, self._mesh.num_devices),
                 manual.stacked(self._mesh, rank).dims)

  def _stacked_shape(self, shape: bytes, num_devices: int = 1) -> bytes:
    array, = array_shape.arrays_of(shape)
    return array_shape.with_dims(shape,
                                 manual.stacked_dims(array.dims, num_devices))

  def _hand_over(self, value: HloInstructionProto) -> None:
    """A stacked value enters or leaves the program."""
    self.stacked[self.number,
                 value.id] = manual.stacked(self._mesh, len(dims_of(value)))

  def _write(self, body: Body,
             values: Sequence[Value]) -> list[HloInstructionProto]:
    """Writes the calls of a region; what gives its values outside."""
    inputs = body.inputs
    entered = self._boundary(manual.ENTER_TARGET, manual.IN_ATTRIBUTE,
                             [i.id for i in inputs], [i.local for i in inputs],
                             inputs)
    self.bodies.append(body.finished(values))
    call = self._make(
        'call',
        self.bodies[-1].program_shape.result, [e.id for e in entered],
        called_computation_ids=[self.bodies[-1].id])
    for name, value in manual.NOT_INLINED.items():
      set_attribute(call, name, value)
    left = self._elements(call, [v.local for v in values])
    return self._boundary(manual.LEAVE_TARGET, manual.OUT_ATTRIBUTE,
                          [e.id for e in left], [v.whole for v in values],
                          values)

  def _boundary(self, target: str, name: str, operands: Sequence[int],
                shapes: Sequence[bytes],
                values: Sequence[Value]) -> list[HloInstructionProto]:
    if not operands:
      return []
    call = self._editor.call(
        self._source.computation,
        target,
        shape_of(shapes),
        operands,
        custom_call_has_side_effect=True)
    self._written.append(call)
    dims = [value.dims for value in values]
    if target == manual.ENTER_TARGET:
      # The constraint before it has them; jaxlib 0.10.2's Shardy refuses them
      # of a region whose parameters have nothing left to split.
      dims = [
          tuple(dataclasses.replace(d, priority=None)
                for d in of_value)
          for of_value in dims
      ]
    set_attribute(call, name, attributes.manual_attribute(self._mesh, dims))
    set_attribute(call, manual.AXES_ATTRIBUTE,
                  attributes.manual_axes_attribute(self._mesh))
    return self._elements(call, shapes)

  def _elements(self, call: HloInstructionProto,
                shapes: Sequence[bytes]) -> list[HloInstructionProto]:
    if len(shapes) == 1:
      return [call]
    return [
        self._make('get-tuple-element', shape, [call.id], tuple_index=n)
        for n, shape in enumerate(shapes)
    ]

  def _make(self, opcode: str, shape: bytes, operands: Sequence[int],
            **fields: Any) -> HloInstructionProto:
    instruction = self._editor.make(self._source.computation, opcode, shape,
                                    operands, **fields)
    self._written.append(instruction)
    return instruction
