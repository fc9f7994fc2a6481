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
- Manual regions become computations of their own: `manual_outline`.

`sdy.constraints` decides which sharding each site gets.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
import dataclasses

from . import extract, manual_boundaries, manual_outline, manual_regions
from ..annotate.annotation import UserMesh
from ..compile.record import TensorRecord
from ..hlo import array_shape, op_sharding
from ..hlo.editor import (dims_of, Editor, insert, replace_results, results_of,
                          set_attribute)
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sdy import attributes, constraints
from ..sdy.constraints import Constraint, SdyProgram, Site
from ..sdy.mesh_axes import InexpressibleError
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..v2 import holding
from .extract import InstructionKey
from .manual_boundaries import SiteKey
from .manual_regions import is_sharding_call, ManualComputation, placement

ATTRIBUTE = 'xla.sdy.sharding'
MESHES = 'xla.sdy.meshes'
RESULT_TARGET = 'xla.sdy.FuncResultSharding'


def lower_shardings(module: HloModuleProto,
                    taken_calls: extract.Annotations,
                    num_devices: int,
                    meshes: Iterable[UserMesh] = (),
                    names: Mapping[int, str] = {}) -> SdyProgram:
  """Lowers `module`, whose bindings and tags are taken out, in place.

  Args:
    meshes: as for `constraints.decide`.
    names: the users' names of parameters, by number.

  Raises:
    InexpressibleError, SdyError: Shardy's terms do not say it all; the module
      is as it was.
    ManualShardingError: nor do anybody's.
  """
  if module.HasField('spmd_output_sharding'):
    raise InexpressibleError('shardings given for the program\'s results')
  regions = manual_regions.find(module)
  boundaries = manual_boundaries.sites(regions)
  begun = {(b.computation, b.instruction) for b in boundaries if b.is_begin}
  annotations = [
      *taken_calls.parameters.values(), *taken_calls.constraints.values()
  ]
  mesh, decided = constraints.decide(
      _sites(module, taken_calls, regions, begun) | boundaries, annotations,
      num_devices, meshes)
  tensors: tuple[TensorRecord, ...] = ()
  manual_results: frozenset[int] = frozenset()
  if regions:
    tensors, stacked, manual_results = manual_outline.outline(
        module, regions, mesh, decided)
    decided = {**decided, **stacked}
  written = _ModuleWriter(module, mesh, decided, names).run()
  return dataclasses.replace(
      written,
      tensors=(*written.tensors, *tensors),
      manual_results=manual_results)


def _sites(module: HloModuleProto, taken_calls: extract.Annotations,
           regions: Mapping[int, ManualComputation],
           begun: Container[InstructionKey]) -> dict[InstructionKey, Site]:
  """The parameters of the program, and whatever else has a sharding."""
  sites = {}
  for computation in module.computations:
    is_entry = computation.id == module.entry_computation_id
    region = regions.get(computation.id)
    for instruction in computation.instructions:
      if region is not None and region.carries_sharding(instruction):
        continue
      _check_supported(instruction)
      key = computation.id, instruction.id
      annotation = repeated = taken_calls.repeated.get(key)
      is_boundary = False
      open_dims: tuple[int, ...] = ()
      if _is_parameter(instruction) and is_entry:
        annotation = taken_calls.parameters.get(instruction.parameter_number)
      elif is_sharding_call(instruction):
        annotation = taken_calls.constraints.get(key, repeated)
        is_boundary = key in begun
        open_dims = holding.open_dims(instruction.backend_config.decode())
      elif not instruction.HasField('sharding'):
        continue
      if array_shape.is_tuple(instruction.shape):
        raise InexpressibleError(f'a sharding on the tuple {instruction.name}')
      sites[key] = Site(
          placement(instruction) or REPLICATED, len(dims_of(instruction)),
          annotation, is_boundary, open_dims, repeated is not None)
  return sites


def _is_parameter(instruction: HloInstructionProto) -> bool:
  return instruction.opcode == 'parameter'


