"""Takes bindings and tags out of a program in MLIR that is to stay MLIR.

What is lowered is HLO, where `rewrite.extract` does it. This is for what people
print, and for programs that jaxlib cannot convert; `annotate.call_target` says
what the calls are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from . import dialects
from ..annotate import call_target
from ..rewrite.extract import NamesOf
from .functions import (ARGUMENTS, attributes_of, CUSTOM_CALL, is_used, main_of,
                        owner_of, RESULTS, returned_by, set_attributes,
                        set_types, target_of, types_of)
from .mlir import ir


def strip(program: bytes, trims: bool = False) -> bytes:
  """A program as text, or as a portable artifact, without our calls.

  Args:
    trims: whether it is for people: `trim`.

  Raises:
    DoorError: there are any, and jaxlib is missing.
    ProgramTextError: there are any, and jaxlib cannot read the program.
  """
  if call_target.PREFIX.encode() not in program:
    return program  # Bytecode holds strings as they are.
  module = dialects.read(program)
  if trims:
    trim(module)
  strip_module(module)
  return _write_like(program, module)


def trim_program(
    program: bytes,
    result_names: Mapping[int, str],
    names_of: NamesOf,
) -> tuple[bytes, dict[int, str]]:
  """A program as its user wrote it, and its tensors' annotations.

  Args:
    result_names: by number, of results that are arguments as they come and are
      there to tell their names and go.
    names_of: the users' names of a binding's operands.

  Returns:
    the program, and the names of its arguments.

  Raises:
    AnnotationTextError, ProgramTextError: as `trim`.
  """
  module = dialects.read(program)
  block = main_of(module).regions[0].blocks[0]
  names: dict[int, str] = {}
  for operation in dialects.operations_of(module):
    target = target_of(operation)
    if call_target.is_binding(target):
      bound_names = zip(operation.operands, names_of(target), strict=False)
      names.update(_numbered(bound_names))
  end = returned_by(main_of(module)).operands
  names |= _numbered(
      (end[number], name) for number, name in result_names.items())
  count = len(block.arguments)
  dropped = trim(module, result_names)
  rest = [n for n in range(count) if n not in dropped]
  return _write_like(program, module), {
      now: names[before] for now, before in enumerate(rest) if names.get(before)
  }


def _numbered(named: Iterable[tuple[ir.Value[ir.Type], str]]) -> dict[int, str]:
  """The first name of each argument, by its number."""
  names: dict[int, str] = {}
  for value, name in named:
    if owner_of(value) is None:
      names.setdefault(ir.BlockArgument(value).arg_number, name)
  return names


def _write_like(program: bytes, module: ir.Module) -> bytes:
  """A module as text, or as an artifact of the version, that a program is."""
  version = dialects.artifact_version(program)
  if version is None:
    return dialects.text(module).encode()
  return dialects.write(module, version)


def strip_module(module: ir.Module) -> None:
  """Takes the calls out of a module, in place.

  A binding's scalar result becomes the constant 0, so that the program still
  gives as many results.
  """
  for operation in dialects.operations_of(module):
    target = target_of(operation)
    if call_target.is_tag(target):
      operation.results[0].replace_all_uses_with(operation.operands[0])
      operation.erase()
    elif call_target.is_binding(target):
      if is_used(operation.results[0]):
        with dialects.scope(module), ir.InsertionPoint(operation):
          zero = ir.DenseElementsAttr.get(np.zeros((), np.float32))
          operation.results[0].replace_all_uses_with(
              ir.Operation.create(
                  'stablehlo.constant',
                  results=[zero.type],
                  attributes={
                      'value': zero
                  }).result)
      operation.erase()


def trim(module: ir.Module, results: Collection[int] = ()) -> set[int]:
  """Removes from a program, in place, what its user did not write, but tags.

  A program that is compiled keeps the results of bindings, and what only these
  use, because the runtime counts both.

  Args:
    results: the numbers of others to take out.

  Returns:
    the numbers of the arguments that are gone.

  Raises:
    AnnotationTextError: a binding whose target is damaged.
    ProgramTextError: the program has no main function.
  """
  main = main_of(module)
  block = main.regions[0].blocks[0]
  with dialects.scope(module):
    _drop_results(main, results)
    bindings = [
        o for o in dialects.operations_of(main)
        if call_target.is_binding(target_of(o))
    ]
    unused = {
        number for number, argument in enumerate(block.arguments)
        if (results or is_used(argument)) and all(
            use.owner.operation in bindings for use in argument.uses)
    }
    for binding in bindings:
      _bind_used(binding, [block.arguments[number] for number in unused])
    _drop_arguments(main, unused)
  return unused


def _bind_used(binding: ir.Operation,
               unused: Collection[ir.Value[ir.Type]]) -> None:
  """Reduces a binding to its used operands."""
  marks = call_target.parse_target(target_of(binding))
  used = [(operand, mark)
          for operand, mark in zip(binding.operands, marks, strict=True)
          if operand not in unused]
  if used:
    target = call_target.binding_target([mark for _, mark in used])
    with ir.InsertionPoint(binding), binding.location:
      ir.Operation.create(
          CUSTOM_CALL,
          results=[binding.results[0].type],
          operands=[operand for operand, _ in used],
          attributes={'call_target_name': ir.StringAttr.get(target)})
  binding.erase()


def _drop_results(main: ir.Operation, results: Collection[int]) -> None:
  end = returned_by(main)
  remaining = [
      n for n, value in enumerate(end.operands) if n not in results and
      not call_target.is_binding(target_of(owner_of(value)))
  ]
  attributes, kinds = attributes_of(main, RESULTS), types_of(main, RESULTS)
  operands = [end.operands[n] for n in remaining]
  with ir.InsertionPoint(end), end.location:
    ir.Operation.create('func.return', operands=operands)
  end.erase()
  set_types(main, types_of(main, ARGUMENTS), [kinds[n] for n in remaining])
  set_attributes(main, RESULTS, [attributes[n] for n in remaining])


def _drop_arguments(main: ir.Operation, unused: Collection[int]) -> None:
  attributes, kinds = attributes_of(main, ARGUMENTS), types_of(main, ARGUMENTS)
  for number in sorted(unused, reverse=True):
    main.regions[0].blocks[0].erase_argument(number)
  remaining = [n for n in range(len(kinds)) if n not in unused]
  set_types(main, [kinds[n] for n in remaining], types_of(main, RESULTS))
  set_attributes(main, ARGUMENTS, [attributes[n] for n in remaining])
