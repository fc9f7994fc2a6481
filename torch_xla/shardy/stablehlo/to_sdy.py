"""Lowers a program's shardings to Shardy's: a module in MLIR, in place.

    before   %arg0: .. {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile..}"}
             %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = ..}
    after    sdy.mesh @mesh = <["x"=2, "y"=4]>
             %arg0: .. {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>}
             %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y"}]>

What is said is decided in `sdy.lowering`, for programs in HLO as well, and the
rules for where it is said are those of `sdy.to_sdy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import functools
from typing import Any, Optional

from . import dialects, manual_blocks, manual_computation, tuples
from .convolutions import open_dims_of
from ..annotate.annotation import UserMesh
from ..hlo.array_shape import ArrayShape
from ..sdy import attributes, lowering
from ..sdy.lowering import Constraint, SdyProgram, Site, Tensor
from ..sdy.mesh_axes import InexpressibleError
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..sharding.text import parse_sharding
from ..sharding.tile_assignment import ShardingError
from .extract import Taken
from .functions import (ARGUMENTS, array_of, Arrays, attributes_of, main_of,
                        RESULTS, returned_by, SDY_ATTRIBUTE, set_attributes,
                        SHARDING_ATTRIBUTE, types_of)
from .manual_blocks import ManualBlock
from .manual_computation import Written

# What a site is called: its kind, and its number among those of the kind.
ARGUMENT, _CALL, _OPERATION, _RESULT = 'argument', 'call', 'operation', 'result'


def lower(module: Any,
          taken: Taken,
          num_devices: int,
          meshes: Iterable[UserMesh] = ()) -> SdyProgram:
  """Lowers `module`, whose bindings and tags are taken out, in place.

  Args:
    meshes: as for `lowering.lower`.

  Raises:
    InexpressibleError, SdyError: Shardy's terms do not say it all; the module
      is as it was.
    ManualShardingError: nor do anybody's.
  """
  arrays = Arrays()
  regions = manual_blocks.find(module, taken, placement_of)
  boundaries = manual_blocks.sites(regions, placement_of)
  sites = _sites(module, taken, arrays, regions)
  annotations = [*taken.parameters.values(), *taken.constraints.values()]
  mesh, constraints = lowering.lower({
      **sites,
      **boundaries
  }, annotations, num_devices, meshes)
  with dialects.scope(module):
    manual = manual_computation.write(module, regions, mesh, constraints)
    program = _ModuleWriter(module, mesh, constraints, arrays,
                            manual).run(taken)
  tuples.flatten(module)
  return program


def placement_of(given: Mapping[str, Any]) -> Optional[HloSharding]:
  """What an argument's, result's or operation's `mhlo.sharding` says.

  Raises:
    InexpressibleError: it is not understood.
  """
  from jaxlib.mlir import ir
  if SHARDING_ATTRIBUTE not in given:
    return None
  try:
    return _parsed(ir.StringAttr(given[SHARDING_ATTRIBUTE]).value)
  except ShardingError as e:
    raise InexpressibleError(f'a sharding that is not understood: {e}') from e


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> HloSharding:
  # `_XLAC` lists devices: long in records and notes.
  return parse_sharding(text).canonical()


def _sites(module: Any, taken: Taken, arrays: Arrays,
           regions: Sequence[ManualBlock]) -> dict[Any, Site]:
  main = main_of(module)
  sites = {}
  manual = {value for block in regions for value in block.said_of()}
  begun = {value for block in regions for value in block.begun()}
  for number, (given, kind) in enumerate(
      zip(attributes_of(main, ARGUMENTS), types_of(main, ARGUMENTS))):
    placement = placement_of(given) or REPLICATED
    if placement == lowering.MANUAL:
      continue
    sites[ARGUMENT,
          number] = Site(placement,
                         _rank(arrays(kind), kind, f'the parameter {number}'),
                         taken.parameters.get(number))
  for number, call in enumerate(taken.sharding_calls):
    if call.results[0] not in manual:
      site = _site_of(arrays, call, 'a Sharding call',
                      taken.constraints.get(number))
      sites[_CALL, number] = site._replace(
          is_boundary=call.results[0] in begun, open_dims=open_dims_of(call))
  for number, operation in enumerate(taken.sharded):
    if manual.isdisjoint(operation.results):
      sites[_OPERATION, number] = _site_of(arrays, operation, operation.name)
  for number, (given, kind) in enumerate(
      zip(attributes_of(main, RESULTS), types_of(main, RESULTS))):
    placement = placement_of(given)
    if placement not in (None, lowering.MANUAL):
      sites[_RESULT,
            number] = Site(placement,
                           _rank(arrays(kind), kind, f'result {number}'))
  return sites


def _site_of(arrays: Arrays,
             operation: Any,
             what: str,
             annotation: Any = None) -> Site:
  if len(operation.results) != 1:
    raise InexpressibleError(f'a sharding on the tuple {what}')
  kind = operation.results[0].type
  return Site(
      placement_of(operation.attributes) or REPLICATED,
      _rank(arrays(kind), kind, what), annotation)


def _rank(array: Optional[ArrayShape], kind: Any, what: str) -> int:
  if array is None:
    raise InexpressibleError(f'{what}, which is {kind} and no array')
  return len(array.dims)


class _ModuleWriter:
  """Writes constraints into one module, within its scope."""

  def __init__(self, module: Any, mesh: attributes.Mesh,
               constraints: Mapping[Any, Constraint], arrays: Arrays,
               manual: Written):
    self._arrays = arrays
    self._manual = manual
    self._module = module
    self._main = main_of(module)
    self._end = returned_by(self._main).operation
    self._mesh = mesh
    self._given = {
        **constraints,
        **{
            (ARGUMENT, n): c for n, c in manual.arguments.items()
        },
        **{
            (_RESULT, n): c for n, c in manual.results.items()
        },
    }
    # Made once of each: the text, and the attribute.
    self._said: dict[attributes.TensorSharding, tuple[str, Any]] = {}
    self._parameters: list[Tensor] = []
    self._constraints: list[Tensor] = []
    self._pins: dict[int, Constraint] = {}
    self._open_results: dict[int, Constraint] = {}
    self._results: dict[int, HloSharding] = {}

  def run(self, taken: Taken) -> SdyProgram:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy
    for number, call in enumerate(taken.sharding_calls):
      constraint = self._given.get((_CALL, number))
      if constraint is None:
        continue  # In a manual region.
      if constraint.is_tensors:
        self._note(call, constraint)
      made = self._constrain(call.operands[0], constraint, call)
      call.results[0].replace_all_uses_with(made)
      call.erase()
      self._pin_where_returned(made, constraint)
    for number, operation in enumerate(taken.sharded):
      constraint = self._given.get((_OPERATION, number))
      if constraint is None:
        continue
      if constraint.dims:
        made = self._constrain_after(operation.results[0], constraint,
                                     operation)
        self._pin_where_returned(made, constraint)
      del operation.attributes[SHARDING_ATTRIBUTE]
    self._write_arguments()
    self._write_results()
    with ir.InsertionPoint.at_block_begin(self._module.body):
      sdy.mesh(attributes.MESH_NAME, ir.Attribute.parse(str(self._mesh)))
    return SdyProgram(
        self._mesh,
        (*self._parameters, *self._constraints, *self._manual.tensors),
        self._results, self._open_results, frozenset(self._manual.results))

  def _say(self, dims: attributes.TensorSharding) -> tuple[str, Any]:
    """The sharding's text and its attribute."""
    from jaxlib.mlir import ir
    if dims not in self._said:
      text = attributes.sharding_attribute(self._mesh, dims)
      self._said[dims] = text, ir.Attribute.parse(text)
    return self._said[dims]

  def _constrain(self, value: Any, constraint: Constraint, before: Any) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy
    with ir.InsertionPoint(before), before.location:
      return sdy.sharding_constraint(value, self._say(constraint.dims)[1])

  def _constrain_after(self, value: Any, constraint: Constraint,
                       operation: Any) -> Any:
    """Has all uses of an operation's result use what is constrained."""
    made = self._constrain(value, constraint, operation)
    made.owner.move_after(operation)
    value.replace_all_uses_except(made, made.owner.operation)
    return made

  def _write_arguments(self) -> None:
    block = self._main.regions[0].blocks[0]
    first = block.operations[0]
    given = attributes_of(self._main, ARGUMENTS)
    for number, (argument, one) in enumerate(zip(block.arguments, given)):
      constraint = self._given[ARGUMENT, number]
      one.pop(SHARDING_ATTRIBUTE, None)
      one[SDY_ATTRIBUTE] = self._say(constraint.closed)[1]
      dims = constraint.closed
      if constraint.is_open:
        dims = constraint.dims
        made = self._constrain(argument, constraint, first)
        argument.replace_all_uses_except(made, made.owner.operation)
      name = f'arg{number}'
      self._parameters.append(
          Tensor(number, name, self._arrays(argument.type),
                 constraint.placement, constraint.annotation,
                 attributes.sharding_attribute(self._mesh,
                                               dims), (name, 'parameter')))
    if given:
      set_attributes(self._main, ARGUMENTS, given)

  def _pin_where_returned(self, value: Any, constraint: Constraint) -> None:
    """A result that is constrained is pinned: torch_xla relies on it."""
    said = self._open_results if constraint.is_open else self._pins
    for use in value.uses:
      if use.owner.operation == self._end:
        said[use.operand_number] = constraint

  def _write_results(self) -> None:
    given = attributes_of(self._main, RESULTS)
    for number, one in enumerate(given):
      constraint = self._given.get((_RESULT, number), self._pins.get(number))
      if constraint is not None:
        one.pop(SHARDING_ATTRIBUTE, None)
        one[SDY_ATTRIBUTE] = self._say(constraint.dims)[1]
        self._results[number] = constraint.placement
    if any(given):
      set_attributes(self._main, RESULTS, given)

  def _note(self, call: Any, constraint: Constraint) -> None:
    name = f'constraint.{len(self._constraints)}'
    self._constraints.append(
        Tensor(None, name, self._arrays(call.results[0].type),
               constraint.placement, constraint.annotation,
               self._say(constraint.dims)[0], (name, 'sharding_constraint')))


def pin_results(module: Any, program: SdyProgram) -> dict[int, HloSharding]:
  """Pins every result that is not: as it is marked, otherwise replicated.

  For a backend that does not tell how it laid out what nobody told it.

  Returns:
    The placement of each result, in order.
  """
  from jaxlib.mlir import ir
  placements = dict(program.results)
  with dialects.scope(module):
    main = main_of(module)
    given = attributes_of(main, RESULTS)
    for number, (one, kind) in enumerate(zip(given, types_of(main, RESULTS))):
      if number in placements or (array := array_of(kind)) is None:
        continue
      dims = (attributes.DimSharding(),) * len(array.dims)
      placements[number] = REPLICATED
      if (said := program.open_results.get(number)) is not None:
        dims, placements[number] = said.closed, said.placement
      one[SDY_ATTRIBUTE] = ir.Attribute.parse(
          attributes.sharding_attribute(program.mesh, dims))
    set_attributes(main, RESULTS, given)
  return {number: placements[number] for number in sorted(placements)}
