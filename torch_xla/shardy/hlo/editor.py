"""Adds instructions and computations to a program: HloModuleProto, in place.

  >>> editor = Editor(module)
  >>> twice = editor.make(entry, 'add', x.shape, (x.id, x.id))
  >>> insert(entry, {x.id: [twice]}, replaced={x.id: twice.id})
"""

from __future__ import annotations

from collections.abc import (Callable, Collection, Iterator, Mapping, Sequence)
from typing import Any, NamedTuple, Optional, Union

from . import array_shape, messages
from .protos import (HloComputationProto, HloInstructionProto, HloModuleProto,
                     LiteralProto)

_LOW_ID = 2**32 - 1
_API_VERSION_ORIGINAL = 1  # Of custom calls.


def entry_of(module: HloModuleProto) -> HloComputationProto:
  """The computation that a program is."""
  for computation in module.computations:
    if computation.id == module.entry_computation_id:
      return computation
  raise ValueError('a program without an entry computation')


def instructions_of(module: HloModuleProto) -> Iterator[HloInstructionProto]:
  """The instructions of all computations."""
  for computation in module.computations:
    yield from computation.instructions


def dims_of(instruction: HloInstructionProto) -> tuple[int, ...]:
  """The dimensions of an instruction's result, which is an array."""
  shape, = array_shape.arrays_of(instruction.shape)
  return shape.dims


