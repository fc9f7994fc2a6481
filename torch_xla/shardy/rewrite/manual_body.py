"""The computation that a manual region becomes, in HLO.

    xla.sdy.manual_computation_body.1 (p: f32[4,8]) -> f32[4,8] {
      p = f32[4,8] parameter(0)
      ROOT m = f32[4,8] tanh(p)
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..hlo import array_shape
from ..hlo.editor import Editor
from ..hlo.protos import HloComputationProto, HloInstructionProto
from ..sdy import attributes
from ..sdy.manual import BODY


class Value(NamedTuple):
  """One that enters or leaves a region.

  Attributes:
    id: of the instruction that gives it.
    local: the shape that it has within.
    whole: without.
    dims: how it is split, without.
  """
  id: int
  local: bytes
  whole: bytes
  dims: attributes.TensorSharding


def shape_of(shapes: Sequence[bytes]) -> bytes:
  """The shape of one value, or of several, which are a tuple."""
  return shapes[0] if len(shapes) == 1 else array_shape.tuple_of(shapes)


class Body:
  """The computation that a region becomes.

  Attributes:
    inputs: what its parameters are outside, in order.
    inside: the ids of values in it, by those outside.
  """

  def __init__(self, editor: Editor):
    self._editor = editor
    self._computation = editor.computation(BODY)
    self._instructions: list[HloInstructionProto] = []
    self.inputs: list[Value] = []
    self.inside: dict[int, int] = {}

  def enter(self, value: Value) -> int:
    """The parameter by which a value enters."""
    number = len(self.inputs)
    self.inputs.append(value)
    return self._make('parameter', value.local, parameter_number=number)

  def add(self,
          i: HloInstructionProto,
          operands: Sequence[int],
          is_copied: bool = False) -> None:
    """Takes an instruction in from outside."""
    take = self._editor.copied if is_copied else self._editor.moved
    copy = take(self._computation, i, operands)
    copy.ClearField('sharding')
    self._instructions.append(copy)
    self.inside[i.id] = copy.id

  def reshape(self, operand: int, shape: bytes) -> int:
    return self._make('reshape', shape, [operand])

  def finished(self, values: Sequence[Value]) -> HloComputationProto:
    """The computation that gives these values."""
    body = self._computation
    body.root_id = values[0].id
    shape = shape_of([value.local for value in values])
    if len(values) > 1:
      body.root_id = self._make('tuple', shape, [value.id for value in values])
    body.instructions.extend(self._instructions)
    body.program_shape.parameters.extend(i.local for i in self.inputs)
    body.program_shape.parameter_names.extend(
        f'p{n}' for n in range(len(self.inputs)))
    body.program_shape.result = shape
    return body

  def _make(self,
            opcode: str,
            shape: bytes,
            operands: Sequence[int] = (),
            **fields: Any) -> int:
    instruction = self._editor.make(self._computation, opcode, shape, operands,
                                    **fields)
    self._instructions.append(instruction)
    return instruction.id
