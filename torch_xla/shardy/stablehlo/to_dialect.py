"""Turns Shardy's shardings from frontend attributes into the dialect: MLIR.

    before   %arg0: .. {mhlo.frontend_attributes = {xla.sdy.sharding = ".."}}
             %1 = stablehlo.custom_call @Sharding(%0) {.. xla.sdy.sharding ..}
             %2 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%1) {..}
             %3 = call @xla.sdy.manual_computation_body(%2)
             %4 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%3) {..}
    after    sdy.mesh @mesh = <["x"=2, "y"=4]>
             %arg0: .. {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>}
             %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y"}]>
             %4 = sdy.manual_computation(%1) in_shardings=[..] .. (%p) { .. }

XLA's own pass reads meshes, arguments and results; what Shardy's importer makes
of calls is done here.
"""

from __future__ import annotations

from typing import Optional

from . import dialects
from ..rewrite.extract import SHARDING_TARGET
from ..sdy.manual import (AXES_ATTRIBUTE, BODY, IN_ATTRIBUTE, LEAVE_TARGET,
                          OUT_ATTRIBUTE)
from .functions import (constrain, CUSTOM_CALL, entries_of, FRONTEND_ATTRIBUTES,
                        functions_of, is_used, names_of, owner_of, returned_by,
                        SDY_ATTRIBUTE, target_of)
from .mlir import ir, sdy

_PASS = 'builtin.module(xla-sdy-round-trip-import-shardy-attrs)'
_FAILURE = "cannot read Shardy's shardings"
_LEFT = ('stablehlo.tuple', 'stablehlo.constant')
_NONE = '#sdy.sharding_per_value<[]>'


def write(module: ir.Module) -> None:
  """Turns a module whose calls give no tuples into the dialect, in place.

  Raises:
    ProgramTextError: what it says in attributes cannot be read.
  """
  with dialects.scope(module), dialects.raising(module.context, _FAILURE):
    functions = functions_of(module)
    if any(BODY in name for name in functions):
      bodies: set[str] = set()
      # A body that is called twice holds regions twice.
      while leaves := [
          o for o in dialects.operations_of(module)
          if target_of(o) == LEAVE_TARGET
      ]:
        bodies.update(_write_region(leave, functions) for leave in leaves)
      for name in bodies:
        functions[name].erase()
    dialects.run(_PASS, module, _FAILURE)
    for operation in dialects.operations_of(module):
      if target_of(operation) == SHARDING_TARGET:
        _write_constraint(operation)


def flatten_calls(module: ir.Module) -> None:
  """Replaces tuple results of custom calls by several results, in place.

  What nobody uses goes: tuples, which jaxlib makes of what calls give, and
  constants, which bindings become.
  """
  for call in reversed(dialects.operations_of(module)):
    if call.name in _LEFT and not is_used(call.results[0]):
      call.erase()
      continue
    if call.name != CUSTOM_CALL or len(call.results) != 1 or not dialects.is_a(
        call.results[0].type, ir.TupleType):
      continue
    elements = [use.owner.operation for use in call.results[0].uses]
    if any(e.name != 'stablehlo.get_tuple_element' for e in elements):
      continue
    kind = ir.TupleType(call.results[0].type)
    attributes = {name: call.attributes[name] for name in names_of(call)}
    attributes.pop('xla_shape', None)  # Of the tuple.
    flat = ir.Operation.create(
        CUSTOM_CALL,
        results=[kind.get_type(n) for n in range(kind.num_types)],
        operands=list(call.operands),
        attributes=attributes,
        ip=ir.InsertionPoint(call),
        loc=call.location)
    for element in elements:
      number = ir.IntegerAttr(element.attributes['index']).value
      element.results[0].replace_all_uses_with(flat.results[number])
      element.erase()
    call.erase()


def _write_constraint(call: ir.Operation) -> None:
  sharding, = sdy.TensorShardingPerValueAttr(
      call.attributes[SDY_ATTRIBUTE]).shardings
  with ir.InsertionPoint(call), call.location:
    constraint = constrain(call.operands[0], sharding)
  call.results[0].replace_all_uses_with(constraint.result)
  call.erase()


def _write_region(leave: ir.Operation, functions: dict[str,
                                                       ir.Operation]) -> str:
  """Puts a copy of what is called between two calls into a region.

  Returns:
    the name of what is called.
  """
  call = owner_of(leave.operands[0])
  assert call is not None
  enter = owner_of(call.operands[0]) if len(call.operands) else None
  name = ir.FlatSymbolRefAttr(call.attributes['callee']).value
  body = functions[name].clone()
  block = body.regions[0].blocks[0]
  end = returned_by(body)
  computation = ir.Operation.create(
      'sdy.manual_computation',
      results=[result.type for result in leave.results],
      operands=[] if enter is None else list(enter.operands),
      attributes={
          'in_shardings': _attribute_of(enter, IN_ATTRIBUTE),
          'out_shardings': _attribute_of(leave, OUT_ATTRIBUTE),
          'manual_axes': _attribute_of(leave, AXES_ATTRIBUTE),
      },
      regions=1,
      ip=ir.InsertionPoint(leave),
      loc=leave.location)
  block.append_to(computation.regions[0])
  with ir.InsertionPoint(end), end.location:
    ir.Operation.create('sdy.return', operands=list(end.operands))
  end.erase()
  for before, after in zip(leave.results, computation.results, strict=True):
    before.replace_all_uses_with(after)
  for operation in (leave, call, enter):
    if operation is not None:
      # MLIR does not see to it, and goes on with what is gone.
      assert not any(map(is_used, operation.results)), operation
      operation.erase()
  return name


def _attribute_of(call: Optional[ir.Operation], name: str) -> ir.Attribute:
  if call is None:
    return ir.Attribute.parse(_NONE)
  texts = entries_of(call.attributes[FRONTEND_ATTRIBUTES])
  return ir.Attribute.parse(ir.StringAttr(texts[name]).value)