class Editor:
  """Makes the ids of one module's new instructions and computations."""

  def __init__(self, module: HloModuleProto):
    self._module = module
    # XLA wants ids that differ in the lower half; newer ones count the
    # computations in the upper.
    ids = [i.id for i in instructions_of(module)]
    self._next_low_id = 1 + max((i & _LOW_ID for i in ids), default=0)
    self._next_computation_id = 1 + max(
        (c.id & _LOW_ID for c in module.computations), default=0)
    self._has_upper = max(ids, default=0) > _LOW_ID
    # What sums are reduced by, for each shape of a scalar.
    self._adders: dict[bytes, HloComputationProto] = {}

  def make(self,
           computation: HloComputationProto,
           opcode: str,
           shape: bytes,
           operands: Sequence[int] = (),
           **fields: Any) -> HloInstructionProto:
    """A new instruction for `computation`, which has yet to be put there.

    Args:
      shape: a serialised ShapeProto.
      operands: ids.
      fields: more of HloInstructionProto.
    """
    low = self._next_low_id
    self._next_low_id += 1
    return messages.make(
        HloInstructionProto,
        name=f'shardy.{low}',
        opcode=opcode,
        shape=shape,
        id=self._upper(computation) | low,
        operand_ids=operands,
        **fields)

  def call(self, computation: HloComputationProto, target: str, shape: bytes,
           operands: Sequence[int], **fields: Any) -> HloInstructionProto:
    """A new custom call; arguments as of `make`."""
    return self.make(
        computation,
        'custom-call',
        shape,
        operands,
        custom_call_target=target,
        custom_call_api_version=_API_VERSION_ORIGINAL,
        **fields)

  def moved(self, computation: HloComputationProto,
            instruction: HloInstructionProto,
            operands: Sequence[int]) -> HloInstructionProto:
    """An instruction as it is in another computation, which it moves to."""
    moved = messages.make(HloInstructionProto)
    moved.CopyFrom(instruction)
    moved.id = self._upper(computation) | instruction.id & _LOW_ID
    moved.operand_ids[:] = operands
    return moved

  def copied(self, computation: HloComputationProto,
             instruction: HloInstructionProto,
             operands: Sequence[int]) -> HloInstructionProto:
    """A copy of an instruction, with an id and a name of its own."""
    copy = self.moved(computation, instruction, operands)
    new = self.make(computation, copy.opcode, copy.shape)
    copy.id, copy.name = new.id, new.name
    return copy

  def padded(self, computation: HloComputationProto,
             operand: HloInstructionProto, dims: Sequence[int],
             **fields: Any) -> tuple[HloInstructionProto, ...]:
    """The instructions that pad an array with zeros to `dims`, the array last."""
    zero, value = self.zero(computation, operand.shape)
    padded = self.make(computation, 'pad',
                       array_shape.with_dims(operand.shape, tuple(dims)),
                       [operand.id, value.id], **fields)
    for size, to in zip(dims_of(operand), dims, strict=True):
      padded.padding_config.dimensions.add(edge_padding_high=to - size)
    return zero, value, padded

  def parameter(self, entry: HloComputationProto,
                shape: bytes) -> HloInstructionProto:
    """A parameter more of the program."""
    number = len(entry.program_shape.parameters)
    parameter = self.make(entry, 'parameter', shape, parameter_number=number)
    for program in self._module.host_program_shape, entry.program_shape:
      program.parameters.append(shape)
      program.parameter_names.append(parameter.name)
    return parameter

  def zero(self, computation: HloComputationProto,
           shape: bytes) -> tuple[HloInstructionProto, HloInstructionProto]:
    """A scalar of an array's type, after what makes it."""
    zero = self.integer(computation, shape, 0)
    scalar = array_shape.with_dims(shape, ())
    return zero, self.make(computation, 'convert', scalar, [zero.id])

  def integer(self, computation: HloComputationProto, shape: bytes,
              number: int) -> HloInstructionProto:
    """A scalar of 32 bits, with all else as the shape has it."""
    scalar = array_shape.with_type(array_shape.with_dims(shape, ()), 's32')
    literal = messages.make(LiteralProto, shape=scalar, s32s=[number])
    return self.make(computation, 'constant', scalar, literal=literal)

  def cut(self, computation: HloComputationProto, operand: HloInstructionProto,
          dims: Sequence[int]) -> HloInstructionProto:
    """The first elements of an array in each dimension, `dims` of them."""
    cut = self.make(computation, 'slice',
                    array_shape.with_dims(operand.shape, tuple(dims)),
                    [operand.id])
    for size in dims:
      cut.slice_dimensions.add(limit=size, stride=1)
    return cut

  def _upper(self, computation: HloComputationProto) -> int:
    return computation.id << 32 if self._has_upper else 0

  def computation(self, name: str) -> HloComputationProto:
    """A new, empty computation, which has yet to be added."""
    number = self._next_computation_id
    self._next_computation_id += 1
    return messages.make(
        HloComputationProto, name=f'{name}.{number}', id=number)

  def adder_id(self, scalar: bytes) -> int:
    """The id of the computation that sums of a scalar's shape are reduced by."""
    if scalar not in self._adders:
      adder = self.computation('shardy.add')
      operands = [
          self.make(adder, 'parameter', scalar, parameter_number=number)
          for number in range(2)
      ]
      total = self.make(adder, 'add', scalar, [i.id for i in operands])
      adder.instructions.extend([*operands, total])
      adder.root_id = total.id
      adder.program_shape.parameters.extend([scalar, scalar])
      adder.program_shape.result = scalar
      adder.program_shape.parameter_names.extend(i.name for i in operands)
      self._adders[scalar] = adder
    return self._adders[scalar].id

  def add_adders(self) -> None:
    """Adds the adders that were asked for, as `add_computations` does."""
    if self._adders:
      self.add_computations(list(self._adders.values()))

  def add_computations(
      self,
      computations: Sequence[HloComputationProto],
      before: Mapping[int, Sequence[HloComputationProto]] = {}) -> None:
    """Adds computations: callees come first.

    Messages of the module's computations that are at hand are so no longer.

    Args:
      computations: before all others.
      before: others, by the id of the one that they come right before.
    """
    # The messages of a repeated field cannot be moved.
    existing = [
        type(c).FromString(c.SerializeToString())
        for c in self._module.computations
    ]
    del self._module.computations[:]
    self._module.computations.extend(computations)
    for computation in existing:
      self._module.computations.extend(before.get(computation.id, ()))
      self._module.computations.append(computation)


def insert(computation: HloComputationProto,
           after: Mapping[int, Sequence[HloInstructionProto]],
           replaced: Mapping[int, int]) -> None:
  """Puts new instructions after others, and has users use them instead.

  Args:
    after: new instructions, in order, by the id that they come after.
    replaced: by id, whose result is used instead. Instructions that are
      themselves in `after` keep their operands.
  """
  instructions = []
  for instruction in computation.instructions:
    for place, operand in enumerate(instruction.operand_ids):
      if operand in replaced:
        instruction.operand_ids[place] = replaced[operand]
    instructions.append(instruction)
    instructions.extend(after.get(instruction.id, ()))
  computation.root_id = replaced.get(computation.root_id, computation.root_id)
  del computation.instructions[:]
  computation.instructions.extend(instructions)


