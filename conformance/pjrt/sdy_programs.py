"""One partitioned program in Shardy's terms, in both ways of saying them."""

from __future__ import annotations

from collections.abc import Sequence

from ..shared.hlo import messages
from ..shared.hlo.compile_options import Partitioner
from ..shared.hlo.protos import HloModuleProto
from .programs import compile_options, Elementwise, HLO, MLIR, Program

_MESH = 'sdy.mesh @mesh = <["x"={count}]>'
_SHARDING = '#sdy.sharding<@mesh, [{"x"}]>'
_MESHES = '{{mesh = #sdy.mesh<["x"={count}]>}}'


def with_dialect(count: int, device_ids: Sequence[int]) -> Program:
  """A sum of arrays of `count` elements, in StableHLO with the sdy dialect."""
  kind = f'tensor<{count}xf32>'
  note = f'{{sdy.sharding = {_SHARDING}}}'
  code = f'''
module @add attributes {{mhlo.num_replicas = 1 : i32,
                        mhlo.num_partitions = {count} : i32}} {{
  {_MESH.format(count=count)}
  func.func public @main(%left: {kind} {note}, %right: {kind} {note})
      -> ({kind} {note}) {{
    %0 = stablehlo.add %left, %right : {kind}
    return %0 : {kind}
  }}
}}
'''
  return Program(code.encode(), MLIR,
                 compile_options(device_ids, Partitioner.SHARDY))


def with_attributes(count: int, form: str,
                    device_ids: Sequence[int]) -> Program:
  """A program with the texts in frontend attributes."""
  elementwise = Elementwise((count,))
  options = compile_options(device_ids, Partitioner.SHARDY)
  meshes = _MESHES.format(count=count)
  if form == HLO:
    module = messages.parse(HloModuleProto, elementwise.hlo())
    entry = module.frontend_attributes.map.add()
    entry.key, entry.value = 'xla.sdy.meshes', meshes
    for instruction in module.computations[0].instructions[:2]:
      entry = instruction.frontend_attributes.map.add()
      entry.key, entry.value = 'xla.sdy.sharding', _SHARDING
    return Program(module.SerializeToString(deterministic=True), HLO, options)
  quoted, sharding = (text.replace('"', '\\"') for text in (meshes, _SHARDING))
  note = f'{{mhlo.frontend_attributes = {{xla.sdy.sharding = "{sharding}"}}}}'
  kind = f'tensor<{count}xf32>'
  code = f'''
module @add attributes {{mhlo.num_replicas = 1 : i32,
    mhlo.num_partitions = {count} : i32,
    mhlo.frontend_attributes = {{xla.sdy.meshes = "{quoted}"}}}} {{
  func.func public @main(%left: {kind} {note}, %right: {kind} {note})
      -> ({kind}) {{
    %0 = stablehlo.add %left, %right : {kind}
    return %0 : {kind}
  }}
}}
'''
  return Program(code.encode(), MLIR, options)
