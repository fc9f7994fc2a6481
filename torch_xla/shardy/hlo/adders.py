"""The computations that sums of a program are reduced by."""

from __future__ import annotations

from .editor import Editor
from .protos import HloComputationProto


class Adders:
  """The computations that sums are reduced by, one for each element type."""

  def __init__(self, editor: Editor):
    self.editor = editor
    self.computations: dict[bytes, HloComputationProto] = {}

  def adder_id(self, scalar: bytes) -> int:
    """The id of the one for a shape."""
    if scalar not in self.computations:
      adder = self.editor.computation('shardy.add')
      operands = [
          self.editor.make(adder, 'parameter', scalar, parameter_number=number)
          for number in range(2)
      ]
      total = self.editor.make(adder, 'add', scalar, [i.id for i in operands])
      adder.instructions.extend([*operands, total])
      adder.root_id = total.id
      adder.program_shape.parameters.extend([scalar, scalar])
      adder.program_shape.result = scalar
      adder.program_shape.parameter_names.extend(i.name for i in operands)
      self.computations[scalar] = adder
    return self.computations[scalar].id

  def add(self) -> None:
    """Adds those that were asked for to the program.

    Messages of its computations that are at hand are so no longer.
    """
    if self.computations:
      self.editor.add_computations(list(self.computations.values()))
