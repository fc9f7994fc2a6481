"""Reads a backend's report of a program that it compiled, in MLIR.

    module attributes {mhlo.spmd_output_sharding = "{{devices=[2,1]<=[2]}}"} {
      func.func @main(%arg0: .. {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> ..

Of the layouts of parameters and results, whatever is there is read: XLA's texts
`mhlo.sharding`, `mhlo.spmd_parameters_shardings` and
`mhlo.spmd_output_sharding`, or Shardy's `sdy.sharding`. The function's body may
be in any dialect.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
import re
from typing import Optional

from . import dialects
from ..hlo import compiled_program
from ..hlo.array_shape import ArrayShape
from ..hlo.compiled_program import Collective, CompiledProgram, Source
from ..sdy.from_text import placement_of_text
from ..sharding.hlo_sharding import HloSharding, REPLICATED, ShardingType
from ..sharding.text import parse_sharding
from .functions import (ARGUMENTS, array_of, attributes_of, main_of, RESULTS,
                        SDY_ATTRIBUTE, SHARDING_ATTRIBUTE, types_of)
from .mlir import ir

_OUTPUT = 'mhlo.spmd_output_sharding'
_PARAMETERS = 'mhlo.spmd_parameters_shardings'
_COLLECTIVES = {
    f'stablehlo.{kind.replace("-", "_")}': kind
    for kind in compiled_program.COLLECTIVES
}


def read(
    program: bytes,
    program_format: str,
    sources: frozenset[Source] = frozenset()
) -> Optional[CompiledProgram]:
  """Reads a compiled program, also one in MLIR, as text or bytecode.

  Raises:
    ValueError: `program` is damaged.
  """
  if program_format != 'mlir':
    return compiled_program.read(program, program_format, sources)
  module = _parse(program)
  main = main_of(module)
  return CompiledProgram(
      _all_layouts(module, main, ARGUMENTS) or _listed(module, _PARAMETERS),
      _listed(module, _OUTPUT, len(types_of(main, RESULTS))) or
      _all_layouts(module, main, RESULTS), _collectives(module), {})


def _parse(program: bytes) -> ir.Module:
  try:
    return dialects.read(program, allow_unknown=True)
  except dialects.ProgramTextError:
    signature = _signature(program)
    if signature is None:
      raise
    return dialects.read(signature, allow_unknown=True)


def _signature(program: bytes) -> Optional[bytes]:
  """The text of a module without what main computes.

  A vendor's dialect has a syntax of its own, which nobody else can read. What
  is told here stands before it.
  """
  match = re.search(rb'func\.func\s+(?:public\s+)?@main\b', program)
  if match is None:
    return None
  start = _after_brackets(program, program.find(b'(', match.end()))
  if arrow := re.match(rb'\s*->\s*', program[start:]):
    start += arrow.end()
    if program[start:start + 1] == b'(':
      start = _after_brackets(program, start)
    else:
      start += len(re.split(rb'[\s{]', program[start:], maxsplit=1)[0])
  # Names for locations are told at the text's end.
  declared = re.sub(rb'\s+loc\(#\w+\)', b'', program[match.end():start])
  head = re.match(rb'\s*(?:(?:#|!|//)[^\n]*\n\s*)*module\b[^\n]*\{\s*\n',
                  program)
  meshes = b'\n'.join(re.findall(rb'^\s*sdy\.mesh [^\n]*$', program, re.M))
  return (b'\n'.join((head.group() if head else b'module {', meshes,
                      b'func.func private @main' + declared, b'}')))


def _after_brackets(text: bytes, start: int) -> int:
  """The place after the bracket that closes that at `start`; skips strings."""
  depth = 0
  for match in re.compile(rb'"(?:[^"\\]|\\.)*"|[()]').finditer(text, start):
    depth += {b'(': 1, b')': -1}.get(match.group(), 0)
    if depth == 0:
      return match.end()
  return len(text)


def layouts(module: ir.Module, main: ir.Operation,
            which: str) -> list[Optional[HloSharding]]:
  """The sharding of each argument or result; None where it has none."""
  meshes = _meshes(module)
  return [
      _layout(given, array_of(kind), meshes) for given, kind in zip(
          attributes_of(main, which), types_of(main, which), strict=True)
  ]


def _all_layouts(module: ir.Module, main: ir.Operation,
                 which: str) -> Optional[tuple[HloSharding, ...]]:
  """The layouts of arguments or results; None if none of them has one.

  An argument of which nothing is said is taken to be replicated: a wrong guess
  is a difference from what is stored. Of a result nobody else knows: nothing is
  said of the results unless of all of them. A scalar can only be replicated.
  """
  arrays = [array_of(kind) for kind in types_of(main, which)]
  all_layouts = layouts(module, main, which)
  if all_layouts and not any(all_layouts):
    return None
  if which == RESULTS and any(
      layout is None and (array is None or array.dims)
      for layout, array in zip(all_layouts, arrays, strict=True)):
    return None
  return tuple(layout or REPLICATED for layout in all_layouts)


def _layout(attributes: Mapping[str, ir.Attribute], array: Optional[ArrayShape],
            meshes: Mapping[str, str]) -> Optional[HloSharding]:
  if SHARDING_ATTRIBUTE in attributes:
    return parse_sharding(ir.StringAttr(attributes[SHARDING_ATTRIBUTE]).value)
  if SDY_ATTRIBUTE in attributes and array is not None:
    return placement_of_text(
        str(attributes[SDY_ATTRIBUTE]), meshes, len(array.dims))
  return None


def _listed(module: ir.Module,
            name: str,
            count: Optional[int] = None) -> Optional[tuple[HloSharding, ...]]:
  """The shardings that one of XLA's attributes of a module lists."""
  attributes = module.operation.attributes
  if name not in attributes:
    return None
  attribute = attributes[name]
  if dialects.is_a(attribute, ir.ArrayAttr):
    listed = tuple(
        parse_sharding(ir.StringAttr(text).value)
        for text in ir.ArrayAttr(attribute))
  else:
    listed = (parse_sharding(ir.StringAttr(attribute).value),)
  if len(listed) == 1 and listed[0].type is ShardingType.TUPLE:
    listed = listed[0].elements
  if len(listed) == 1 and count is not None and count > 1:
    listed *= count  # One for all leaves.
  return listed


