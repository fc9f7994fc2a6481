"""Writes operations that StableHLO lacks as composites: MLIR.

Of what torch_xla emits that is erf. As jax exports it:

    before   %1 = stablehlo.custom_call @mhlo.erf(%0)
    after    %1 = stablehlo.composite "chlo.erf" %0
                 {decomposition = @chlo.erf.impl, version = 1 : i32}
             func.func private @chlo.erf.impl(..)
"""

from __future__ import annotations

import itertools

from . import dialects
from .functions import functions_of, target_of
from .mlir import ir

_TARGET, _NAME = 'mhlo.erf', 'chlo.erf'
# The second for sizes of dynamic dimensions.
_PASSES = ('builtin.module(func.func(chlo-legalize-to-stablehlo,'
           'shape-legalize-to-stablehlo))')


def write(module: ir.Module) -> None:
  """Turns the calls into composites, in place.

  Raises:
    ProgramTextError: jaxlib does not know what one is made of.
  """
  decompositions: dict[ir.Type, ir.Attribute] = {}
  with dialects.scope(module):
    for call in dialects.operations_of(module):
      if target_of(call) != _TARGET:
        continue
      kind = call.results[0].type
      if kind not in decompositions:
        decompositions[kind] = _decomposed(module, kind)
      composite = ir.Operation.create(
          'stablehlo.composite',
          results=[kind],
          operands=list(call.operands),
          attributes={
              'name': ir.StringAttr.get(_NAME),
              'decomposition': decompositions[kind],
              'version': ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
          },
          ip=ir.InsertionPoint(call),
          loc=call.location)
      call.results[0].replace_all_uses_with(composite.results[0])
      call.erase()


def _decomposed(module: ir.Module, kind: ir.Type) -> ir.Attribute:
  """Adds the function to a module. Returns the attribute that names it."""
  functions = functions_of(module)
  names = (f'{_NAME}.impl' + (f'_{n}' if n else '') for n in itertools.count())
  name = next(name for name in names if name not in functions)
  # Apart: the pass folds what else there is.
  decomposition = ir.Module.parse(f'''
      func.func private @{name}(%x: {kind}) -> {kind} {{
        %y = chlo.erf %x : {kind} -> {kind}
        return %y : {kind}
      }}''')
  dialects.run(_PASSES, decomposition, f'cannot say what {_NAME} is made of')
  module.body.append(decomposition.body.operations[0])
  return ir.FlatSymbolRefAttr.get(name)
