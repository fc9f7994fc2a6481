"""A graph as a user wrote it: without bindings, and what came with them.

A program that is compiled keeps a binding's result, as the number 0, and its
operands, because the runtime counts both. What people print or export has no
trace of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import dialects, extract, wrapper
from ..annotate import call_target
from .functions import (ARGUMENTS, attributes_of, main_of, owner_of, RESULTS,
                        returned_by, set_attributes, set_types, target_of,
                        types_of)


def take(module: Any) -> extract.Taken:
  """`extract.take`, with the results of bindings and what only these used.

  The numbers of parameters in what is returned are those that are left.

  Raises:
    AnnotationTextError, ProgramTextError: as `extract.take`.
  """
  wrapper.unwrap(module)
  main = main_of(module)
  bound = _bound(main)
  with dialects.scope(module):
    _drop_results(main)
  taken = extract.take(module)
  arguments = main.regions[0].blocks[0].arguments
  unused = [
      n for n in sorted(bound) if not any(True for _ in arguments[n].uses)
  ]
  with dialects.scope(module):
    _drop_arguments(main, unused)
  left = [n for n in range(len(arguments) + len(unused)) if n not in unused]
  numbers = {old: new for new, old in enumerate(left)}
  return taken.renumbered(numbers)


def _is_binding(value: Any) -> bool:
  return call_target.is_binding(target_of(owner_of(value)))


def _bound(main: Any) -> set[int]:
  """The numbers of arguments that bindings name."""
  from jaxlib.mlir import ir
  numbers = set()
  for argument in main.regions[0].blocks[0].arguments:
    if any(
        call_target.is_binding(target_of(use.owner.operation))
        for use in argument.uses):
      numbers.add(ir.BlockArgument(argument).arg_number)
  return numbers


def _drop_results(main: Any) -> None:
  from jaxlib.mlir import ir
  end = returned_by(main).operation
  kept = [n for n, value in enumerate(end.operands) if not _is_binding(value)]
  if len(kept) == len(end.operands):
    return
  given, kinds = attributes_of(main, RESULTS), types_of(main, RESULTS)
  operands = [end.operands[n] for n in kept]
  with ir.InsertionPoint(end), end.location:
    ir.Operation.create('func.return', operands=operands)
  end.erase()
  set_types(main, types_of(main, ARGUMENTS), [kinds[n] for n in kept])
  set_attributes(main, RESULTS, [given[n] for n in kept])


def _drop_arguments(main: Any, unused: Iterable[int]) -> None:
  unused = set(unused)
  if not unused:
    return
  given, kinds = attributes_of(main, ARGUMENTS), types_of(main, ARGUMENTS)
  block = main.regions[0].blocks[0]
  for number in sorted(unused, reverse=True):
    block.erase_argument(number)
  kept = [n for n in range(len(kinds)) if n not in unused]
  set_types(main, [kinds[n] for n in kept], types_of(main, RESULTS))
  set_attributes(main, ARGUMENTS, [given[n] for n in kept])
