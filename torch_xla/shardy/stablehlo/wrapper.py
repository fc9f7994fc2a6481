"""Takes away the function that a program of many parameters is wrapped in.

From XLA_PARAMETER_WRAPPING_THREADSHOLD parameters on torch_xla hands them over
as one tuple. In MLIR that leaves a `main` that only calls the program, and the
shardings of parameters are said of the latter:

    before   func @main(%a) { %0 = call @f(%a); return %0 }
             func private @f(%a {mhlo.sharding = ..}) { .. }
    after    func @main(%a {mhlo.sharding = ..}) { .. }
"""

from __future__ import annotations

from typing import Any, Optional

from . import dialects
from ..sharding.text import parse_sharding
from .functions import (ARGUMENTS, attributes_of, main_of, owner_of, RESULTS,
                        returned_by, set_attributes, SHARDING_ATTRIBUTE,
                        types_of)

_CALL, _TUPLE = 'func.call', 'stablehlo.tuple'
_ELEMENT = 'stablehlo.get_tuple_element'


def unwrap(module: Any) -> None:
  """Makes the function that `main` merely calls `main`, in place.

  Raises:
    ProgramTextError: there is no main, or the shardings of its parameters are
      said of another function that it does not merely call.
  """
  from jaxlib.mlir import ir
  main = main_of(module)
  inner = _inner_of(module, main)
  if inner is None:
    _check_said_of_main(module, main)
    return
  with dialects.scope(module):
    outer = attributes_of(main, ARGUMENTS)
    given = attributes_of(inner, ARGUMENTS)
    set_attributes(inner, ARGUMENTS, [{**i, **o} for i, o in zip(given, outer)])
    results = _results_of(main, inner)
    _return_leaves(inner)
    kinds = types_of(main, RESULTS)
    inner.attributes['function_type'] = ir.TypeAttr.get(
        ir.FunctionType.get(types_of(inner, ARGUMENTS), kinds))
    set_attributes(inner, RESULTS, results)
    main.erase()
    inner.attributes['sym_name'] = ir.StringAttr.get('main')
    if 'sym_visibility' in inner.attributes:
      del inner.attributes['sym_visibility']


def _inner_of(module: Any, main: Any) -> Optional[Any]:
  """The function that main hands its arguments to, and whose results it gives.
  """
  block = main.regions[0].blocks[0]
  call = block.operations[0].operation
  if call.name != _CALL or list(call.operands) != list(block.arguments):
    return None
  if not _gives_results_of(main, call):
    return None
  name, callers, inner = call.attributes['callee'].value, 0, None
  for operation in module.body.operations:
    operation = operation.operation
    if operation.name == 'func.func' and (operation.attributes['sym_name'].value
                                          == name):
      inner = operation
    callers += _calls(operation, name)
  if inner is None or callers != 1 or len(types_of(inner, ARGUMENTS)) != len(
      block.arguments):
    return None
  end = returned_by(inner)
  if len(end.operands) == 1 and _gives_tuple(call):
    maker = owner_of(end.operands[0])
    if maker is None or maker.name != _TUPLE:
      return None
  return inner


def _gives_tuple(call: Any) -> bool:
  from jaxlib.mlir import ir
  return len(call.results) == 1 and dialects.is_a(call.results[0].type,
                                                  ir.TupleType)


def _gives_results_of(main: Any, call: Any) -> bool:
  """Whether main returns a call's results, each once and in order."""
  from jaxlib.mlir import ir
  returned = list(returned_by(main).operands)
  between = list(main.regions[0].blocks[0].operations)[1:-1]
  if not _gives_tuple(call):
    return not between and returned == list(call.results)
  kinds = ir.TupleType(call.results[0].type).num_types
  if not len(between) == len(returned) == kinds:
    return False
  return all(
      operation.operation.name == _ELEMENT and operation.operands[0] ==
      call.results[0] and operation.attributes['index'].value == number and
      operation.results[0] == value
      for number, (operation, value) in enumerate(zip(between, returned)))


def _calls(function: Any, name: str) -> int:
  """How often a function calls, or otherwise names, another one."""
  from jaxlib.mlir import ir
  count = 0

  def look(operation: Any) -> Any:
    nonlocal count
    if operation.name == _CALL:
      count += operation.attributes['callee'].value == name
    elif 'decomposition' in operation.attributes:
      count += operation.attributes['decomposition'].value == name
    return ir.WalkResult.ADVANCE

  function.walk(look)
  return count


def _results_of(main: Any, inner: Any) -> list[dict[str, Any]]:
  """What is said of results, by either function; of leaves."""
  from jaxlib.mlir import ir
  results = attributes_of(main, RESULTS)
  given = attributes_of(inner, RESULTS)
  if len(given) == len(results):
    return [{**i, **o} for i, o in zip(given, results)]
  if SHARDING_ATTRIBUTE in given[0]:
    said = parse_sharding(ir.StringAttr(given[0][SHARDING_ATTRIBUTE]).value)
    leaves = said.elements or (said,) * len(results)
    for one, leaf in zip(results, leaves):
      one.setdefault(SHARDING_ATTRIBUTE, ir.StringAttr.get(str(leaf)))
  return results


def _return_leaves(inner: Any) -> None:
  from jaxlib.mlir import ir
  end = returned_by(inner).operation
  maker = owner_of(end.operands[0]) if len(end.operands) == 1 else None
  if maker is None or maker.name != _TUPLE:
    return
  with ir.InsertionPoint(end), end.location:
    ir.Operation.create('func.return', operands=list(maker.operands))
  end.erase()
  maker.erase()


def _check_said_of_main(module: Any, main: Any) -> None:
  for operation in module.body.operations:
    operation = operation.operation
    if operation.name == 'func.func' and operation != main and any(
        SHARDING_ATTRIBUTE in one
        for one in attributes_of(operation, ARGUMENTS)):
      name = operation.attributes['sym_name'].value
      raise dialects.ProgramTextError(
          f'shardings of parameters are said of the function {name}, which '
          'main does not merely call')
