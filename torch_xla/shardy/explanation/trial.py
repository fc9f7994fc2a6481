"""Which priority turns a conflict, tried with Shardy itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from ..stablehlo import dialects, functions
from ..stablehlo.functions import ARGUMENTS, RESULTS
from . import reader
from ..stablehlo.mlir import ir, sdy
from .conflicts import Conflict
from .propagation import Move, Propagation, Tensor

# Priorities by origin and dimension.
Priorities = Mapping[tuple[str, int], int]


def turning(program: bytes, propagation: Propagation,
            conflict: Conflict) -> Optional[Priorities]:
  """Priorities with which the loser has its axis where it was refused first.

  Args:
    program: a module in Shardy's dialect, in text or serialised.
    propagation: what Shardy makes of it as it is.

  Returns:
    None if none of those tried does.
  """
  place = conflict.places[0]
  for priorities in _candidates(propagation, conflict):
    tensors = reader.split(_with_priorities(program, priorities))
    if conflict.axis in tensors[place.target].dims[place.dim].axes:
      return priorities
  return None


def moved(program: bytes, priorities: Priorities) -> tuple[Move, ...]:
  """The bytes that Shardy would move in a program with other priorities."""
  return reader.moved(_with_priorities(program, priorities))


def _with_priorities(program: bytes, priorities: Priorities) -> ir.Module:
  module = reader.parse(program)
  with dialects.scope(module):
    _say(module, priorities)
  return module


def split_so(program: bytes, propagation: Propagation, tensor: Tensor,
             spec: Sequence[Sequence[str]]) -> Propagation:
  """Propagates a program in which a tensor is split so before all else.

  Args:
    tensor: one of the propagation's.
    spec: the axes of each of its dimensions.
  """
  module = reader.parse(program)
  with dialects.scope(module):
    _say(
        module, {
            (key, n): (dim.priority or 0) + 1
            for key, origin in propagation.origins.items()
            for n, dim in enumerate(origin.dims)
            if dim.axes
        })
    mesh, = (
        ir.StringAttr(o.attributes['sym_name']).value
        for o in dialects.operations_of(module)
        if o.name == 'sdy.mesh')
    sharding = sdy.TensorShardingAttr.get(
        ir.FlatSymbolRefAttr.get(mesh), [
            sdy.DimensionShardingAttr.get(
                [sdy.AxisRefAttr.get(a)
                 for a in axes], True, 0 if axes else None)
            for axes in spec
        ])
    _constrain(module, tensor, sharding)
  return reader.propagate(module, propagation.names)


def _constrain(module: ir.Module, tensor: Tensor,
               sharding: ir.Attribute) -> None:
  main = functions.main_of(module)
  which, _, number = tensor.own.partition(': ')
  if which == 'input':
    given = functions.attributes_of(main, ARGUMENTS)
    given[int(number)][reader.SHARDING] = sharding
    functions.set_attributes(main, ARGUMENTS, given)
    return
  constraints = reader.constraints_of(module)
  if tensor.own:
    constraint = constraints[int(tensor.own.rpartition('_')[2])]
    constraint.attributes['sharding'] = sharding
    return
  for name, _, operation in reader.named(main):
    if name == tensor.name:
      block = operation.operation.block
      place = [o.operation for o in block.operations].index(operation)
      with ir.InsertionPoint(block.operations[place + 1]):
        constraint = functions.constrain(operation.results[0], sharding)
      operation.results[0].replace_all_uses_except(constraint.result,
                                                   constraint)


def _candidates(propagation: Propagation,
                conflict: Conflict) -> Iterator[Priorities]:
  """The loser before the winner, and then before all others."""
  place = conflict.places[0]
  loser = propagation.origins[conflict.loser].dim_of(conflict.axis)
  winner = propagation.origins[conflict.winner].dim_of(place.winning_axis)
  if loser is None:
    return
  if winner is not None:
    before = propagation.origins[conflict.winner].dims[winner].priority or 0
    if before:
      yield {(conflict.loser, loser): before - 1}
    else:
      yield {(conflict.loser, loser): 0, (conflict.winner, winner): 1}
  first = (conflict.loser, loser)
  behind = {
      (key, n): (dim.priority or 0) + 1
      for key, origin in propagation.origins.items()
      for n, dim in enumerate(origin.dims)
      if dim.axes and (key, n) != first
  }
  yield {first: 0, **behind}


def _say(module: ir.Module, priorities: Priorities) -> None:
  """Gives origins other priorities, in place."""
  of_origins: dict[str, dict[int, int]] = {}
  for (origin, dim), priority in priorities.items():
    of_origins.setdefault(origin, {})[dim] = priority
  main = functions.main_of(module)
  for which, label in ((ARGUMENTS, 'input'), (RESULTS, 'output')):
    attributes = functions.attributes_of(main, which)
    for number, one in enumerate(attributes):
      if new_priorities := of_origins.get(f'{label}: {number}'):
        one[reader.SHARDING] = _sharding_with(one[reader.SHARDING],
                                              new_priorities)
    if attributes:
      functions.set_attributes(main, which, attributes)
  for number, operation in enumerate(reader.constraints_of(module)):
    if new_priorities := of_origins.get(f'constraint_{number}'):
      operation.attributes['sharding'] = _sharding_with(
          operation.attributes['sharding'], new_priorities)


def _sharding_with(sharding: ir.Attribute,
                   priorities: Mapping[int, int]) -> ir.Attribute:
  before = sdy.TensorShardingAttr(sharding)
  dims = [sdy.DimensionShardingAttr(d) for d in before.dimension_shardings]
  changed: ir.Attribute = sdy.TensorShardingAttr.get(
      before.mesh_or_ref, [
          sdy.DimensionShardingAttr.get(
              list(d.axes), d.is_closed, priorities.get(n, d.priority))
          for n, d in enumerate(dims)
      ], list(before.replicated_axes))
  return changed