class Place(NamedTuple):
  """An instruction to rewrite, and what it takes to put others before it.

  Attributes:
    by_id: the instructions of its computation.
  """
  instruction: HloInstructionProto
  by_id: Mapping[int, HloInstructionProto]
  computation: HloComputationProto
  editor: Editor

  @property
  def operands(self) -> list[HloInstructionProto]:
    return [self.by_id[n] for n in self.instruction.operand_ids]


def rewrite(module: HloModuleProto,
            opcodes: Collection[str],
            make: Callable[[Place], Optional[Sequence[HloInstructionProto]]],
            editor: Optional[Editor] = None) -> int:
  """Puts new instructions before those of some opcodes.

  What has lost its last use is dropped.

  Args:
    make: from an instruction, which it may change, to what comes before it;
      None: there is nothing to do.
    editor: of the module; None: a new one.

  Returns:
    For how many instructions there was anything to do.
  """
  if not any(i.opcode in opcodes for i in instructions_of(module)):
    return 0
  editor, total = editor or Editor(module), 0
  for computation in module.computations:
    by_id = {i.id: i for i in computation.instructions}
    before, count = uses(computation), 0
    instructions: list[HloInstructionProto] = []
    for i in computation.instructions:
      if i.opcode in opcodes and (added := make(
          Place(i, by_id, computation, editor))) is not None:
        instructions.extend(added)
        count += 1
      instructions.append(i)
    if count:
      del computation.instructions[:]
      computation.instructions.extend(instructions)
      drop_unused(computation, before)
      total += count
  return total


def results_of(computation: HloComputationProto) -> list[HloInstructionProto]:
  """The instructions that a computation gives: a tuple's elements, or one."""
  by_id = {i.id: i for i in computation.instructions}
  root = by_id[computation.root_id]
  if root.opcode != 'tuple':
    return [root]
  return [by_id[number] for number in root.operand_ids]


def replace_results(
    computation: HloComputationProto,
    new_results: Mapping[int, Sequence[HloInstructionProto]]) -> None:
  """Gives a computation other results.

  Args:
    new_results: new instructions by the place of the result, the last of which
      it is to be.
  """
  root = next(
      i for i in computation.instructions if i.id == computation.root_id)
  added = [i for instructions in new_results.values() for i in instructions]
  rest = [i for i in computation.instructions if i.id != root.id]
  if root.opcode == 'tuple':
    shapes = array_shape.elements_of(root.shape)
    for place, (*_, result) in new_results.items():
      root.operand_ids[place] = result.id
      shapes[place] = result.shape
    if shapes != array_shape.elements_of(root.shape):
      root.shape = array_shape.tuple_of(shapes)
    order = [*rest, *added, root]  # The root uses them.
  else:
    order = [*rest, root, *added]  # They use it.
    computation.root_id = added[-1].id
  del computation.instructions[:]
  computation.instructions.extend(order)


def set_program_shape(module: HloModuleProto) -> None:
  """Sets a program's shape to that of its parameters and its root."""
  entry = entry_of(module)
  for program in module.host_program_shape, entry.program_shape:
    for i in entry.instructions:
      if i.opcode == 'parameter':
        program.parameters[i.parameter_number] = i.shape
      if i.id == entry.root_id:
        program.result = i.shape


def set_attribute(message: Union[HloInstructionProto, HloModuleProto], key: str,
                  value: str) -> None:
  """Gives an instruction or a module a frontend attribute."""
  entries = message.frontend_attributes.map
  for entry in entries:
    if entry.key == key:
      entry.value = value
      return
  entries.add(key=key, value=value)


def uses(computation: HloComputationProto) -> dict[int, int]:
  """Counts the uses as operand, control predecessor or root, by instruction."""
  counts = dict.fromkeys((i.id for i in computation.instructions), 0)
  for instruction in computation.instructions:
    for operand in instruction.operand_ids:
      counts[operand] += 1
    for before in instruction.control_predecessor_ids:
      counts[before] += 1
  counts[computation.root_id] += 1
  return counts


def drop_unused(computation: HloComputationProto, before: Mapping[int,
                                                                  int]) -> None:
  """Drops what has lost its last use, or is new and has none.

  Args:
    before: how many uses each instruction had.
  """
  use_counts = uses(computation)
  instructions = []
  for instruction in reversed(computation.instructions):
    number = instruction.id
    if use_counts[number] or before.get(number) == 0:
      instructions.append(instruction)
    else:
      for operand in instruction.operand_ids:
        use_counts[operand] -= 1
  instructions.reverse()
  del computation.instructions[:]
  computation.instructions.extend(instructions)
