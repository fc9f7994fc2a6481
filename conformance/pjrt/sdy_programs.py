"""One partitioned program in Shardy's terms, in both ways of saying them."""

from __future__ import annotations

from collections.abc import Sequence

from ..shared.hlo import messages
from ..shared.hlo.compile_options import Partitioner
from ..shared.hlo.protos import HloModuleProto
from .graph import elementwise
from .programs import compile_options, HLO, MLIR, Program

_MESH = 'sdy.mesh @mesh = <["x"={count}]>'
_SHARDING = '#sdy.sharding<@mesh, [{"x"}]>'
_MESHES = '{{mesh = #sdy.mesh<["x"={count}]>}}'


def with_dialect(device_ids: Sequence[int]) -> Program:
  """A sum with an element on each device, in StableHLO with the sdy dialect."""
  count = len(device_ids)
  code = elementwise((count,)).mlir(
      partitions=count,
      mesh=_MESH.format(count=count),
      notes=dict.fromkeys(range(3), f'sdy.sharding = {_SHARDING}'))
  return Program(code, MLIR, compile_options(device_ids, Partitioner.SHARDY))


def with_attributes(form: str, device_ids: Sequence[int]) -> Program:
  """The sum with the texts in frontend attributes."""
  count = len(device_ids)
  graph = elementwise((count,))
  options = compile_options(device_ids, Partitioner.SHARDY)
  meshes = _MESHES.format(count=count)
  if form == HLO:
    module = messages.parse(HloModuleProto, graph.hlo())
    entry = module.frontend_attributes.map.add()
    entry.key, entry.value = 'xla.sdy.meshes', meshes
    for instruction in module.computations[0].instructions[:2]:
      entry = instruction.frontend_attributes.map.add()
      entry.key, entry.value = 'xla.sdy.sharding', _SHARDING
    return Program(module.SerializeToString(deterministic=True), HLO, options)

  def attribute(name: str, text: str) -> str:
    quoted = text.replace('"', '\\"')
    return f'mhlo.frontend_attributes = {{xla.sdy.{name} = "{quoted}"}}'

  code = graph.mlir(
      partitions=count,
      module_note=attribute('meshes', meshes),
      notes=dict.fromkeys(range(2), attribute('sharding', _SHARDING)))
  return Program(code, MLIR, options)
