"""Gives XLA windows that it can partition: HLO, in place.

XLA's partitioner keeps what it has made of an operand for a window, padding
included, and takes it again for the next one, whatever that pads with
(`PartitionedHlo::ReshardAsWindowedInput`, xla/service/spmd/spmd_partitioner.cc:
its `window_reshard_cache` knows the sharding and the window). Of two pads, or a
sum and a maximum up to each place, along a dimension that is split, the second
has the values of the first in its padding.

    before   y = f32[10] pad(x, one), padding=1_1
             z = f32[10] pad(x, two), padding=1_1
    after    y = f32[10] pad(x, one), padding=1_1
             b = f32[8] opt-barrier(x)
             z = f32[10] pad(b, two), padding=1_1

The gradient of a maximum over windows (`select-and-scatter`) is wrong along a
dimension that is split where a window is two steps long or longer, as of 2
places in steps of 1, in the official wheel as well: such a dimension is whole,
of operands and result, as that of a convolution is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from ..hlo import op_sharding
from ..hlo.editor import instructions_of, Place, rewrite
from ..hlo.protos import HloInstructionProto, HloModuleProto
from . import holding

_OPCODES = ('pad', 'reduce-window')

# An operand as a window goes along it: which it is; the window, equal for those
# that XLA takes for the same; and the value of the padding, a constant's bytes or
# an instruction's id.
_Windowed = tuple[int, tuple[tuple[int, ...], ...], Union[bytes, int]]


def part(module: HloModuleProto) -> int:
  """Gives windows with another padding value an operand of their own.

  Args:
    module: HloModuleProto; one in which nothing is split is left alone.

  Returns:
    How many instructions.
  """
  if not any(
      i.opcode in _OPCODES
      for i in instructions_of(module)) or not op_sharding.is_split(module):
    return 0
  # The operand for each value, by operand and window.
  operands: dict[tuple[object, ...], dict[Union[bytes, int], int]] = {}

  def parted(at: Place) -> Optional[list[HloInstructionProto]]:
    barriers = []
    for place, window, value in list(_windowed(at)):
      number = at.instruction.operand_ids[place]
      of_values = operands.setdefault((at.computation.id, number, window), {})
      if of_values and value not in of_values:
        barriers.append(
            at.editor.make(at.computation, 'opt-barrier',
                           at.by_id[number].shape, [number]))
        number = barriers[-1].id
      at.instruction.operand_ids[place] = of_values.setdefault(value, number)
    return barriers or None

  return rewrite(module, _OPCODES, parted)


def hold_overlapping(module: HloModuleProto) -> int:
  """Holds whole what `select-and-scatter` gets wrong, in place.

  Returns:
    How many; none where there is a manual region.
  """
  if not any(i.opcode == 'select-and-scatter'
             for i in instructions_of(module)) or holding.has_manual(
                 op_sharding.module_shardings(module)):
    return 0
  return holding.hold_around(module, 'select-and-scatter', _overlapping)


def _overlapping(instruction: HloInstructionProto) -> holding.Held:
  dims = [
      n for n, window in enumerate(instruction.window.dimensions)
      if window.size >= 2 * window.stride
  ]
  return holding.Held(dims, dims, dims)


def _windowed(at: Place) -> Iterator[_Windowed]:
  instruction, operands = at.instruction, at.operands
  if instruction.opcode == 'pad':
    window = tuple((1, 1, d.edge_padding_low, d.edge_padding_high, 1,
                    d.interior_padding + 1)
                   for d in instruction.padding_config.dimensions)
    yield 0, window, _value(operands[1])
  else:
    window = tuple((d.size, d.stride, d.padding_low, d.padding_high,
                    d.window_dilation, d.base_dilation)
                   for d in instruction.window.dimensions)
    for place, initial in enumerate(operands[len(operands) // 2:]):
      yield place, window, _value(initial)


def _value(instruction: HloInstructionProto) -> Union[bytes, int]:
  if instruction.opcode == 'constant':
    return instruction.literal.SerializeToString()
  return instruction.id
