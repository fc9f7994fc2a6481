"""Runs Shardy's propagation on a program in its dialect, and reads it."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping
import dataclasses
import functools
import os
import re
from typing import Optional

from . import infer_origins, moves
from ..hlo.array_shape import ArrayShape
from ..operation_names import module_of
from ..stablehlo import dialects, functions, signature
from ..stablehlo.functions import ARGUMENTS, RESULTS
from ..stablehlo.mlir import ir, sdy
from .propagation import (Dim, Factors, Move, Operation, Origin, Propagation,
                          Rule, Step, Tensor)

_IMPORT = 'builtin.module(sdy-import-pipeline)'
_PROPAGATE = ('builtin.module(sdy-user-priority-propagate{{keep-sharding-rules='
              'true debug-sharding-origins={0} '
              'debug-propagation-edge-sharding={0}}})')
# What nobody uses Shardy drops on its way, and then looks for its origins.
_WITHOUT_DEAD = 'builtin.module(trivial-dce)'
SHARDING = 'sdy.sharding'
_ORIGIN, _ORIGINS = 'sdy.sharding_origin_name', 'sdy.sharding_origins'
_CALL = 'func.call'
EDGE, CONSTRAINT = 'sdy.data_flow_edge', 'sdy.sharding_constraint'
_STEP = re.compile(r'step-(\d+)|'
                   r'\{"([^"]+)" = (operand|result)-(\d+) -> \[(.*?)\]\}')
_PLACE = re.compile(r'(operand|result)-(\d+)')
# A frame of a stack, in a location's text; the innermost comes first.
_FRAME = re.compile(r'"\("([^"]+)":(\d+):\d+\)')
_NOT_A_USERS = re.compile(r'^<|-packages/torch(_xla)?/|'
                          r'/lib\d*/python[\d.]+/(?!.*-packages/)')


def parse(program: bytes) -> ir.Module:
  """A module in Shardy's dialect, text or serialised, as XLA propagates it.

  Without calls, which a scan makes and XLA has inlined by then, and dead code.

  Raises:
    ProgramTextError: it cannot be read.
  """
  module = dialects.read(program)
  with dialects.scope(module):
    _inline(module)
  dialects.run(_WITHOUT_DEAD, module, 'cannot drop dead code')
  return module


def _inline(module: ir.Module) -> None:
  """Inlines calls, which MLIR's own pass does not do for StableHLO."""
  called = functions.functions_of(module)
  main = functions.main_of(module)
  while calls := [o for o in dialects.operations_of(main) if o.name == _CALL]:
    for call in calls:
      callee = ir.FlatSymbolRefAttr(call.attributes['callee']).value
      block = called[callee].clone().regions[0].blocks[0]
      for argument, value in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(value)
      *body, end = (o.operation for o in block.operations)
      for operation in body:
        operation.move_before(call)
      for result, value in zip(call.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
      call.erase()


def propagate(module: ir.Module,
              names: Mapping[int, str] = {},
              is_told: bool = False) -> Propagation:
  """Propagates a module in place and returns the result.

  Args:
    module: in Shardy's dialect, with one mesh.
    names: of arguments, where the module has none.
    is_told: whether Shardy tells where axes came from, which ends it in some
      programs; else it is inferred.

  Raises:
    ProgramTextError: Shardy does not take it, or it has no mesh.
  """
  import_it(module)
  with dialects.scope(module):
    origins = _origins(module, names)
  run_propagation(module, is_told)
  with dialects.scope(module):
    main = functions.main_of(module)
    reader = _Reader(main, names, origins)
    propagation = reader.read(_mesh(module))
    if not is_told:
      propagation = infer_origins.inferred(propagation, reader.annotated())
  return dataclasses.replace(
      propagation,
      names=names,
      moves=moves.planned_collectives(module, main, reader.operations,
                                      _local(propagation)))


def split(module: ir.Module) -> tuple[Tensor, ...]:
  """The tensors of a module, which is propagated in place; without names.

  Raises:
    ProgramTextError: as `propagate`.
  """
  import_it(module)
  run_propagation(module)
  return as_it_is(module, is_named=False)


def moved(module: ir.Module) -> tuple[Move, ...]:
  """The collectives that Shardy would add to a module, which is changed.

  Raises:
    ProgramTextError: as `propagate`.
  """
  import_it(module)
  run_propagation(module)
  return planned(module)


def planned(module: ir.Module) -> tuple[Move, ...]:
  """The collectives of a module after propagation, which is changed."""
  with dialects.scope(module):
    empty = Propagation(_mesh(module), {}, (), ())
  return moves.planned_collectives(module, functions.main_of(module), {},
                                   _local(empty))


def origins_of(module: ir.Module) -> dict[str, Origin]:
  """The annotations of a module, which is changed."""
  with dialects.scope(module):
    return _origins(module, {})


def as_it_is(module: ir.Module, is_named: bool) -> tuple[Tensor, ...]:
  """The tensors of a module that was propagated.

  Args:
    is_named: whether they have names that people read, which takes most of the
      time; else what makes them.
  """
  with dialects.scope(module):
    return _Reader(functions.main_of(module), {}, {}, is_named).tensors()


def import_it(module: ir.Module) -> None:
  dialects.run(_IMPORT, module, 'cannot import the program for Shardy')


def run_propagation(module: ir.Module, is_told: bool = False) -> None:
  dialects.run(
      _PROPAGATE.format(str(is_told).lower()), module, 'cannot propagate')


def _local(
    found: Propagation) -> Callable[[ArrayShape, ir.Attribute], ArrayShape]:
  return lambda shape, said: found.local(shape, _dims(said))


def constraints_of(module: ir.Module) -> list[ir.Operation]:
  """The constraints of a module, in the order in which Shardy counts them."""
  return [o for o in dialects.operations_of(module) if o.name == CONSTRAINT]


def named(main: ir.Operation) -> Iterator[tuple[str, str, ir.Operation]]:
  """A function's operations, in order: name, as people read it, and line.

  They are numbered, those of a module on their own.
  """
  counts: collections.Counter[str] = collections.Counter()
  made_at = functools.cache(lambda text: (module_of(text), _where(text)))
  for operation in _operations(main):
    module, where = made_at(str(operation.location))
    if operation.name not in (EDGE, CONSTRAINT):
      counts[module] += 1
    name = f'{operation.name.partition(".")[2]}.{counts[module]}'
    yield _of_module(name, module), where, operation


def _operations(main: ir.Operation) -> list[ir.Operation]:
  return dialects.operations_of(main)[:-1]  # Without itself.


def _mesh(module: ir.Module) -> dict[str, int]:
  meshes = [o for o in module.body.operations if o.operation.name == 'sdy.mesh']
  if len(meshes) != 1:
    raise dialects.ProgramTextError(
        f'a program with {len(meshes)} meshes: nothing is sharded by axes')
  mesh = sdy.MeshAttr(meshes[0].operation.attributes['mesh'])
  return {a.name: a.size for a in map(sdy.MeshAxisAttr, mesh.axes)}


def _origins(module: ir.Module, names: Mapping[int, str]) -> dict[str, Origin]:
  """What is said, by the names that Shardy will give it."""
  main = functions.main_of(module)
  returned = functions.returned_by(main).operands
  origins = {}
  for which, label in ((ARGUMENTS, 'input'), (RESULTS, 'output')):
    types = functions.types_of(main, which)
    for number, attributes in enumerate(functions.attributes_of(main, which)):
      if SHARDING in attributes and (shape := functions.array_of(
          types[number])):
        dims = _dims(attributes[SHARDING])
        if which == ARGUMENTS:
          name = _argument_name(number, attributes, names)
          origin = Origin(name, shape, dims, number)
        else:
          origin = _origin_of(f'result {number}', returned[number], shape, dims)
        origins[f'{label}: {number}'] = origin
  for number, operation in enumerate(constraints_of(module)):
    operation.attributes[_ORIGIN] = ir.StringAttr.get(f'constraint_{number}')
    shape = functions.array_of(operation.results[0].type)
    if shape:
      origins[f'constraint_{number}'] = _origin_of(
          f'constraint {number}', operation.results[0], shape,
          _dims(operation.attributes['sharding']))
  return origins


def _origin_of(name: str, value: ir.Value[ir.Type], shape: ArrayShape,
               dims: tuple[Dim, ...]) -> Origin:
  """What is said of a result or in the program, with what it is said of."""
  location = str(value.location)
  return Origin(
      _of_module(name, module_of(location)),
      shape,
      dims,
      where=_where(location))


def _of_module(name: str, module: str) -> str:
  return f'{name} of {module}' if module else name


def _argument_name(number: int, given: Mapping[str, ir.Attribute],
                   names: Mapping[int, str]) -> str:
  said = given.get(signature.INFO[ARGUMENTS])
  if said is not None:
    return ir.StringAttr(said).value
  return names.get(number, f'argument {number}')


def _where(location: str) -> str:
  """The innermost line not of torch or of Python, as `train.py:12`, or ''."""
  for frame in _FRAME.finditer(location):
    if not _NOT_A_USERS.search(frame[1]):
      return f'{os.path.basename(frame[1])}:{frame[2]}'
  return ''


def _dims(sharding: ir.Attribute) -> tuple[Dim, ...]:
  return tuple(
      Dim(tuple(map(_axis, d.axes)), d.is_closed, d.priority)
      for d in map(sdy.DimensionShardingAttr,
                   sdy.TensorShardingAttr(sharding).dimension_shardings))


def _axis(reference: ir.Attribute) -> str:
  axis = sdy.AxisRefAttr(reference)
  if axis.sub_axis_info is None:
    return str(axis.name)
  sub = sdy.SubAxisInfoAttr(axis.sub_axis_info)
  return f'{axis.name}:({sub.pre_size}){sub.size}'


class _Reader:
  """Reads one function main after propagation."""

  def __init__(self,
               main: ir.Operation,
               names: Mapping[int, str],
               origins: Mapping[str, Origin],
               is_named: bool = True):
    self._main, self._names, self._origins = main, names, origins
    self._named = list(named(main)) if is_named else [
        (o.name, '', o) for o in _operations(main)
    ]
    # MLIR has the same object for equal types and attributes.
    self._shape = functools.cache(functions.array_of)
    self._dims, self._rule = functools.cache(_dims), functools.cache(_rule)
    self._tensors: list[Tensor] = []
    self._numbers: dict[ir.Value[ir.Type], int] = {}
    # The numbers of operations, by their first results.
    self.operations: dict[ir.Value[ir.Type], int] = {}

  def tensors(self) -> tuple[Tensor, ...]:
    given = functions.attributes_of(self._main, ARGUMENTS)
    for number, value in enumerate(self._main.regions[0].blocks[0].arguments):
      self._add(value, _argument_name(number, given[number],
                                      self._names), given[number].get(SHARDING),
                given[number].get(_ORIGINS), f'input: {number}',
                _where(str(value.location)))
    for name, where, operation in self._named:
      self._add_results(name, where, operation)
    return tuple(self._tensors)

  def read(self, mesh: Mapping[str, int]) -> Propagation:
    tensors = self.tensors()
    operations_read: list[Operation] = []
    for _, _, operation in self._named:
      read = None if operation.name == EDGE else self._operation(operation)
      if read is not None:
        if len(operation.results):
          self.operations[operation.results[0]] = len(operations_read)
        operations_read.append(read)
    return Propagation(mesh, self._origins, tensors, tuple(operations_read))

  def _add(self,
           value: ir.Value[ir.Type],
           name: str,
           sharding: Optional[ir.Attribute],
           origins: Optional[ir.Attribute],
           own: str,
           where: str = '') -> None:
    shape = self._shape(value.type)
    if shape is None:
      return
    origins_by_axis = {} if origins is None else {
        axis: ir.StringAttr(origin).value
        for axis, origin in functions.entries_of(origins).items()
    }
    origins_by_axis = {
        axis: own if o == 'self' else o for axis, o in origins_by_axis.items()
    }
    if origin := self._origins.get(own):  # Shardy may call it its user's.
      origins_by_axis.update(
          {axis: own for dim in origin.dims for axis in dim.axes})
    dims = (Dim(),) * len(shape.dims) if sharding is None else self._dims(
        sharding)
    self._numbers[value] = len(self._tensors)
    self._tensors.append(
        Tensor(name, shape, dims, origins_by_axis,
               own if own in self._origins else '', where))

  def annotated(self) -> Iterator[tuple[str, int]]:
    """The origins, each with the tensor that it is said of."""
    for number, tensor in enumerate(self._tensors):
      if tensor.own:
        yield tensor.own, number
    for number, value in enumerate(functions.returned_by(self._main).operands):
      if (origin := f'output: {number}') in self._origins:
        yield origin, self._numbers[value]

  def _add_results(self, name: str, where: str,
                   operation: ir.Operation) -> None:
    attributes = dict(operation.attributes.items())
    origins = attributes.get(_ORIGINS)
    if operation.name == EDGE:
      self._lay_out(operation.operands[0], operation.results[0],
                    attributes.get('sharding'), origins)
      return
    if operation.name == CONSTRAINT:
      own = ir.StringAttr(
          attributes[_ORIGIN]).value if _ORIGIN in attributes else ''
      origin = self._origins.get(own)
      self._add(operation.results[0], origin.name if origin else name,
                attributes['sharding'], origins, own, where)
      return
    count = len(operation.results)
    shardings: list[Optional[ir.Attribute]] = [None] * count
    if SHARDING in attributes and dialects.is_a(attributes[SHARDING],
                                                sdy.TensorShardingPerValueAttr):
      shardings = list(
          sdy.TensorShardingPerValueAttr(attributes[SHARDING]).shardings)
    told = [None] * count if origins is None else list(ir.ArrayAttr(origins))
    for value, sharding, of_axes in zip(
        operation.results, shardings, told, strict=True):
      self._add(value, name, sharding, of_axes, '', where)

  def _lay_out(self, value: ir.Value[ir.Type], edge: ir.Value[ir.Type],
               sharding: Optional[ir.Attribute],
               origins: Optional[ir.Attribute]) -> None:
    """Has the value before an edge, and those of a loop's body, be the edge."""
    number = self._numbers.get(value)
    if number is not None:
      before = self._tensors[number]
      self._add(edge, before.name, sharding, origins, '', before.where)
      self._tensors[number] = self._tensors.pop()
      self._numbers[edge] = number
      self._alias(value, number)

  def _alias(self, value: ir.Value[ir.Type], number: int) -> None:
    """Has what a loop carries be the loop's result."""
    owner = functions.owner_of(value)
    if owner is None or owner.name != 'stablehlo.while':
      return
    place = [r == value for r in owner.results].index(True)
    for region in owner.regions:
      self._numbers[region.blocks[0].arguments[place]] = number

  def _operation(self, operation: ir.Operation) -> Optional[Operation]:
    values = [*operation.operands, *operation.results]
    if not all(v in self._numbers for v in values):
      return None
    attributes = operation.attributes
    numbers = tuple(self._numbers[v] for v in values)
    rule = None
    if 'sdy.sharding_rule' in attributes:
      rule = self._rule(attributes['sdy.sharding_rule'])
    steps: list[Step] = []
    if 'sdy.propagation_edges' in attributes:
      steps.extend(
          _steps(
              str(attributes['sdy.propagation_edges']), numbers,
              len(operation.operands)))
    name = self._tensors[numbers[-1]].name if operation.results else (
        operation.name)
    return Operation(name, numbers, len(operation.operands), rule, tuple(steps))


def _rule(attribute: ir.Attribute) -> Rule:
  rule = sdy.OpShardingRuleAttr(attribute)
  mappings = [*rule.operand_mappings, *rule.result_mappings]
  return Rule(
      tuple(rule.factor_sizes), tuple(map(_factors, mappings)),
      frozenset(
          [*rule.blocked_propagation_factors, *rule.need_replication_factors]))


def _factors(mapping: ir.Attribute) -> Factors:
  return tuple(
      tuple(d.factor_indices)
      for d in map(sdy.DimMappingAttr,
                   sdy.TensorMappingAttr(mapping).dim_mappings))


def _steps(text: str, numbers: tuple[int, ...],
           operands: int) -> Iterator[Step]:

  def number(kind: str, place: str) -> int:
    return numbers[int(place) + operands * (kind == 'result')]

  step = 0
  for match in _STEP.finditer(text):
    if match[1]:
      step = int(match[1])
      continue
    yield Step(step, match[2], number(match[3], match[4]),
               tuple(number(*target) for target in _PLACE.findall(match[5])))
