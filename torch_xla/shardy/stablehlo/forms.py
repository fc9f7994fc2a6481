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

from . import dialects, manual_attributes
from ..sdy.extract import SHARDING_TARGET
from ..sdy.to_sdy import ATTRIBUTE, MESHES, RESULT_TARGET
from .functions import (ARGUMENTS, attributes_of, custom_call, main_of, RESULTS,
                        returned_by, SDY_ATTRIBUTE, set_attributes,
                        SHARDING_ATTRIBUTE, target_of)

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
  manual_attributes.write(module)
  operations = dialects.operations_of(module)
  meshes = [o for o in operations if o.name == _MESH]
  constraints = [o for o in operations if o.name == _CONSTRAINT]
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


def _call(target: str, operand: Any, sharding: Any, before: Any) -> Any:
  from jaxlib.mlir import ir
  text = str(sharding).removeprefix('#sdy.sharding')
  attributes = {'has_side_effect': ir.BoolAttr.get(target == RESULT_TARGET)}
  _add_frontend_attribute(attributes, ATTRIBUTE,
                          f'#sdy.sharding_per_value<[{text}]>')
  return custom_call(target, operand, before, attributes)


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
  for operation in dialects.operations_of(module):
    if operation.name == _MESH:
      operation.erase()
    elif (operation.name == _CONSTRAINT or
          target_of(operation) == SHARDING_TARGET):
      operation.results[0].replace_all_uses_with(operation.operands[0])
      operation.erase()
    elif SHARDING_ATTRIBUTE in operation.attributes:
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
