"""Carries operations through HLO that it has not.

They work on quantised values, or are given the size of a dynamic dimension.

    before   %q = stablehlo.uniform_quantize %x : (tensor<8xf32>)
                 -> tensor<8x!quant.uniform<i8:f32, 0.4:2>>
    between  %q = stablehlo.custom_call @torch_xla.shardy.kept(%x) {..}
                 : (tensor<8xf32>) -> tensor<8xi8>

What the operation is lies in the call's frontend attributes. Shardy gets to see
the operation itself; in between nobody looks at the call.
"""

from __future__ import annotations

import re

from . import dialects
from .functions import (CUSTOM_CALL, entries_of, FRONTEND_ATTRIBUTES, names_of,
                        target_of)
from .mlir import ir

TARGET = 'torch_xla.shardy.kept'
_NAME, _TYPES, _ATTRIBUTES = 'kept.name', 'kept.types', 'kept.attributes'
_QUANTISED = '!quant.'
_DYNAMIC = frozenset(
    f'stablehlo.{name}' for name in ('dynamic_broadcast_in_dim', 'dynamic_conv',
                                     'dynamic_gather', 'dynamic_iota',
                                     'dynamic_pad', 'dynamic_reshape',
                                     'real_dynamic_slice'))


def hide(module: ir.Module) -> int:
  """Turns the operations into calls, in place; within `dialects.scope`.

  What has regions stays as it is, and so do arguments: jaxlib refuses them.

  Returns:
    How many.
  """
  quantised: dict[ir.Type, ir.Type] = {}  # The types as they are between.

  def plain(kind: ir.Type) -> ir.Type:
    if kind not in quantised:
      quantised[kind] = kind
      if _QUANTISED in str(kind) and dialects.is_a(kind, ir.RankedTensorType):
        tensor = ir.RankedTensorType(kind)
        # uniform<i8:f32, ..>, or uniform<i8<-127:127>:f32, ..>
        element = re.findall(r'<(\w+)', str(tensor.element_type))[0]
        quantised[kind] = ir.RankedTensorType.get(tensor.shape,
                                                  ir.Type.parse(element))
    return quantised[kind]

  # Before any is changed: what uses one's result is to be another.
  to_hide = [
      o for o in dialects.operations_of(module) if o.name in _DYNAMIC or
      o.name.startswith('stablehlo.') and not len(o.regions) and any(
          plain(value.type) != value.type
          for value in (*o.results, *o.operands))
  ]
  for operation in to_hide:
    kinds = [value.type for value in operation.results]
    attributes = ir.DictAttr.get(
        {name: operation.attributes[name] for name in names_of(operation)})
    call = ir.Operation.create(
        CUSTOM_CALL,
        results=[plain(kind) for kind in kinds],
        operands=list(operation.operands),
        attributes={
            'call_target_name':
                ir.StringAttr.get(TARGET),
            FRONTEND_ATTRIBUTES:
                ir.DictAttr.get({
                    name: ir.StringAttr.get(text)
                    for name, text in ((_NAME, operation.name), (
                        _TYPES,
                        str(ir.TypeAttr.get(ir.FunctionType.get([], kinds)))),
                                       (_ATTRIBUTES, str(attributes)))
                })
        },
        ip=ir.InsertionPoint(operation),
        loc=operation.location)
    for before, after in zip(operation.results, call.results, strict=True):
      before.replace_all_uses_with(after)
    operation.erase()
  return len(to_hide)


def show(module: ir.Module) -> None:
  """Turns the calls into the operations again, in place; within a scope."""
  dialects.load_quant(module.context)
  for call in dialects.operations_of(module):
    if target_of(call) != TARGET:
      continue
    entries = {
        name: ir.StringAttr(value).value for name, value in entries_of(
            call.attributes[FRONTEND_ATTRIBUTES]).items()
    }
    kind = ir.FunctionType(
        ir.TypeAttr(ir.Attribute.parse(entries[_TYPES])).value)
    operation = ir.Operation.create(
        entries[_NAME],
        results=list(kind.results),
        operands=list(call.operands),
        attributes=entries_of(ir.Attribute.parse(entries[_ATTRIBUTES])),
        ip=ir.InsertionPoint(call),
        loc=call.location)
    for before, after in zip(call.results, operation.results, strict=True):
      before.replace_all_uses_with(after)
    call.erase()
