"""Lowers a program's shardings to Shardy's: HloModuleProto, in place.

XLA's importer for this route deletes every HLO sharding and reads just the
attribute `xla.sdy.sharding`, on parameters and on custom calls, so all that
GSPMD would have honoured is said again in that form:

    p0 = f32[8,4] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile..}
    p0 = .., xla.sdy.sharding="#sdy.sharding<@mesh, [{"x"}p1, {}]>"

- A parameter keeps the placement it is stored with, closed in every dimension.
  Where its annotation leaves a dimension open, a `Sharding` call after it does.
- A `Sharding` call, and any other instruction with a sharding of its own,
  becomes a constraint.
- A constrained result is pinned: torch_xla relies on its layout.
- What no user said (placements of tensors without an annotation, constraints
  that the runtime adds to a tensor updated in place) is as binding, but gets a
  priority after the last of the users': their order is decided first.

Shardy takes a dimension without a priority for p0, the highest.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple, Optional

from . import attributes, extract, mesh_axes
from ..annotate.annotation import Annotation
from ..hlo import array_shape, op_sharding
from ..hlo.array_shape import ArrayShape
from ..sharding.hlo_sharding import HloSharding, ShardingType
from ..sharding.tile_assignment import ShardingError
from .mesh_axes import InexpressibleError

_ATTRIBUTE = 'xla.sdy.sharding'
_MESHES = 'xla.sdy.meshes'
_RESULT_TARGET = 'xla.sdy.FuncResultSharding'
_MANUAL_TARGETS = ('SPMDFullToShardShape', 'SPMDShardToFullShape')
_API_VERSION_ORIGINAL = 1
_LOW_ID = 2**32 - 1
_REPLICATED = HloSharding.whole(ShardingType.REPLICATED)


class Tensor(NamedTuple):
  """One tensor that got a sharding.

  Attributes:
    parameter: its number, or None for an intermediate.
    instruction: the name of its instruction.
    placement: what it is stored with, or is constrained to.
    annotation: None where no user said anything.
    sdy: the attribute's value, as handed over.
    source: name and opcode of the instruction whose result it is.
  """
  parameter: Optional[int]
  instruction: str
  shape: ArrayShape
  placement: HloSharding
  annotation: Optional[Annotation]
  sdy: str
  source: tuple[str, str]


@dataclasses.dataclass(frozen=True)
class SdyProgram:
  """A module in Shardy's terms.

  Attributes:
    tensors: parameters by number, then constraints.
    results: placements that the compiled program must give, by result.
  """
  mesh: attributes.Mesh
  tensors: tuple[Tensor, ...]
  results: dict[int, HloSharding]


def lower(module: Any, taken: extract.Taken, num_devices: int) -> SdyProgram:
  """Lowers `module`, whose bindings and tags are taken out, in place.

  Raises:
    InexpressibleError: Shardy's terms do not say it all; the module may be half
      changed.
  """
  annotations = [*taken.parameters.values(), *taken.constraints.values()]
  meshes: dict[Any, int] = {}
  for annotation in annotations:
    meshes[annotation.mesh] = meshes.get(annotation.mesh, 0) + 1
  # The mesh that most tensors use, if it serves all of them.
  candidates = sorted(meshes, key=meshes.get, reverse=True)
  for i, user_mesh in enumerate(candidates):
    mesh = mesh_axes.mesh_of(user_mesh)
    if mesh.num_devices != num_devices:
      raise InexpressibleError(
          f'a mesh of {mesh.num_devices} devices in a program for {num_devices}'
      )
    is_last = i == len(candidates) - 1
    attempt = module if is_last else copy.deepcopy(module)
    try:
      program = _ModuleWriter(attempt, taken, mesh).run()
    except InexpressibleError:
      if is_last:
        raise
    else:
      if not is_last:
        module.CopyFrom(attempt)
      return program
  raise InexpressibleError('a program without a mesh')


class _Constraint(NamedTuple):
  dims: attributes.TensorSharding
  placement: HloSharding
  annotation: Optional[Annotation]

  @property
  def is_open(self) -> bool:
    """Whether it leaves a dimension open."""
    return not all(dim.closed for dim in self.dims)


class _ModuleWriter:
  """Writes one module over one mesh."""

  def __init__(self, module: Any, taken: extract.Taken, mesh: attributes.Mesh):
    self._module = module
    self._taken = taken
    self._mesh = mesh
    self._parameters: dict[int, Tensor] = {}
    self._constraints: list[Tensor] = []
    self._results: dict[int, HloSharding] = {}
    # XLA wants ids that differ in the lower half; newer ones count the
    # computations in the upper.
    self._next_low_id = 1 + max(
        (i.id & _LOW_ID for c in module.computations for i in c.instructions),
        default=0)
    given = [
        p for a in (*taken.parameters.values(), *taken.constraints.values())
        for p in a.priority or () if p is not None
    ]
    self._unsaid_priority = 1 + max(given) if given else None

  def run(self) -> SdyProgram:
    if self._module.HasField('spmd_output_sharding'):
      raise InexpressibleError('shardings given for the program\'s results')
    for computation in self._module.computations:
      self._computation(computation)
    _set_attribute(self._module, _MESHES,
                   attributes.meshes_attribute(self._mesh))
    parameters = tuple(self._parameters[n] for n in sorted(self._parameters))
    return SdyProgram(self._mesh, (*parameters, *self._constraints),
                      self._results)

  def _computation(self, computation: Any) -> None:
    is_entry = computation.id == self._module.entry_computation_id
    added: dict[int, Any] = {}  # After which instruction.
    constrained: dict[int, _Constraint] = {}
    by_id = {i.id: i for i in computation.instructions}
    for instruction in computation.instructions:
      _check_supported(instruction)
      if instruction.opcode == 'parameter' and is_entry:
        constraint = self._parameter(instruction)
        if constraint.is_open:
          added[instruction.id] = self._sharding_call(instruction, constraint)
      elif instruction.custom_call_target == extract.SHARDING_TARGET:
        key = computation.id, instruction.id
        constraint = self._constraint(instruction,
                                      self._taken.constraints.get(key))
        operand = by_id[instruction.operand_ids[0]]
        self._note(instruction, constraint, (operand.name, operand.opcode))
        constrained[instruction.id] = constraint
      elif instruction.HasField('sharding'):
        constraint = self._constraint(instruction, None)
        if constraint.dims:
          call = self._sharding_call(instruction, constraint)
          added[instruction.id] = call
          constrained[call.id] = constraint
        # Inside loops XLA keeps it, and libtpu then heeds no priorities there.
        instruction.ClearField('sharding')
    if added:
      _redirect(computation, added)
    if is_entry:
      self._pin_results(computation, constrained)

  def _parameter(self, instruction: Any) -> _Constraint:
    shape, = array_shape.arrays_of(instruction.shape)
    placement = _placement(instruction) or _REPLICATED
    constraint = self._constraint_of(
        placement, self._taken.parameters.get(instruction.parameter_number),
        len(shape.dims))
    closed = tuple(
        dataclasses.replace(dim, closed=True) if dim.axes else attributes.
        DimSharding() for dim in constraint.dims)
    text = attributes.sharding_attribute(self._mesh, closed)
    _set_attribute(instruction, _ATTRIBUTE, text)
    said = constraint.dims if constraint.is_open else closed
    self._parameters[instruction.parameter_number] = Tensor(
        instruction.parameter_number, instruction.name, shape, placement,
        constraint.annotation, attributes.sharding_attribute(self._mesh, said),
        (instruction.name, instruction.opcode))
    return constraint

  def _constraint(self, instruction: Any,
                  annotation: Optional[Annotation]) -> _Constraint:
    if array_shape.is_tuple(instruction.shape):
      raise InexpressibleError(f'a sharding on the tuple {instruction.name}')
    shape, = array_shape.arrays_of(instruction.shape)
    placement = _placement(instruction) or _REPLICATED
    return self._constraint_of(placement, annotation, len(shape.dims))

  def _constraint_of(self, placement: HloSharding,
                     annotation: Optional[Annotation],
                     rank: int) -> _Constraint:
    if annotation is not None and (len(annotation.partition_spec) != rank or
                                   annotation.sharding != placement):
      annotation = None  # Its tensor was given other data since.
    if annotation is not None:
      dims = mesh_axes.annotated_dims(annotation, self._mesh)
    else:
      dims = tuple(
          dataclasses.replace(dim, priority=self._unsaid_priority) if dim.
          axes else dim
          for dim in mesh_axes.dims_of(placement, self._mesh, rank))
    return _Constraint(dims, placement, annotation)

  def _note(self, instruction: Any, constraint: _Constraint,
            source: tuple[str, str]) -> None:
    """Puts the constraint on a `Sharding` call of `source`."""
    text = attributes.per_value_attribute(self._mesh, constraint.dims)
    _set_attribute(instruction, _ATTRIBUTE, text)
    shape, = array_shape.arrays_of(instruction.shape)
    self._constraints.append(
        Tensor(None, instruction.name, shape, constraint.placement,
               constraint.annotation, text, source))

  def _sharding_call(self, operand: Any, constraint: _Constraint) -> Any:
    call = self._call(operand, extract.SHARDING_TARGET, constraint.dims)
    call.sharding = op_sharding.to_bytes(constraint.placement)
    return call

  def _call(self, operand: Any, target: str,
            dims: attributes.TensorSharding) -> Any:
    call = type(operand)(
        name=f'shardy.{self._next_low_id}',
        opcode='custom-call',
        shape=operand.shape,
        custom_call_target=target,
        id=operand.id & ~_LOW_ID | self._next_low_id,
        operand_ids=[operand.id],
        custom_call_api_version=_API_VERSION_ORIGINAL)
    self._next_low_id += 1
    _set_attribute(call, _ATTRIBUTE,
                   attributes.per_value_attribute(self._mesh, dims))
    return call

  def _pin_results(self, computation: Any,
                   constrained: dict[int, _Constraint]) -> None:
    by_id = {i.id: i for i in computation.instructions}
    root = by_id[computation.root_id]
    is_tuple = root.opcode == 'tuple'
    results = list(root.operand_ids) if is_tuple else [root.id]
    pins = []
    for place, result in enumerate(results):
      constraint = constrained.get(result)
      if constraint is None or constraint.is_open:
        continue
      pin = self._call(by_id[result], _RESULT_TARGET, constraint.dims)
      pins.append(pin)
      self._results[place] = constraint.placement
      if is_tuple:
        root.operand_ids[place] = pin.id
      else:
        computation.root_id = pin.id
    if pins:
      rest = [i for i in computation.instructions if i.id != root.id]
      # The root uses the pins, or is what the pin uses.
      order = [*rest, *pins, root] if is_tuple else [*rest, root, *pins]
      del computation.instructions[:]
      computation.instructions.extend(order)


def _redirect(computation: Any, added: dict[int, Any]) -> None:
  """Has all uses of an instruction use what is added after it."""
  instructions = []
  for instruction in computation.instructions:
    for place, operand in enumerate(instruction.operand_ids):
      if operand in added:
        instruction.operand_ids[place] = added[operand].id
    instructions.append(instruction)
    if instruction.id in added:
      instructions.append(added[instruction.id])
  if computation.root_id in added:
    computation.root_id = added[computation.root_id].id
  del computation.instructions[:]
  computation.instructions.extend(instructions)


def _placement(instruction: Any) -> Optional[HloSharding]:
  if not instruction.HasField('sharding'):
    return None
  try:
    return op_sharding.from_bytes(instruction.sharding)
  except ShardingError as e:
    raise InexpressibleError(f'a sharding that is not understood: {e}') from e


def _check_supported(instruction: Any) -> None:
  if instruction.custom_call_target in _MANUAL_TARGETS:
    raise InexpressibleError(
        f'manual sharding ({instruction.custom_call_target})')
  if instruction.HasField('domain_entry_sharding'):
    raise InexpressibleError('a sharding domain')
  if instruction.opcode == 'parameter' and array_shape.is_tuple(
      instruction.shape) and instruction.HasField('sharding'):
    raise InexpressibleError(
        'parameters that are handed over as one tuple (torch_xla does that '
        'from XLA_PARAMETER_WRAPPING_THREADSHOLD, 3200, on)')


def _set_attribute(message: Any, key: str, value: str) -> None:
  entries = message.frontend_attributes.map
  for entry in entries:
    if entry.key == key:
      entry.value = value
      return
  entries.add(key=key, value=value)
