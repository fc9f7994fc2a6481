"""Manual regions as text in frontend attributes, for plugins without sdy.

    before   %e = sdy.manual_computation(%a) in_shardings=[..] .. (%p) { .. }
    after    func private @xla.sdy.manual_computation_body(%p) { .. }
             %g = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%a)
                    {xla.sdy.in_shardings = "#sdy.sharding_per_value<[..]>",
                     xla.sdy.manual_axes = "#sdy<manual_axes{"x", "y"}>"}
             %k = call @xla.sdy.manual_computation_body(%g)
             %e = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%k) {..}

It is the form of `sdy.manual_outline`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import dialects
from ..sdy.manual import (AXES_ATTRIBUTE, BODY, ENTER_TARGET, IN_ATTRIBUTE,
                          LEAVE_TARGET, NOT_INLINED, OUT_ATTRIBUTE)
from .functions import CUSTOM_CALL
from .manual_computation import AXES, IN, OPERATION, OUT

_FRONTEND_ATTRIBUTES = 'mhlo.frontend_attributes'


def write(module: Any) -> None:
  """Turns the regions of a module into the form, within its scope."""
  regions = [o for o in dialects.operations_of(module) if o.name == OPERATION]
  for number, region in enumerate(regions):
    _write(module, region, f'{BODY}_{number}' if number else BODY)


def _write(module: Any, region: Any, name: str) -> None:
  from jaxlib.mlir import ir
  block = region.regions[0].blocks[0]
  end = list(block.operations)[-1].operation
  inputs = [argument.type for argument in block.arguments]
  results = [value.type for value in end.operands]
  axes = str(region.attributes[AXES])
  with ir.InsertionPoint(module.body):
    function = ir.Operation.create(
        'func.func',
        attributes={
            'sym_name':
                ir.StringAttr.get(name),
            'sym_visibility':
                ir.StringAttr.get('private'),
            'function_type':
                ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
        },
        regions=1)
  with ir.InsertionPoint(end):
    ir.Operation.create('func.return', operands=list(end.operands))
  end.erase()
  block.append_to(function.regions[0])
  with ir.InsertionPoint(region), region.location:
    entered = _call(ENTER_TARGET, list(region.operands), inputs, {
        IN_ATTRIBUTE: str(region.attributes[IN]),
        AXES_ATTRIBUTE: axes
    })
    called = ir.Operation.create(
        'func.call',
        results=results,
        operands=entered,
        attributes={
            'callee': ir.FlatSymbolRefAttr.get(name),
            _FRONTEND_ATTRIBUTES: _texts(NOT_INLINED)
        })
    whole = _call(LEAVE_TARGET, list(called.results),
                  [value.type for value in region.results], {
                      OUT_ATTRIBUTE: str(region.attributes[OUT]),
                      AXES_ATTRIBUTE: axes
                  })
  for before, after in zip(list(region.results), whole):
    before.replace_all_uses_with(after)
  region.erase()


def _call(target: str, operands: Sequence[Any], kinds: Sequence[Any],
          said: Mapping[str, str]) -> list[Any]:
  from jaxlib.mlir import ir
  if not operands:
    return []
  return list(
      ir.Operation.create(
          CUSTOM_CALL,
          results=kinds,
          operands=operands,
          attributes={
              'call_target_name': ir.StringAttr.get(target),
              'has_side_effect': ir.BoolAttr.get(True),
              _FRONTEND_ATTRIBUTES: _texts(said)
          }).results)


def _texts(said: Mapping[str, str]) -> Any:
  from jaxlib.mlir import ir
  return ir.DictAttr.get({
      name: ir.StringAttr.get(text) for name, text in said.items()
  })