class _ModuleWriter:
  """Writes constraints into one module."""

  def __init__(self, module: HloModuleProto, mesh: attributes.Mesh,
               decided: Mapping[SiteKey, Constraint], names: Mapping[int, str]):
    self._module = module
    self._mesh = mesh
    self._decided = decided
    self._names = names
    self._parameters: dict[int, TensorRecord] = {}
    self._constraints: list[TensorRecord] = []
    self._results: dict[int, HloSharding] = {}
    self._open_results: dict[int, Constraint] = {}
    self._editor = Editor(module)

  def run(self) -> SdyProgram:
    for computation in self._module.computations:
      self._computation(computation)
    set_attribute(self._module, MESHES, attributes.meshes_attribute(self._mesh))
    parameters = tuple(self._parameters[n] for n in sorted(self._parameters))
    return SdyProgram(self._mesh, (*parameters, *self._constraints),
                      self._results, self._open_results)

  def _computation(self, computation: HloComputationProto) -> None:
    is_entry = computation.id == self._module.entry_computation_id
    added: dict[int, HloInstructionProto] = {}  # After which instruction.
    constrained: dict[int, Constraint] = {}
    by_id = {i.id: i for i in computation.instructions}
    for instruction in computation.instructions:
      constraint = self._decided.get((computation.id, instruction.id))
      if constraint is None:
        continue
      if _is_parameter(instruction) and is_entry:
        self._parameter(instruction, constraint)
        if constraint.is_open:
          added[instruction.id] = self._sharding_call(computation, instruction,
                                                      constraint)
      elif is_sharding_call(instruction):
        operand = by_id[instruction.operand_ids[0]]
        self._note(instruction, constraint, operand)
        constrained[instruction.id] = constraint
      else:
        if constraint.dims:
          call = self._sharding_call(computation, instruction, constraint)
          added[instruction.id] = call
          constrained[call.id] = constraint
        # Inside loops XLA keeps it, and libtpu then heeds no priorities there.
        instruction.ClearField('sharding')
    if added:
      insert(computation, {
          k: (call,) for k, call in added.items()
      }, {
          k: call.id for k, call in added.items()
      })
    if is_entry:
      self._pin_results(computation, constrained)

  def _parameter(self, instruction: HloInstructionProto,
                 constraint: Constraint) -> None:
    text = attributes.sharding_attribute(self._mesh, constraint.closed)
    set_attribute(instruction, ATTRIBUTE, text)
    if constraint.is_open:
      text = attributes.sharding_attribute(self._mesh, constraint.dims)
    number = instruction.parameter_number
    self._parameters[number] = constraints.record_of(
        instruction,
        constraint.placement,
        constraint.annotation,
        text,
        number=number,
        name=self._names.get(number, ''))

  def _note(self, instruction: HloInstructionProto, constraint: Constraint,
            source: HloInstructionProto) -> None:
    """Puts the constraint on a `Sharding` call of `source`."""
    text = attributes.sharding_per_value(self._mesh, constraint.dims,
                                         constraint.unreduced)
    set_attribute(instruction, ATTRIBUTE, text)
    # Nobody marked what a pass holds.
    if not constraint.constrains_whole_tensor or (
        constraint.annotation is None and holding.is_hold(instruction)):
      return
    self._constraints.append(
        constraints.record_of(instruction, constraint.placement,
                              constraint.annotation, text, source))

  def _sharding_call(self, computation: HloComputationProto,
                     operand: HloInstructionProto,
                     constraint: Constraint) -> HloInstructionProto:
    call = self._call(computation, operand, extract.SHARDING_TARGET,
                      constraint.dims)
    call.sharding = op_sharding.to_bytes(constraint.placement)
    return call

  def _call(self, computation: HloComputationProto,
            operand: HloInstructionProto, target: str,
            dims: attributes.TensorSharding) -> HloInstructionProto:
    call = self._editor.call(computation, target, operand.shape, [operand.id])
    set_attribute(call, ATTRIBUTE,
                  attributes.sharding_per_value(self._mesh, dims))
    return call

  def _pin_results(self, computation: HloComputationProto,
                   constrained: dict[int, Constraint]) -> None:
    pins = {}
    for place, result in enumerate(results_of(computation)):
      constraint = constrained.get(result.id)
      if constraint is None:
        continue
      is_closed = constraint.unreduced or constraint.is_stored
      if constraint.is_open and not is_closed:
        self._open_results[place] = constraint
      else:
        # A part of a sum is no result: it is added up.
        dims = constraint.closed if is_closed else constraint.dims
        pin = self._call(computation, result, RESULT_TARGET, dims)
        pins[place] = (pin,)
        self._results[place] = constraint.placement
    if pins:
      replace_results(computation, pins)


def _check_supported(instruction: HloInstructionProto) -> None:
  if instruction.HasField('domain_entry_sharding'):
    raise InexpressibleError('a sharding domain')
  if instruction.opcode == 'parameter' and array_shape.is_tuple(
      instruction.shape) and instruction.HasField('sharding'):
    raise InexpressibleError(
        'parameters that are handed over as one tuple (torch_xla does that '
        'from XLA_PARAMETER_WRAPPING_THREADSHOLD, 3200, on)')
