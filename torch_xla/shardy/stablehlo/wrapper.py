"""Takes away the function that a program of many parameters is wrapped in.

From XLA_PARAMETER_WRAPPING_THREADSHOLD parameters on torch_xla hands them over
as one tuple. In MLIR that leaves a `main` that only calls the program, and the
shardings of parameters are said of the latter:

    before   func @main(%a) { %0 = call @f(%a); return %0 }
             func private @f(%a {mhlo.sharding = ..}) { .. }
    after    func @main(%a {mhlo.sharding = ..}) { .. }
"""

from __future__ import annotations

from typing import Any

from . import dialects, tuples
from ..sharding.text import parse_sharding
from .functions import (ARGUMENTS, attributes_of, functions_of, main_of,
                        RESULTS, returned_by, set_attributes, set_types,
                        SHARDING_ATTRIBUTE, types_of)

_CALL = 'func.call'


def unwrap(module: Any) -> None:
  """Makes the function that `main` merely calls `main`, in place.

  Raises:
    ProgramTextError: there is no main, or the shardings of its parameters are
      said of another function that it does not merely call.
  """
  main = main_of(module)
  block = main.regions[0].blocks[0]
  call = block.operations[0].operation
  if call.name == _CALL and list(call.operands) == list(block.arguments):
    inner = functions_of(module)[call.attributes['callee'].value]
    results = _said_of_results(main, inner)
    tuples.flatten(module)
    if _merely_calls(module, main, inner):
      _replace(module, main, inner, results)
      return
  _check_said_of_main(module, main)


def _merely_calls(module: Any, main: Any, inner: Any) -> bool:
  """Whether main gives what a function gives that nobody else calls."""
  call, *between = list(main.regions[0].blocks[0].operations)[:-1]
  name = inner.attributes['sym_name'].value
  named = [
      operation for operation in dialects.operations_of(module)
      for attribute in ('callee', 'decomposition')
      if attribute in operation.attributes and
      operation.attributes[attribute].value == name
  ]
  return (len(named) == 1 and not between and
          list(returned_by(main).operands) == list(call.results))


def _replace(module: Any, main: Any, inner: Any,
             results: list[dict[str, Any]]) -> None:
  from jaxlib.mlir import ir
  with dialects.scope(module):
    set_attributes(inner, ARGUMENTS, [{
        **given,
        **outer
    } for given, outer in zip(
        attributes_of(inner, ARGUMENTS), attributes_of(main, ARGUMENTS))])
    set_types(inner, types_of(inner, ARGUMENTS), types_of(main, RESULTS))
    set_attributes(inner, RESULTS, results)
    main.erase()
    inner.attributes['sym_name'] = ir.StringAttr.get('main')
    if 'sym_visibility' in inner.attributes:
      del inner.attributes['sym_visibility']


def _said_of_results(main: Any, inner: Any) -> list[dict[str, Any]]:
  """What is said of main's results, by either function."""
  from jaxlib.mlir import ir
  results = attributes_of(main, RESULTS)
  given = attributes_of(inner, RESULTS)
  if len(given) == len(results):
    return [{**i, **o} for i, o in zip(given, results)]
  if len(given) == 1 and SHARDING_ATTRIBUTE in given[0]:  # Of a tuple.
    with inner.context:
      said = parse_sharding(ir.StringAttr(given[0][SHARDING_ATTRIBUTE]).value)
      leaves = said.elements or (said,) * len(results)
      for one, leaf in zip(results, leaves):
        one.setdefault(SHARDING_ATTRIBUTE, ir.StringAttr.get(str(leaf)))
  return results


def _check_said_of_main(module: Any, main: Any) -> None:
  for name, function in functions_of(module).items():
    if function != main and any(
        SHARDING_ATTRIBUTE in one
        for one in attributes_of(function, ARGUMENTS)):
      raise dialects.ProgramTextError(
          f'shardings of parameters are said of the function {name}, which '
          'main does not merely call')
