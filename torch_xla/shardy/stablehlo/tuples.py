"""Takes the tuples out of a program in MLIR: Shardy propagates through none.

torch_xla's programs have them where a computation is called, as `scan` does:

    before   %0 = call @f(%a) : (T) -> tuple<T, U>
             %1 = stablehlo.get_tuple_element %0[1] : (tuple<T, U>) -> U
             %2 = stablehlo.sine %1 : U
    after    %0:2 = call @f(%a) : (T) -> (T, U)
             %1 = stablehlo.sine %0#1 : U
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from . import dialects
from .functions import (ARGUMENTS, attributes_of, functions_of, owner_of,
                        RESULTS, returned_by, set_attributes, set_types,
                        types_of)

_TUPLE, _ELEMENT = 'stablehlo.tuple', 'stablehlo.get_tuple_element'
_CALL = 'func.call'
# Other operations that name a function, whose types it has to keep then.
_FUNCTIONS_OF_OTHERS = ('decomposition', 'called_computations')
# Of a call: the shape of its result as a tuple, for who makes HLO of it.
_XLA_SHAPE = 'xla_shape'


def flatten(module: Any) -> None:
  """Gives functions that are called leaves in place of tuples, in place.

  `main` stays as it is, and so do functions that are no calls' alone.
  """
  functions = {
      name: function
      for name, function in functions_of(module).items()
      if name != 'main' and len(function.regions[0].blocks) and
      any(map(_is_tuple, _types(function)))
  }
  if not functions:
    return
  calls = []
  for operation in dialects.operations_of(module):
    if operation.name == _CALL:
      calls.append(operation)
      continue
    for name in _FUNCTIONS_OF_OTHERS:
      if name in operation.attributes:
        for kept in _names_in(operation.attributes[name]):
          functions.pop(kept, None)
  with dialects.scope(module):
    for function in functions.values():
      _flatten_function(function)
    for call in calls:
      if call.attributes['callee'].value in functions:
        _flatten_call(call)
  _fold(module)


def _types(function: Any) -> list[Any]:
  return types_of(function, ARGUMENTS) + types_of(function, RESULTS)


def _is_tuple(kind: Any) -> bool:
  from jaxlib.mlir import ir
  return dialects.is_a(kind, ir.TupleType)


def _elements(kind: Any) -> list[Any]:
  from jaxlib.mlir import ir
  kind = ir.TupleType(kind)
  return [kind.get_type(i) for i in range(kind.num_types)]


def _leaves(kinds: Iterable[Any]) -> list[Any]:
  """The types that are no tuples, those in tuples among them, in order."""
  leaves = []
  for kind in kinds:
    leaves += _leaves(_elements(kind)) if _is_tuple(kind) else [kind]
  return leaves


def _names_in(symbols: Any) -> list[str]:
  """The functions that an attribute names: a symbol, or a list of them."""
  from jaxlib.mlir import ir
  listed = list(ir.ArrayAttr(symbols)) if dialects.is_a(
      symbols, ir.ArrayAttr) else [symbols]
  return [ir.FlatSymbolRefAttr(one).value for one in listed]


def _flatten_function(function: Any) -> None:
  from jaxlib.mlir import ir
  inputs, results = (types_of(function, w) for w in (ARGUMENTS, RESULTS))
  for which, kinds in (ARGUMENTS, inputs), (RESULTS, results):
    given = attributes_of(function, which)
    if any(given):
      # What is said of a tuple cannot be said of its leaves.
      flat = []
      for one, kind in zip(given, kinds):
        flat += [{}] * len(_leaves([kind])) if _is_tuple(kind) else [one]
      set_attributes(function, which, flat)
  block = function.regions[0].blocks[0]
  if any(map(_is_tuple, inputs)):
    _flatten_arguments(block, inputs)
  end = returned_by(function).operation
  with ir.InsertionPoint(end), end.location:
    flat = _taken_apart(end.operands)
    ir.Operation.create('func.return', operands=flat)
  end.erase()
  set_types(function, _leaves(inputs), _leaves(results))


def _flatten_arguments(block: Any, kinds: list[Any]) -> None:
  from jaxlib.mlir import ir
  before = list(block.arguments)
  location = ir.Location.unknown()
  with ir.InsertionPoint.at_block_begin(block):
    for argument, kind in zip(before, kinds):
      leaves = iter([block.add_argument(k, location) for k in _leaves([kind])])
      argument.replace_all_uses_with(_put_together(kind, leaves))
  for _ in before:
    block.erase_argument(0)


def _flatten_call(call: Any) -> None:
  from jaxlib.mlir import ir
  kinds = [result.type for result in call.results]
  attributes = {name: call.attributes[name] for name in _names_of(call)}
  attributes.pop(_XLA_SHAPE, None)
  with ir.InsertionPoint(call), call.location:
    flat = ir.Operation.create(
        _CALL,
        results=_leaves(kinds),
        operands=_taken_apart(call.operands),
        attributes=attributes)
    leaves = iter(list(flat.results))
    for result, kind in zip(list(call.results), kinds):
      result.replace_all_uses_with(_put_together(kind, leaves))
  call.erase()


def _names_of(operation: Any) -> list[str]:
  attributes = operation.attributes
  return [attributes[i].name for i in range(len(attributes))]


def _taken_apart(values: Iterable[Any]) -> list[Any]:
  """The leaves of values, by operations that are made where we are."""
  from jaxlib.mlir import ir
  leaves: list[Any] = []
  for value in list(values):
    if not _is_tuple(value.type):
      leaves.append(value)
      continue
    number = ir.IntegerType.get_signless(32)
    leaves += _taken_apart(
        ir.Operation.create(
            _ELEMENT,
            results=[kind],
            operands=[value],
            attributes={
                'index': ir.IntegerAttr.get(number, i)
            }).results[0] for i, kind in enumerate(_elements(value.type)))
  return leaves


def _put_together(kind: Any, leaves: Iterator[Any]) -> Any:
  """A value of a type from the next of its leaves, likewise."""
  from jaxlib.mlir import ir
  if not _is_tuple(kind):
    return next(leaves)
  elements = [_put_together(k, leaves) for k in _elements(kind)]
  return ir.Operation.create(
      _TUPLE, results=[kind], operands=elements).results[0]


def _fold(module: Any) -> None:
  """Has what takes an element of a tuple use what the tuple is made of."""
  from jaxlib.mlir import ir
  operations = dialects.operations_of(module)
  made = [o for o in operations if o.name == _TUPLE]
  taken = [o for o in operations if o.name == _ELEMENT]
  for element in taken:  # What an element is taken of comes before it.
    whole = owner_of(element.operands[0])
    if whole is not None and whole.name == _TUPLE:
      index = ir.IntegerAttr(element.attributes['index']).value
      element.results[0].replace_all_uses_with(whole.operands[index])
      element.erase()
  for whole in reversed(made):
    if not any(True for _ in whole.results[0].uses):
      whole.erase()