def _meshes(module: ir.Module) -> dict[str, str]:
  return {
      ir.StringAttr(operation.attributes['sym_name']).value:
          str(operation.attributes['mesh'])
      for operation in dialects.children_of(module)
      if operation.name == 'sdy.mesh'
  }


def _collectives(module: ir.Module) -> Optional[tuple[Collective, ...]]:
  """The collectives of a program; None if none are there to be counted."""
  sizes: dict[str, list[int]] = collections.defaultdict(list)

  def nbytes(values: Iterable[ir.Value[ir.Type]]) -> int:
    arrays = (array_of(value.type) for value in values)
    return sum(array.nbytes for array in arrays if array is not None)

  for operation in dialects.operations_of(module):
    kind = _COLLECTIVES.get(operation.name)
    if kind is not None:
      sizes[kind].append(
          max(nbytes(operation.operands), nbytes(operation.results)))
  if not sizes:
    return None
  return tuple(
      Collective(kind, len(sizes[kind]), sum(sizes[kind]), min(sizes[kind]))
      for kind in sorted(sizes))


def text_of(count: int, results: Optional[Sequence[HloSharding]]) -> str:
  """A program as `_XLAC` is to read it, which looks for two things in it.

  Results and layouts have to be as many: it does not check that.

  Args:
    count: of the program's results.
    results: the layout of each; None for a program for one device.
  """
  attributes = ''
  if results is not None:
    if len(results) != count:
      raise ValueError(f'{len(results)} layouts for {count} results')
    # It compares shardings as device lists.
    listed = ', '.join(str(sharding.to_v1()) for sharding in results)
    attributes = f' attributes {{{_OUTPUT} = "{{{listed}}}"}}'
  value = '%0 = stablehlo.constant dense<0.0> : tensor<f32>'
  kinds = ', '.join(['tensor<f32>'] * count)
  values = ', '.join(['%0'] * count) + f' : {kinds}' if count else ''
  return (f'module @compiled{attributes} {{\n  func.func @main() -> ({kinds}) '
          f'{{\n    {value}\n    return {values}\n  }}\n}}\n')
