"""`Sharding` calls that hold dimensions whole, and leave the others open."""

from __future__ import annotations

from collections.abc import Iterable
import re

from ..hlo import op_sharding
from ..hlo.editor import dims_of, Editor
from ..hlo.protos import HloComputationProto, HloInstructionProto
from ..sharding.hlo_sharding import REPLICATED

_OPEN = re.compile(r'unspecified_dims=\[([\d,]*)\]')


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
