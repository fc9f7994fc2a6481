"""`Sharding` calls that hold dimensions whole, and leave the others open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
import re
from typing import NamedTuple, Optional

from ..hlo import op_sharding
from ..hlo.editor import dims_of, Editor, Place, rewrite
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sharding.hlo_sharding import HloSharding, REPLICATED, ShardingType

_OPEN = re.compile(r'unspecified_dims=\[([\d,]*)\]')


class Held(NamedTuple):
  """The dimensions that an instruction is held along; all empty if it is not."""
  lhs: Collection[int] = ()
  rhs: Collection[int] = ()
  result: Collection[int] = ()


def has_manual(shardings: Iterable[Optional[HloSharding]]) -> bool:
  """Tests for a manual region, whose values have no sharding but the region's.
  """
  return any(s and s.type is ShardingType.MANUAL for s in shardings)


def holding(rank: int, held: Iterable[int]) -> str:
  """The `backend_config` of a `Sharding` call that holds dimensions whole."""
  left = sorted(set(range(rank)).difference(held))
  return f'unspecified_dims=[{",".join(map(str, left))}]' if left else ''


def open_dims(backend_config: str) -> tuple[int, ...]:
  """The dimensions that a `Sharding` call leaves open."""
  match = _OPEN.search(backend_config)
  return tuple(map(int, match[1].split(','))) if match and match[1] else ()


def hold(computation: HloComputationProto, editor: Editor,
         value: HloInstructionProto,
         dims: Iterable[int]) -> HloInstructionProto:
  """The call that holds a value's dimensions, to be put behind it."""
  return editor.call(
      computation,
      'Sharding',
      value.shape, [value.id],
      sharding=op_sharding.to_bytes(REPLICATED),
      backend_config=holding(len(dims_of(value)), dims).encode())


def is_hold(call: HloInstructionProto) -> bool:
  """Tests for a call that a pass inserted: the editor named it."""
  return call.name.startswith('shardy.')


def hold_around(module: HloModuleProto,
                opcode: str,
                held_of: Callable[[HloInstructionProto], Held],
                editor: Optional[Editor] = None) -> int:
  """Makes instructions take two operands whole along some dimensions.

  Args:
    editor: as for `rewrite`.

  Returns:
    How many.
  """

  def held(place: Place) -> Optional[list[HloInstructionProto]]:
    instruction, _, computation, editor = place
    dims = held_of(instruction)
    if not any(dims):
      return None
    lhs, rhs, *rest = place.operands
    operands = [
        hold(computation, editor, lhs, dims.lhs),
        hold(computation, editor, rhs, dims.rhs)
    ]
    copy = editor.copied(computation, instruction,
                         [i.id for i in (*operands, *rest)])
    copy.ClearField('sharding')
    instructions = [*operands, copy]
    if dims.result:
      instructions.append(hold(computation, editor, copy, dims.result))
    if instruction.HasField('sharding'):  # That of the result's users.
      instructions.append(
          editor.call(computation, 'Sharding', copy.shape,
                      [instructions[-1].id]))
    become(instruction, instructions.pop())
    return instructions

  return rewrite(module, (opcode,), held, editor)


def become(instruction: HloInstructionProto,
           other: HloInstructionProto) -> None:
  """Replaces an instruction by another, but its id, name and sharding."""
  other.id, other.name = instruction.id, instruction.name
  other.control_predecessor_ids[:] = instruction.control_predecessor_ids
  for field in ('metadata', 'frontend_attributes', 'sharding'):
    if instruction.HasField(field):
      if field == 'sharding':
        other.sharding = instruction.sharding
      else:
        getattr(other, field).CopyFrom(getattr(instruction, field))
  instruction.CopyFrom(other)
