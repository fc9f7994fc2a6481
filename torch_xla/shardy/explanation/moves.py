"""Collectives that Shardy itself would add to a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..hlo.array_shape import ArrayShape
from ..stablehlo import dialects, functions
from ..stablehlo.mlir import ir
from .propagation import Move

_PASSES = ('builtin.module(func.func(sdy-insert-explicit-reshards'
           '{enable-full-version=true},sdy-reshard-to-collectives))')
_KINDS = ('sdy.all_gather', 'sdy.all_reduce', 'sdy.all_to_all',
          'sdy.collective_permute', 'sdy.reduce_scatter')


def planned_collectives(
    module: ir.Module, main: ir.Operation, numbers: Mapping[ir.Value[ir.Type],
                                                            int],
    local: Callable[[ArrayShape, ir.Attribute],
                    ArrayShape]) -> tuple[Move, ...]:
  """The collectives of a module after propagation, which is changed.

  Args:
    numbers: of operations, by their first results.
    local: what one device has of a tensor with a sharding.
  """
  dialects.run(_PASSES, module, 'cannot find what is moved')
  with dialects.scope(module):
    return tuple(_moves(main, numbers, local))


def _moves(
    main: ir.Operation, numbers: Mapping[ir.Value[ir.Type], int],
    local: Callable[[ArrayShape, ir.Attribute], ArrayShape]) -> Iterator[Move]:
  for operation in dialects.operations_of(main):
    if operation.name not in _KINDS:
      continue
    shape = functions.array_of(operation.results[0].type)
    if shape is None:
      continue
    if operation.name == 'sdy.all_reduce':
      place = numbers.get(_came_from(operation.operands[0]))
    else:
      place = next(_goes_to(operation.results[0], numbers), None)
    yield Move(
        operation.name.removeprefix('sdy.').replace('_', '-'),
        local(shape, operation.attributes['out_sharding']).nbytes, place)


def _came_from(value: ir.Value[ir.Type]) -> ir.Value[ir.Type]:
  owner = functions.owner_of(value)
  while owner is not None and owner.name.startswith('sdy.all_'):
    value = owner.operands[0]
    owner = functions.owner_of(value)
  return value if owner is None else owner.results[0]


def _goes_to(value: ir.Value[ir.Type], numbers: Mapping[ir.Value[ir.Type],
                                                        int]) -> Iterator[int]:
  for use in value.uses:
    results = use.owner.operation.results
    if len(results) and results[0] in numbers:
      yield numbers[results[0]]
    elif use.owner.operation.name.startswith('sdy.'):
      yield from _goes_to(results[0], numbers)
