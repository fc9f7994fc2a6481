"""Says how every result is laid out, in HLO that was lowered, in place.

For plugins that do not report layouts that nobody gave them: each
result is as it is marked, otherwise replicated.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..hlo import array_shape, op_sharding
from ..hlo.editor import (dims_of, Editor, entry_of, replace_results,
                          results_of, set_attribute)
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..rewrite.extract import SHARDING_TARGET
from ..rewrite.to_sdy import ATTRIBUTE, RESULT_TARGET
from ..sdy import attributes
from ..sdy.constraints import SdyProgram
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..v2 import holding


def pin_sdy(module: HloModuleProto,
            program: SdyProgram) -> dict[int, HloSharding]:
  """Pins the results of a program in Shardy's terms.

  Returns:
    The placement of each result, in order.
  """
  entry, editor = entry_of(module), Editor(module)
  placements, pins = dict(program.results), {}
  for number, result in _arrays(entry):
    if number in placements:
      continue
    dims = (attributes.DimSharding(),) * len(dims_of(result))
    placements[number] = REPLICATED
    if (constraint :=
        program.partially_constrained_results.get(number)) is not None:
      dims, placements[number] = constraint.closed, constraint.placement
    pin = editor.call(entry, RESULT_TARGET, result.shape, [result.id])
    set_attribute(pin, ATTRIBUTE,
                  attributes.sharding_per_value(program.mesh, dims))
    pins[number] = (pin,)
  if pins:
    replace_results(entry, pins)
  return {number: placements[number] for number in sorted(placements)}


def pin_v2(module: HloModuleProto) -> dict[int, HloSharding]:
  """Pins the results of a program in V2, and returns their placements."""
  entry, editor = entry_of(module), Editor(module)
  placements, pins = {}, {}
  for number, result in _arrays(entry):
    sharding = op_sharding.to_bytes(REPLICATED)
    if result.HasField('sharding') and result.opcode != 'parameter':
      sharding = result.sharding
    placements[number] = op_sharding.from_bytes(sharding)
    if (result.custom_call_target != SHARDING_TARGET or
        holding.open_dims(result.backend_config.decode())):
      pin = editor.call(
          entry, SHARDING_TARGET, result.shape, [result.id], sharding=sharding)
      pins[number] = (pin,)
  if pins:
    replace_results(entry, pins)
  return placements


def _arrays(
    entry: HloComputationProto) -> Iterator[tuple[int, HloInstructionProto]]:
  """The results that are arrays, with their numbers."""
  for number, result in enumerate(results_of(entry)):
    if array_shape.array_of(result.shape) is not None:
      yield number, result
