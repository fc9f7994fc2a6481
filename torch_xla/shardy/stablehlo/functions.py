"""The main function of a module: types and attributes of what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Optional

from . import dialects
from ..hlo import array_shape
from ..hlo.array_shape import ArrayShape
from .mlir import ir

ARGUMENTS, RESULTS = 'arg_attrs', 'res_attrs'
CUSTOM_CALL = 'stablehlo.custom_call'
SHARDING_ATTRIBUTE = 'mhlo.sharding'
SDY_ATTRIBUTE = 'sdy.sharding'
# A parameter that a result may take the memory of, as jax has XLA know it.
DONOR_ATTRIBUTE = 'jax.buffer_donor'
FRONTEND_ATTRIBUTES = 'mhlo.frontend_attributes'


def functions_of(module: ir.Module) -> dict[str, ir.Operation]:
  """The functions of a module by their names."""
  return {
      ir.StringAttr(operation.attributes['sym_name']).value: operation
      for operation in dialects.children_of(module)
      if operation.name == 'func.func'
  }


def main_of(module: ir.Module) -> ir.Operation:
  """The function that a program is."""
  functions = functions_of(module)
  if 'main' not in functions:
    raise dialects.ProgramTextError('a program in MLIR without a function main')
  return functions['main']


def attributes_of(function: ir.Operation,
                  which: str) -> list[dict[str, ir.Attribute]]:
  """The attributes of each argument or result of a function, to be changed."""
  if which in function.attributes:
    return [*map(entries_of, ir.ArrayAttr(function.attributes[which]))]
  return [{} for _ in types_of(function, which)]


def entries_of(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
  """The entries of a dictionary attribute, by name."""
  given = ir.DictAttr(attribute)
  return {given[n].name: given[n].attr for n in range(len(given))}


def set_attributes(function: ir.Operation, which: str,
                   given: Iterable[Mapping[str, ir.Attribute]]) -> None:
  """Sets the attributes of arguments or results, in `dialects.scope`."""
  function.attributes[which] = ir.ArrayAttr.get(
      [ir.DictAttr.get(dict(attributes)) for attributes in given])


def drop_attribute(function: ir.Operation, which: str, name: str) -> None:
  """Drops an attribute of all arguments or results, in `dialects.scope`."""
  given = attributes_of(function, which)
  if any(name in attributes for attributes in given):
    for attributes in given:
      attributes.pop(name, None)
    set_attributes(function, which, given)


def types_of(function: ir.Operation, which: str) -> list[ir.Type]:
  kind = ir.FunctionType(
      ir.TypeAttr(function.attributes['function_type']).value)
  return list(kind.inputs if which == ARGUMENTS else kind.results)


def set_types(function: ir.Operation, arguments: Iterable[ir.Type],
              results: Iterable[ir.Type]) -> None:
  """Sets the types of a function, in `dialects.scope`."""
  function.attributes['function_type'] = ir.TypeAttr.get(
      ir.FunctionType.get(list(arguments), list(results)))


def returned_by(function: ir.Operation) -> ir.Operation:
  """The operation that returns the function's results."""
  return dialects.operations_of(function)[-2]  # The last is the function.


def owner_of(value: ir.Value[ir.Type]) -> Optional[ir.Operation]:
  """The operation that a value is the result of; None for an argument."""
  owner = value.owner
  return None if isinstance(owner, ir.Block) else owner.operation


def is_used(value: ir.Value[ir.Type]) -> bool:
  return any(True for _ in value.uses)


def array_of(kind: ir.Type) -> Optional[ArrayShape]:
  """The array that a type is; None for tuples, tokens, dynamic shapes."""
  if not dialects.is_a(kind, ir.RankedTensorType):
    return None
  tensor = ir.RankedTensorType(kind)
  if not tensor.has_static_shape:
    return None
  return array_shape.from_mlir(str(tensor.element_type), tensor.shape)


def custom_call(target: str, operand: ir.Value[ir.Type], before: ir.Operation,
                attributes: Mapping[str, ir.Attribute]) -> ir.Operation:
  """A new call, which gives what has its operand's type; within a scope."""
  with ir.InsertionPoint(before), before.location:
    return ir.Operation.create(
        CUSTOM_CALL,
        results=[operand.type],
        operands=[operand],
        attributes={
            'call_target_name': ir.StringAttr.get(target),
            **attributes
        })


def target_of(operation: Optional[ir.Operation]) -> str:
  """The target of a custom call; empty for anything else."""
  if operation is None or operation.name != CUSTOM_CALL:
    return ''
  return ir.StringAttr(operation.attributes['call_target_name']).value


def names_of(operation: ir.Operation) -> list[str]:
  """The names of an operation's attributes."""
  attributes = operation.attributes
  return [attributes[n].name for n in range(len(attributes))]


def constrain(value: ir.Value[ir.Type], sharding: ir.Attribute) -> ir.Operation:
  """A constraint on a value, where operations are inserted now."""
  return ir.Operation.create(
      'sdy.sharding_constraint',
      results=[value.type],
      operands=[value],
      attributes={'sharding': sharding})
