"""Probes how Shardy splits results that nobody placed: HLO, in place.

The program keeps all that Shardy propagates through, and gives a parameter more,
broadcast, in place of each result, in one sharding group with the result:

    before   ROOT t = (f32[10,6]) tuple(n)
    after    p = f32[16,8] pad(n, 0)
             s = f32[] parameter(1)
             q = f32[16,8] broadcast(s)
             g = () custom-call(p), target="xla.sdy.ShardingGroup", id=0
             h = () custom-call(q), target="xla.sdy.ShardingGroup", id=0
             ROOT t = (f32[16,8]) tuple(q)

Once Shardy is done nothing needs what is computed, so that nothing of it is
compiled. Equal constants would not do: newer XLA makes one of them before
Shardy propagates, and their groups one group. The padding is to multiples of
all devices, as Shardy would not split the broadcasts unevenly either.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..hlo import array_shape
from ..hlo.editor import (dims_of, Editor, entry_of, results_of,
                          set_program_shape)
from ..hlo.protos import HloInstructionProto, HloModuleProto
from .shard_groups import group_call
from .to_sdy import RESULT_TARGET


def make_probe(module: HloModuleProto, numbers: Iterable[int],
               num_devices: int) -> None:
  """Turns a lowered HloModuleProto into a probe that only reports propagation.

  Args:
    numbers: of the results to probe, which are arrays.
  """
  entry = entry_of(module)
  editor = Editor(module)
  results = results_of(entry)
  by_id = {i.id: i for i in entry.instructions}
  numbers = list(numbers)
  added: list[HloInstructionProto] = []
  probes, pins = [], set()
  for number, result in enumerate(results):
    if array_shape.is_tuple(result.shape):
      continue
    if result.custom_call_target == RESULT_TARGET:
      pins.add(result.id)  # Only results may be pinned.
      result = by_id[result.operand_ids[0]]
    if number in numbers:
      even = tuple(
          num_devices * -(-size // num_devices) for size in dims_of(result))
      added += editor.padded(entry, result, even)
      result = added[-1]
      scalar = editor.parameter(entry, array_shape.with_dims(result.shape, ()))
      twin = editor.make(entry, 'broadcast', result.shape, [scalar.id])
      probes.append(twin)
      added += scalar, twin, group_call(editor, entry, twin.id, number)
    # It is alive as long as the group is.
    added.append(group_call(editor, entry, result.id, number))
  root = by_id[entry.root_id]
  if root.opcode == 'tuple':
    pins.add(root.id)
  unpinned = [i for i in entry.instructions if i.id not in pins]
  root = editor.make(entry, 'tuple',
                     array_shape.tuple_of([i.shape for i in probes]),
                     [i.id for i in probes])
  del entry.instructions[:]
  entry.instructions.extend([*unpinned, *added, root])
  entry.root_id = root.id
  for field in 'input_output_alias', 'buffer_donor':
    module.ClearField(field)
  set_program_shape(module)
