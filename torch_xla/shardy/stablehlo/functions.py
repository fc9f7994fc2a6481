"""The main function of a module: types and attributes of what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from . import dialects
from ..hlo import array_shape
from ..hlo.array_shape import ArrayShape

ARGUMENTS, RESULTS = 'arg_attrs', 'res_attrs'
CUSTOM_CALL = 'stablehlo.custom_call'
SHARDING_ATTRIBUTE = 'mhlo.sharding'
SDY_ATTRIBUTE = 'sdy.sharding'
# A parameter that a result may take the memory of, as jax has XLA know it.
DONOR_ATTRIBUTE = 'jax.buffer_donor'
FRONTEND_ATTRIBUTES = 'mhlo.frontend_attributes'


def functions_of(module: Any) -> dict[str, Any]:
  """The functions of a module by their names."""
  return {
      operation.attributes['sym_name'].value: operation.operation
      for operation in module.body.operations
      if operation.operation.name == 'func.func'
  }


def main_of(module: Any) -> Any:
  """The function that a program is.

  Raises:
    ProgramTextError: it has none.
  """
  functions = functions_of(module)
  if 'main' not in functions:
    raise dialects.ProgramTextError('a program in MLIR without a function main')
  return functions['main']


def attributes_of(function: Any, which: str) -> list[dict[str, Any]]:
  """The attributes of each argument or result of a function, to be changed."""
  from jaxlib.mlir import ir
  if which in function.attributes:
    return [{
        a.name: a.attr for a in ir.DictAttr(one)
    } for one in ir.ArrayAttr(function.attributes[which])]
  return [{} for _ in types_of(function, which)]


def set_attributes(function: Any, which: str,
                   given: Iterable[Mapping[str, Any]]) -> None:
  """Within `dialects.scope`."""
  from jaxlib.mlir import ir
  function.attributes[which] = ir.ArrayAttr.get(
      [ir.DictAttr.get(dict(one)) for one in given])


def drop_attribute(function: Any, which: str, name: str) -> None:
  """Of all arguments or results; within `dialects.scope`."""
  given = attributes_of(function, which)
  if any(name in one for one in given):
    for one in given:
      one.pop(name, None)
    set_attributes(function, which, given)


def types_of(function: Any, which: str) -> list[Any]:
  from jaxlib.mlir import ir
  kind = ir.FunctionType(
      ir.TypeAttr(function.attributes['function_type']).value)
  return list(kind.inputs if which == ARGUMENTS else kind.results)


def set_types(function: Any, arguments: Iterable[Any],
              results: Iterable[Any]) -> None:
  """Within `dialects.scope`."""
  from jaxlib.mlir import ir
  function.attributes['function_type'] = ir.TypeAttr.get(
      ir.FunctionType.get(list(arguments), list(results)))


def returned_by(function: Any) -> Any:
  """The operation that returns the function's results."""
  return list(function.regions[0].blocks[0].operations)[-1]


def owner_of(value: Any) -> Optional[Any]:
  """The operation that a value is the result of; None for an argument."""
  from jaxlib.mlir import ir
  owner = value.owner
  return None if isinstance(owner, ir.Block) else owner.operation


def is_used(value: Any) -> bool:
  return any(True for _ in value.uses)


def array_of(kind: Any) -> Optional[ArrayShape]:
  """The array that a type is; None for tuples, tokens, dynamic shapes."""
  from jaxlib.mlir import ir
  if not dialects.is_a(kind, ir.RankedTensorType):
    return None
  tensor = ir.RankedTensorType(kind)
  if not tensor.has_static_shape:
    return None
  return array_shape.of_mlir(str(tensor.element_type), tensor.shape)


def custom_call(target: str, operand: Any, before: Any,
                attributes: Mapping[str, Any]) -> Any:
  """The result of a new call, of its operand's type; within a scope."""
  from jaxlib.mlir import ir
  with ir.InsertionPoint(before), before.location:
    return ir.Operation.create(
        CUSTOM_CALL,
        results=[operand.type],
        operands=[operand],
        attributes={
            'call_target_name': ir.StringAttr.get(target),
            **attributes
        }).results[0]


def target_of(operation: Optional[Any]) -> str:
  """What a custom call calls; empty for anything else."""
  if operation is None or operation.name != CUSTOM_CALL:
    return ''
  return operation.attributes['call_target_name'].value


def names_of(operation: Any) -> list[str]:
  """The names of an operation's attributes."""
  attributes = operation.attributes
  return [attributes[n].name for n in range(len(attributes))]
