"""Finds the bindings and tags in a program in MLIR, and takes them out.

As `sdy.extract` does for HLO; `annotate.call_target` says what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
import dataclasses
from typing import Any

import numpy as np

from . import dialects
from ..annotate import call_target
from ..annotate.annotation import Annotation
from ..sdy.extract import Binding, SHARDING_TARGET
from .functions import (ARGUMENTS, attributes_of, DONOR_ATTRIBUTE, main_of,
                        owner_of, set_attributes, SHARDING_ATTRIBUTE, target_of)


@dataclasses.dataclass(frozen=True)
class Taken:
  """What a program said of shardings, and where.

  Attributes:
    found: whether there was any binding or tag.
    parameters: annotation by argument number of `main`.
    constraints: annotation of `Sharding` calls, by place in `sharding_calls`.
    bindings: in order.
    unused: the numbers of arguments that only bindings used.
    sharding_calls: all of them, in the order of the program.
    sharded: other operations with a sharding of their own.
    calls: the targets of all other custom calls.
  """
  found: bool
  parameters: dict[int, Annotation]
  constraints: dict[int, Annotation]
  bindings: tuple[Binding, ...]
  unused: frozenset[int]
  sharding_calls: tuple[Any, ...]
  sharded: tuple[Any, ...]
  calls: frozenset[str]

  def renumbered(self, numbers: Mapping[int, int]) -> Taken:
    """The same of a program with other parameters, by the old numbers."""
    return dataclasses.replace(
        self,
        parameters={
            numbers[n]: said
            for n, said in self.parameters.items()
            if n in numbers
        },
        bindings=tuple(
            Binding(b.target, tuple(numbers.get(n, -1)
                                    for n in b.parameters))
            for b in self.bindings),
        unused=frozenset(numbers[n] for n in self.unused if n in numbers))

  def of_used(self) -> Taken:
    """The same without the annotations of arguments that are not used."""
    return dataclasses.replace(
        self,
        parameters={
            n: said
            for n, said in self.parameters.items()
            if n not in self.unused
        })


def take(module: Any) -> Taken:
  """Takes the calls out of a module, in place.

  A binding's scalar result becomes the constant 0, so that the program still
  gives as many results. A parameter that only a binding used is not donated:
  its tensor was not going to be in this program.

  Raises:
    AnnotationTextError: a call whose target is damaged.
    ProgramTextError: the program has no main function.
  """
  sharding_calls, sharded = [], []
  tags: list[Any] = []
  found_bindings: list[tuple[Any, str]] = []
  others = set()
  for operation in dialects.operations_of(module):
    target = target_of(operation)
    if call_target.is_tag(target):
      tags.append(operation)
    elif call_target.is_binding(target):
      found_bindings.append((operation, target))
    elif target == SHARDING_TARGET:
      sharding_calls.append(operation)
    else:
      others.add(target)
      if SHARDING_ATTRIBUTE in operation.attributes:
        sharded.append(operation)
  constraints = {}
  for number, call in enumerate(sharding_calls):
    said = target_of(owner_of(call.operands[0]))
    if call_target.is_tag(said):
      constraints[number], = call_target.parse_target(said)
  for tag in tags:
    tag.results[0].replace_all_uses_with(tag.operands[0])
    tag.erase()
  parameters: dict[int, Annotation] = {}
  main = main_of(module)
  block = main.regions[0].blocks[0]
  bindings = [
      _take_binding(module, block, binding, target, parameters)
      for binding, target in found_bindings
  ]
  unused = frozenset(
      n for n in parameters if not any(True for _ in block.arguments[n].uses))
  _keep_undonated(module, main, unused)
  return Taken(
      bool(tags or bindings), parameters, constraints, tuple(bindings), unused,
      tuple(sharding_calls), tuple(sharded), frozenset(others - {''}))


def _keep_undonated(module: Any, main: Any, unused: Collection[int]) -> None:
  given = attributes_of(main, ARGUMENTS)
  if any(DONOR_ATTRIBUTE in given[number] for number in unused):
    for number in unused:
      given[number].pop(DONOR_ATTRIBUTE, None)
    with dialects.scope(module):
      set_attributes(main, ARGUMENTS, given)


def _take_binding(module: Any, block: Any, binding: Any, target: str,
                  parameters: dict[int, Annotation]) -> Binding:
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  said = call_target.parse_target(target)
  operands = list(binding.operands)
  if len(said) != len(operands):
    raise call_target.AnnotationTextError(
        f'{len(said)} annotations for {len(operands)} tensors')
  numbers = [
      ir.BlockArgument(operand).arg_number if operand.owner == block else -1
      for operand in operands
  ]
  for number, annotated in zip(numbers, said):
    if number >= 0:
      parameters[number] = annotated
  if any(True for _ in binding.results[0].uses):
    with dialects.scope(module), ir.InsertionPoint(binding):
      zero = stablehlo.constant(
          ir.DenseElementsAttr.get(np.zeros((), np.float32)))
    binding.results[0].replace_all_uses_with(zero)
  binding.erase()
  return Binding(target, tuple(numbers))
