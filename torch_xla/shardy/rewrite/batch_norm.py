"""Writes batch normalisation out, for Shardy: HloModuleProto, in place.

Neither GSPMD nor Shardy propagates through HLO's `batch-norm-*`, which is what
torch makes of `layer_norm`, `group_norm`, `instance_norm` and `batch_norm`.
XLA's compilers write it out as well, but on CPU only once it is partitioned:

    before   n = (f32[8,4], f32[4], f32[4]) batch-norm-training(x, s, offset)
             y = f32[8,4] get-tuple-element(n), index=0
             z = f32[8,4] negate(y)
    after    sum = f32[4] reduce(x, zero), dimensions={0}, to_apply=shardy.add
             mean = f32[4] divide(sum, count)
             ..
             y = f32[8,4] add(scaled, f32[8,4] broadcast(offset))
             z = f32[8,4] negate(y)

What is computed is said in `normalisation`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..hlo import array_shape
from ..hlo.editor import Editor
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from .hlo_arithmetic import COMPUTED_IN, Writer
from .normalisation import FORMULAS

OPCODES = frozenset(FORMULAS)
_ELEMENT = 'get-tuple-element'


def expand(module: HloModuleProto) -> int:
  """Expands every `batch-norm-*` of a module, in place.

  Metadata and frontend attributes go to all that takes its place, the sharding
  of an inference to its result. What is left: a training or a gradient with a
  sharding of its own, a tuple's, which Shardy cannot be told; dynamic shapes;
  and element types that are not in `COMPUTED_IN`.

  Returns:
    How many were expanded.
  """
  editor = Editor(module)
  expanded = sum(_expand_in(c, editor) for c in module.computations)
  editor.add_adders()
  return expanded


def _is_expandable(instruction: HloInstructionProto,
                   by_id: Mapping[int, HloInstructionProto]) -> bool:
  if instruction.opcode not in FORMULAS:
    return False
  shapes = [by_id[i].shape for i in instruction.operand_ids]
  if (len(shapes) != FORMULAS[instruction.opcode][1] or
      any(map(array_shape.is_dynamic, shapes)) or
      instruction.HasField('sharding') and
      array_shape.is_tuple(instruction.shape)):
    return False
  arrays = [
      a for s in (*shapes, instruction.shape) for a in array_shape.arrays_of(s)
  ]
  return (COMPUTED_IN.keys() >= {a.dtype for a in arrays} and
          0 <= instruction.feature_index < len(arrays[0].dims))


def _expand_in(computation: HloComputationProto, editor: Editor) -> int:
  by_id = {i.id: i for i in computation.instructions}
  expandable = {n for n, i in by_id.items() if _is_expandable(i, by_id)}
  if expandable:
    _Computation(computation, by_id, editor).expand(expandable)
  return len(expandable)


class _Computation:
  """Expands instructions of one computation."""

  def __init__(self, computation: HloComputationProto,
               by_id: dict[int, HloInstructionProto], editor: Editor):
    self._message = computation
    self._by_id = by_id
    self._editor = editor
    self._ordered = _in_control_edges(computation)
    self._needed_ids = self._ordered | _used_as_a_whole(computation)
    self._instructions: list[HloInstructionProto] = []
    # The results of what is expanded, by its id.
    self._results: dict[int, Sequence[HloInstructionProto]] = {}
    # The id of what users use instead, by id.
    self._replaced: dict[int, int] = {}
    # The value before it was put in its shape, by id.
    self._unshaped: dict[int, HloInstructionProto] = {}

  def expand(self, batch_norms: Collection[int]) -> None:
    for instruction in self._message.instructions:
      operands = [self._replaced.get(i, i) for i in instruction.operand_ids]
      instruction.operand_ids[:] = operands
      is_kept = True
      if instruction.id in batch_norms:
        is_kept = self._batch_norm(instruction)
      elif instruction.opcode == _ELEMENT and operands[0] in self._results:
        is_kept = self._element(instruction)
      elif instruction.opcode == 'reshape' and operands[0] in self._unshaped:
        instruction.operand_ids[:] = [self._unshaped[operands[0]].id]
      if is_kept:
        self._instructions.append(instruction)
    root = self._message.root_id
    self._message.root_id = self._replaced.get(root, root)
    del self._message.instructions[:]
    self._message.instructions.extend(self._without_unused_shapes())

  def _batch_norm(self, instruction: HloInstructionProto) -> bool:
    """Makes what it computes; whether it stays, as something else."""
    writer = Writer(instruction, self._by_id, self._message, self._editor)
    results = writer.run(FORMULAS[instruction.opcode][0])
    self._instructions.extend(writer.instructions)
    self._by_id.update((i.id, i) for i in writer.instructions)
    self._unshaped.update(writer.unshaped)
    if not array_shape.is_tuple(instruction.shape):
      last = self._instructions.pop()
      _become(instruction, last.opcode, last.operand_ids)
      before = self._unshaped.pop(last.id, None)
      if before is not None and not instruction.HasField('sharding'):
        self._unshaped[instruction.id] = before
      return True
    self._results[instruction.id] = results
    _become(instruction, 'tuple', [r.id for r in results])
    return instruction.id in self._needed_ids

  def _element(self, instruction: HloInstructionProto) -> bool:
    """Replaces the use of an element; returns whether the use remains."""
    result = self._results[instruction.operand_ids[0]][instruction.tuple_index]
    if instruction.HasField('sharding') or instruction.id in self._ordered:
      # It has more to say; the shape is the same.
      _become(instruction, 'reshape', [result.id])
      return True
    self._replaced[instruction.id] = result.id
    return False

  def _without_unused_shapes(self) -> list[HloInstructionProto]:
    """The instructions but for unused shapes, which Shardy would reconcile."""
    used_ids = self._ordered | {self._message.root_id}
    for instruction in self._instructions:
      used_ids.update(instruction.operand_ids)
    return [
        i for i in self._instructions
        if i.id not in self._unshaped or i.id in used_ids
    ]


def _in_control_edges(computation: HloComputationProto) -> set[int]:
  ids: set[int] = set()
  for instruction in computation.instructions:
    if instruction.control_predecessor_ids:
      ids.update((instruction.id, *instruction.control_predecessor_ids))
  return ids


def _used_as_a_whole(computation: HloComputationProto) -> set[int]:
  """The ids of the root and of operands of more than `get-tuple-element`."""
  ids = {computation.root_id}
  for instruction in computation.instructions:
    if instruction.opcode != _ELEMENT:
      ids.update(instruction.operand_ids)
  return ids


def _become(instruction: HloInstructionProto, opcode: str,
            operands: Iterable[int]) -> None:
  """Keeps its id, name and shape, and what else is said of it."""
  instruction.opcode = opcode
  instruction.operand_ids[:] = operands
  for field in ('epsilon', 'feature_index', 'tuple_index'):
    instruction.ClearField(field)
