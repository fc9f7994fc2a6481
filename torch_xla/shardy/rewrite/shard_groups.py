"""Passes a program's shard groups on to Shardy, which shards them alike.

`xs.shard_as`, so the backward pass of a scan, is a `Sharding` call of `{unknown}`
on each tensor of a group. Shardy has groups of its own, which are calls without a
result:

    p = custom-call(x), target="Sharding", sharding={unknown shard_as 3}
    .. = () custom-call(x), target="xla.sdy.ShardingGroup",
         xla.sdy.sharding_group_id="3 : i64"
"""

from __future__ import annotations

from ..hlo import array_shape, op_sharding
from ..hlo.editor import dims_of, Editor, insert, set_attribute
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sharding.hlo_sharding import ShardingType
from .extract import InstructionKey
from .manual_regions import is_sharding_call

_TARGET = 'xla.sdy.ShardingGroup'
_ATTRIBUTE = 'xla.sdy.sharding_group_id'

# The numbers of the groups that values are in.
Groups = dict[InstructionKey, set[int]]


def extract_groups(module: HloModuleProto) -> Groups:
  """Takes the calls of `{unknown}` out; gives the groups of their operands."""
  groups: Groups = {}
  for computation in module.computations:
    operands: dict[int, int] = {}
    for i in computation.instructions:
      if not is_sharding_call(i):
        continue
      sharding = op_sharding.parse(i.sharding)
      if sharding.type != ShardingType.UNKNOWN:
        continue
      operand = operands.get(i.operand_ids[0], i.operand_ids[0])
      operands[i.id] = operand
      if sharding.is_shard_group:
        groups.setdefault((computation.id, operand),
                          set()).add(sharding.shard_group_id)
    if operands:
      remaining = [i for i in computation.instructions if i.id not in operands]
      insert(computation, {}, operands)
      del computation.instructions[:]
      computation.instructions.extend(remaining)
  return groups


def restore_groups(module: HloModuleProto, groups: Groups) -> None:
  """Adds the groups again, but those whose shapes differ by now."""
  shapes: dict[int, set[tuple[int, ...]]] = {}
  for computation in module.computations:
    for i in computation.instructions:
      for group in groups.get((computation.id, i.id), ()):
        shapes.setdefault(group, set()).add(dims_of(i))
  editor = Editor(module)
  for computation in module.computations:
    added = {}
    for i in computation.instructions:
      alike = [
          group for group in sorted(groups.get((computation.id, i.id), ()))
          if len(shapes[group]) == 1
      ]
      if alike:
        added[i.id] = [
            group_call(editor, computation, i.id, group) for group in alike
        ]
    insert(computation, added, {})


def group_call(editor: Editor, computation: HloComputationProto, operand: int,
               group: int) -> HloInstructionProto:
  """The call that puts a value into one of Shardy's groups."""
  call = editor.call(
      computation,
      _TARGET,
      array_shape.tuple_of(()), [operand],
      custom_call_has_side_effect=True)
  set_attribute(call, _ATTRIBUTE, f'{group} : i64')
  return call
