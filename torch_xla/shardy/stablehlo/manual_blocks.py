"""Finds the manual regions of a program in MLIR, as `sdy.manual_regions` does.

    %b = stablehlo.custom_call @SPMDFullToShardShape(%a)
    %m = stablehlo.tanh %b
    %k = stablehlo.custom_call @Sharding(%m) {mhlo.sharding = "{manual}"}
    %e = stablehlo.custom_call @SPMDShardToFullShape(%k) {mhlo.sharding = ..}

Operations are known by their places in a block. What they use includes what the
operations in them use: a loop's body may use values from around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import dataclasses
from typing import Any, NamedTuple, Optional

from . import dialects
from ..hlo.array_shape import ArrayShape
from ..sdy import manual_graph
from ..sdy.extract import SHARDING_TARGET
from ..sdy.lowering import MANUAL, Site
from ..sdy.manual import (BEGIN_TARGET, boundary, END_TARGET, MANUAL_TARGETS,
                          marked_error, unsupported)
from ..sdy.manual_graph import Cut, Node, Role
from ..sharding.hlo_sharding import HloSharding
from .extract import Taken
from .functions import (ARGUMENTS, array_of, attributes_of, functions_of,
                        main_of, owner_of, RESULTS, SHARDING_ATTRIBUTE,
                        target_of)

_CALL = 'func.call'
# Gives the sharding that attributes say, if any.
PlacementOf = Callable[[Mapping[str, Any]], Optional[HloSharding]]


class Boundary(NamedTuple):
  """Where a tensor is split for a region, or put together after it.

  Attributes:
    block: its number among those with regions.
    operation: the place of the call that begins or ends the region.
  """
  block: int
  operation: int


@dataclasses.dataclass(frozen=True)
class ManualBlock:
  """A block with manual values.

  Attributes:
    operations: in order.
    places: of operations, by the values that they give; an argument of the
      program that is manual has its number in `arguments`, from -1 down.
    used: the values that each operation uses.
    arguments: manual arguments of the program.
  """
  block: Any
  operations: list[Any]
  places: dict[Any, int]
  used: list[list[Any]]
  arguments: list[Any]
  cut: Cut[int]

  def said_of(self) -> Iterator[Any]:
    """The values of which all that is said is said by regions."""
    for place, operation in enumerate(self.operations):
      if place in self.cut.manual or target_of(operation) == END_TARGET:
        yield from operation.results

  def begun(self) -> Iterator[Any]:
    """The values that are split for regions."""
    for operation in self.operations:
      if target_of(operation) == BEGIN_TARGET:
        yield operation.operands[0]

  def left(self, members: set[int]) -> list[Any]:
    """The values that members give to others, other than ends of regions."""
    found: dict[Any, None] = {}
    for place, used in enumerate(self.used):
      if place not in members and target_of(
          self.operations[place]) != END_TARGET:
        for value in used:
          if self.places.get(value) in members:
            found[value] = None
    return list(found)


def find(module: Any, taken: Taken,
         placement_of: PlacementOf) -> list[ManualBlock]:
  """The blocks with manual values, in order.

  Raises:
    InexpressibleError, ManualShardingError: regions that Shardy, or nobody, can
      have.
  """
  main = main_of(module)
  manual_arguments = [
      argument for argument, given in zip(main.regions[0].blocks[0].arguments,
                                          attributes_of(main, ARGUMENTS))
      if placement_of(given) == MANUAL
  ]
  if not (manual_arguments or taken.calls & set(MANUAL_TARGETS) or any(
      placement_of(call.attributes) == MANUAL
      for call in taken.sharding_calls)):
    return []
  marked = _marked(module)
  found = []
  for name, function in functions_of(module).items():
    for block in _blocks_in(function):
      operations = [operation.operation for operation in block.operations]
      is_main = name == 'main' and block == main.regions[0].blocks[0]
      given = manual_arguments if is_main else []
      if given or any(
          _role(o, placement_of) is not Role.PLAIN for o in operations):
        found.append(
            _find(block, operations, given, is_main, marked, placement_of))
        if is_main:
          _check_results(main, found[-1], placement_of)
  return found


def _check_results(main: Any, found: ManualBlock,
                   placement_of: PlacementOf) -> None:
  returned = found.operations[-1].operands
  for number, (value,
               given) in enumerate(zip(returned, attributes_of(main, RESULTS))):
    said = placement_of(given)
    if said not in (None,
                    MANUAL) and found.places.get(value) in found.cut.manual:
      raise marked_error(f'result {number}', said, name_of(owner_of(value)))


def _blocks_in(root: Any) -> Iterator[Any]:
  for operation in dialects.operations_of(root):
    for region in operation.regions:
      yield from region.blocks


def _marked(module: Any) -> set[str]:
  """The functions that say something of shardings, or call one that does."""
  marked: set[str] = set()
  calls: dict[str, set[str]] = {}
  for name, function in functions_of(module).items():
    calls[name] = set()
    for operation in dialects.operations_of(function):
      if _says(operation):
        marked.add(name)
      if operation.name == _CALL:
        calls[name].add(operation.attributes['callee'].value)
  while more := [
      n for n, to in calls.items() if n not in marked and to & marked
  ]:
    marked.update(more)
  return marked


def _says(operation: Any) -> bool:
  return target_of(operation) in (SHARDING_TARGET, *MANUAL_TARGETS)


def _role(operation: Any, placement_of: PlacementOf) -> Role:
  target = target_of(operation)
  if target == BEGIN_TARGET:
    return Role.BEGIN
  if target == END_TARGET:
    return Role.END
  if (SHARDING_ATTRIBUTE in operation.attributes and
      placement_of(operation.attributes) == MANUAL):
    return Role.MANUAL
  return Role.PLAIN


def _find(block: Any, operations: list[Any], arguments: list[Any],
          is_main: bool, marked: set[str],
          placement_of: PlacementOf) -> ManualBlock:
  places = {value: -1 - n for n, value in enumerate(arguments)}
  used = []
  nodes = [Node(place, (), Role.GIVEN, '') for place in places.values()]
  for place, operation in enumerate(operations):
    used.append(_used(operation))
    role = _role(operation, placement_of)
    if is_main and place == len(operations) - 1:
      role = Role.RESULTS
    uses = tuple(places[value] for value in used[-1] if value in places)
    nodes.append(Node(place, uses, role, name_of(operation)))
    for value in operation.results:
      places[value] = place
  found = ManualBlock(block, operations, places, used, arguments,
                      manual_graph.cut(nodes))
  _check(found, marked, placement_of)
  return found


def _used(operation: Any) -> list[Any]:
  """The values from around an operation that it uses, and all in it."""
  *inner, _ = dialects.operations_of(operation)
  used = list(operation.operands)
  made: set[Any] = set()
  for o in inner:
    used.extend(o.operands)
    made.update(o.results)
  for o in (*inner, operation) if inner else ():
    for region in o.regions:
      for block in region.blocks:
        made.update(block.arguments)
  return [value for value in used if value not in made]


def _check(found: ManualBlock, marked: set[str],
           placement_of: PlacementOf) -> None:
  manual = found.cut.manual
  for place, operation in enumerate(found.operations):
    name = name_of(operation)
    if place not in manual:
      if (target_of(operation) == END_TARGET and
          found.places.get(operation.operands[0]) not in manual):
        raise unsupported(name, 'it ends a region that nothing began')
      continue
    if place == len(found.operations) - 1:
      raise unsupported(
          name, 'a manual value that leaves a loop or function; call '
          'disable_manual_sharding before it does')
    said = None
    if SHARDING_ATTRIBUTE in operation.attributes:
      said = placement_of(operation.attributes)
    if said not in (None, MANUAL):
      source = next(
          v for v in found.used[place] if found.places.get(v) in manual)
      raise marked_error(name, said, name_of(owner_of(source)))
    *inner, _ = dialects.operations_of(operation)
    if any(map(_says, inner)) or any(
        o.name == _CALL and o.attributes['callee'].value in marked
        for o in (*inner, operation)):
      raise unsupported(
          name, 'a loop or function in it that marks tensors, or begins or '
          'ends another')
    for value in found.used[place]:
      if found.places.get(value) not in manual and array_of(value.type) is None:
        raise unsupported(name, f'{value.type}, which is no array')
  for region in found.cut.all_regions:
    for value in found.left(set(region.members)):
      if array_of(value.type) is None:
        raise unsupported(
            name_of(owner_of(value)), 'a manual value that is no array and is '
            'used in another region, or is a result')


def name_of(operation: Optional[Any]) -> str:
  """What people are told of an operation; None is an argument."""
  if operation is None:
    return 'an argument of the program'
  kinds = ', '.join(str(value.type) for value in operation.results)
  return f'{target_of(operation) or operation.name} of type {kinds}'


def sites(found: list[ManualBlock],
          placement_of: PlacementOf) -> dict[Boundary, Site]:
  """Where regions say how tensors are split.

  Raises:
    InexpressibleError: what is split has no sharding, or is no array.
    ManualShardingError: a local shape that the sharding does not give.
  """
  said = {}
  for number, block in enumerate(found):
    for place, operation in enumerate(block.operations):
      target = target_of(operation)
      if target not in MANUAL_TARGETS:
        continue
      operand, result = operation.operands[0], operation.results[0]
      whole, local = operand, result
      given = _given(operand)
      if target == END_TARGET:
        whole, local, given = result, operand, operation.attributes
      name = name_of(operation)
      placement = placement_of(given)
      if placement is None:
        raise unsupported(name, 'a tensor without a sharding; mark it first')
      said[Boundary(number, place)] = boundary(placement, _array(whole, name),
                                               _array(local, name), name)
  return said


def _given(value: Any) -> Mapping[str, Any]:
  """The attributes of what gives a value."""
  from jaxlib.mlir import ir
  owner = owner_of(value)
  if owner is not None:
    return owner.attributes
  function = value.owner.owner.operation
  if function.name != 'func.func':
    return {}
  return attributes_of(function, ARGUMENTS)[ir.BlockArgument(value).arg_number]


def _array(value: Any, name: str) -> ArrayShape:
  array = array_of(value.type)
  if array is None:
    raise unsupported(name, f'{value.type} is no array of known dimensions')
  return array
