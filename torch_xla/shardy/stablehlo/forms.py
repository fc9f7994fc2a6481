"""The forms that Shardy's shardings take in StableHLO.

- `SDY`: the sdy dialect itself, `sdy.sharding` and `sdy.sharding_constraint`.
- `ATTRIBUTES`: the same as text in frontend attributes, on `Sharding` and
  `xla.sdy.FuncResultSharding` calls, as XLA's own client writes it for plugins
  older than StableHLO 1.11.0.
- `PLAIN`: no sharding at all.

A program is written in the dialect; here it is turned into the other two.
"""

from __future__ import annotations

import enum
from typing import Any

from . import dialects
from ..sdy.extract import SHARDING_TARGET
from ..sdy.to_sdy import ATTRIBUTE, MESHES, RESULT_TARGET
from .extract import CUSTOM_CALL
from .functions import (ARGUMENTS, attributes_of, main_of, RESULTS, returned_by,
                        SDY_ATTRIBUTE, set_attributes, SHARDING_ATTRIBUTE)

FRONTEND_ATTRIBUTES = 'mhlo.frontend_attributes'
_CONSTRAINT, _MESH = 'sdy.sharding_constraint', 'sdy.mesh'


class Form(enum.Enum):
  """How a program in StableHLO says what Shardy is to do."""
  SDY = 'sdy'
  ATTRIBUTES = 'attributes'
  PLAIN = 'plain'


def write(module: Any, form: Form) -> None:
  """Turns a module in the dialect into another form, in place."""
  if form is Form.ATTRIBUTES:
    with dialects.scope(module):
      _to_attributes(module)
  elif form is Form.PLAIN:
    remove_shardings(module)


def _to_attributes(module: Any) -> None:
  meshes, constraints = _of_dialect(module)
  _add_frontend_attribute(
      module.operation.attributes, MESHES, '{' +
      ', '.join(f'{m.attributes["sym_name"].value} = {m.attributes["mesh"]}'
                for m in meshes) + '}')
  for mesh in meshes:
    mesh.erase()
  for constraint in constraints:
    made = _call(SHARDING_TARGET, constraint.operands[0],
                 constraint.attributes['sharding'], constraint)
    constraint.results[0].replace_all_uses_with(made)
    constraint.erase()
  main = main_of(module)
  given = attributes_of(main, ARGUMENTS)
  for one in given:
    if (sharding := one.pop(SDY_ATTRIBUTE, None)) is not None:
      _add_frontend_attribute(one, ATTRIBUTE, str(sharding))
  if given:
    set_attributes(main, ARGUMENTS, given)
  end = returned_by(main)
  given = attributes_of(main, RESULTS)
  for number, one in enumerate(given):
    if (sharding := one.pop(SDY_ATTRIBUTE, None)) is not None:
      end.operands[number] = _call(RESULT_TARGET, end.operands[number],
                                   sharding, end)
  if given:
    set_attributes(main, RESULTS, given)


def _of_dialect(module: Any) -> tuple[list[Any], list[Any]]:
  """The operations of the dialect: meshes, and constraints."""
  from jaxlib.mlir import ir
  meshes, constraints = [], []

  def look(operation: Any) -> Any:
    if operation.name == _MESH:
      meshes.append(operation.operation)
    elif operation.name == _CONSTRAINT:
      constraints.append(operation.operation)
    return ir.WalkResult.ADVANCE

  module.operation.walk(look)
  return meshes, constraints


def _call(target: str, operand: Any, sharding: Any, before: Any) -> Any:
  from jaxlib.mlir import ir
  text = str(sharding).removeprefix('#sdy.sharding')
  attributes: dict[str, Any] = {
      'call_target_name': ir.StringAttr.get(target),
      'has_side_effect': ir.BoolAttr.get(target == RESULT_TARGET),
  }
  _add_frontend_attribute(attributes, ATTRIBUTE,
                          f'#sdy.sharding_per_value<[{text}]>')
  with ir.InsertionPoint(before), before.location:
    return ir.Operation.create(
        CUSTOM_CALL,
        results=[operand.type],
        operands=[operand],
        attributes=attributes).results[0]


def _add_frontend_attribute(attributes: Any, name: str, value: str) -> None:
  from jaxlib.mlir import ir
  entries = {name: ir.StringAttr.get(value)}
  if FRONTEND_ATTRIBUTES in attributes:
    entries.update((a.name, a.attr)
                   for a in ir.DictAttr(attributes[FRONTEND_ATTRIBUTES])
                   if a.name != name)
  attributes[FRONTEND_ATTRIBUTES] = ir.DictAttr.get(entries)


def remove_shardings(module: Any) -> None:
  """Takes out all that says how tensors are laid out, in place."""
  from jaxlib.mlir import ir
  passed, sharded = [], []

  def look(operation: Any) -> Any:
    if operation.name in (_CONSTRAINT, _MESH) or (
        operation.name == CUSTOM_CALL and
        operation.attributes['call_target_name'].value == SHARDING_TARGET):
      passed.append(operation.operation)
    elif SHARDING_ATTRIBUTE in operation.attributes:
      sharded.append(operation.operation)
    return ir.WalkResult.ADVANCE

  module.operation.walk(look)
  for operation in passed:
    if operation.name != _MESH:
      operation.results[0].replace_all_uses_with(operation.operands[0])
    operation.erase()
  for operation in sharded:
    del operation.attributes[SHARDING_ATTRIBUTE]
  main = main_of(module)
  with dialects.scope(module):
    for which in (ARGUMENTS, RESULTS):
      given = attributes_of(main, which)
      if any(given):
        for one in given:
          one.pop(SDY_ATTRIBUTE, None)
          one.pop(SHARDING_ATTRIBUTE, None)
        set_attributes(main, which, given)
