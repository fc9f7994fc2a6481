"""Takes merges of dimensions out of matrix products: HloModuleProto, in place.

torch has a product of matrices of two dimensions, or of three with a batch: for
more it merges dimensions before and splits them again after. In between a
sharding of any but the first of those merged is lost, that of attention heads
or of a sequence:

    before   q = f32[8,4,5,16]; k = f32[8,4,16,5]
             a = f32[32,5,16] reshape(q)
             b = f32[32,16,5] reshape(k)
             c = f32[32,5,5] dot(a, b), lhs_batch_dims={0}, ..
             d = f32[8,4,5,5] reshape(c)
    after    c = f32[8,4,5,5] dot(q, k), lhs_batch_dims={0,1}, ..

What is computed is the same. A transpose of what is merged, a sum with it (a
bias) or another operation element by element may stand in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from ..hlo import array_shape, messages
from ..hlo.editor import dims_of, drop_unused, Editor, uses
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from .merged_dims import Dims, merge, Merged, product, ProductDims

# What stands between a product and the reshape that splits its dimensions.
ELEMENTWISE = frozenset(
    ('add', 'subtract', 'multiply', 'divide', 'maximum', 'minimum', 'convert',
     'negate', 'tanh', 'exponential', 'logistic', 'select', 'compare'))

OPCODES = frozenset(('dot',))


def unmerge(module: HloModuleProto) -> int:
  """Takes merges out of the products of a module, in place.

  Returns:
    Of how many products.
  """
  with_products = [
      c for c in module.computations
      if any(i.opcode == 'dot' for i in c.instructions)
  ]
  if not with_products:
    return 0
  editor = Editor(module)
  return sum(_Unmerger(editor, c).run() for c in with_products)


class _Unmerger:
  """Takes merges out of one computation."""

  def __init__(self, editor: Editor, computation: HloComputationProto):
    self._editor = editor
    self._computation = computation
    self._by_id: dict[int, HloInstructionProto] = {}
    # Arrays as reshapes of others: the source's id, and how.
    self._forms: dict[int, tuple[int, Merged]] = {}
    self._of_product: set[int] = set()  # Forms whose source a product gave.
    self._replaced: dict[int, int] = {}
    self._new_instructions: list[HloInstructionProto] = []
    self._ordered = {
        n for i in computation.instructions for n in i.control_predecessor_ids
    }
    self._count = 0

  def run(self) -> int:
    instructions = []
    before = uses(self._computation)
    for instruction in self._computation.instructions:
      operands = list(instruction.operand_ids)
      if not self._replaced.keys().isdisjoint(operands):
        operands = [self._replaced.get(n, n) for n in operands]
        instruction.operand_ids[:] = operands
      if (self._is_of_interest(instruction.opcode, operands) and
          self._is_plain(instruction)):
        self._look_at(instruction, operands)
      if self._new_instructions:
        instructions += self._new_instructions
        self._by_id.update((i.id, i) for i in self._new_instructions)
        self._new_instructions = []
      self._by_id[instruction.id] = instruction
      instructions.append(instruction)
    if self._count:
      root = self._replaced.get(self._computation.root_id)
      if root is not None:
        self._computation.root_id = root
      del self._computation.instructions[:]
      self._computation.instructions.extend(instructions)
      drop_unused(self._computation, before)
    return self._count

  def _is_of_interest(self, opcode: str, operands: Sequence[int]) -> bool:
    if opcode in ('dot', 'reshape'):
      return True
    if opcode in ('transpose', 'broadcast'):
      return not self._forms.keys().isdisjoint(operands)
    return opcode in ELEMENTWISE and not self._of_product.isdisjoint(operands)

  def _is_plain(self, instruction: HloInstructionProto) -> bool:
    """Tests that it has no sharding, and no other attribute of its own."""
    return not (instruction.HasField('sharding') or
                instruction.control_predecessor_ids or instruction.id
                in self._ordered or array_shape.is_tuple(instruction.shape) or
                array_shape.is_dynamic(instruction.shape) or
                not all(n in self._by_id for n in instruction.operand_ids))

  def _look_at(self, instruction: HloInstructionProto,
               operands: Sequence[int]) -> None:
    opcode = instruction.opcode
    if opcode == 'dot':
      self._product(instruction, *operands)
    elif opcode == 'reshape':
      self._reshape(instruction, operands[0])
    elif opcode == 'transpose':
      self._transpose(instruction, operands[0])
    elif opcode == 'broadcast':
      if (self._dims(instruction.id, instruction) == self._dims(operands[0]) and
          list(instruction.dimensions) == sorted(instruction.dimensions)):
        self._replaced[instruction.id] = operands[0]
    else:
      self._elementwise(instruction, operands)

  def _product(self, instruction: HloInstructionProto, lhs: int,
               rhs: int) -> None:
    numbers = instruction.dot_dimension_numbers
    (lhs_source, lhs_form), (rhs_source,
                             rhs_form) = map(self._form_of, (lhs, rhs))
    unmerged = product(
        lhs_form, rhs_form,
        ProductDims(
            tuple(numbers.lhs_batch_dimensions),
            tuple(numbers.rhs_batch_dimensions),
            tuple(numbers.lhs_contracting_dimensions),
            tuple(numbers.rhs_contracting_dimensions)))
    if unmerged is None:
      return
    new_product = self._editor.copied(self._computation, instruction, [
        self._reshaped(lhs_source, unmerged.lhs.source),
        self._reshaped(rhs_source, unmerged.rhs.source)
    ])
    new_product.shape = array_shape.with_dims(new_product.shape,
                                              unmerged.result.source)
    numbers = new_product.dot_dimension_numbers
    numbers.lhs_batch_dimensions[:] = unmerged.dims.lhs_batch
    numbers.rhs_batch_dimensions[:] = unmerged.dims.rhs_batch
    numbers.lhs_contracting_dimensions[:] = unmerged.dims.lhs_contracting
    numbers.rhs_contracting_dimensions[:] = unmerged.dims.rhs_contracting
    new_product.name, instruction.name = instruction.name, new_product.name
    self._new_instructions.append(new_product)
    self._count += 1
    if unmerged.result.merges:
      self._become_reshape(instruction, new_product.id, unmerged.result)
    else:
      self._replaced[instruction.id] = self._reshaped(
          new_product.id, self._dims(instruction.id, instruction))

  def _reshape(self, instruction: HloInstructionProto, operand: int) -> None:
    source, form = self._form_of(operand)
    if operand in self._forms and not form.is_transposed:
      # A reshape of a reshape is one.
      operand = source
      instruction.operand_ids[:] = [source]
    elif operand in self._of_product:
      operand = self._transposed(source, form.order)
      instruction.operand_ids[:] = [operand]
    dims = self._dims(instruction.id, instruction)
    before = self._dims(operand)
    if dims == before:
      self._replaced[instruction.id] = operand
      return
    groups = merge(before, dims)
    if groups is not None and (form := Merged(before, groups)).merges:
      self._forms[instruction.id] = operand, form

  def _transpose(self, instruction: HloInstructionProto, operand: int) -> None:
    source, form = self._forms[operand]
    self._forms[instruction.id] = source, form.transposed(
        instruction.dimensions)
    if operand in self._of_product:
      self._of_product.add(instruction.id)

  def _elementwise(self, instruction: HloInstructionProto,
                   operands: Sequence[int]) -> None:
    """Moves elementwise operations before the reshape of a product's result."""
    form = next(
        (self._forms[n][1]
         for n in operands
         if n in self._of_product and not self._forms[n][1].is_transposed),
        None)
    dims = self._dims(instruction.id, instruction)
    if form is None or any(self._dims(n) != dims for n in operands):
      return
    unmerged = self._editor.copied(self._computation, instruction,
                                   [self._split(n, form) for n in operands])
    unmerged.shape = array_shape.with_dims(unmerged.shape, form.source)
    unmerged.name, instruction.name = instruction.name, unmerged.name
    self._new_instructions.append(unmerged)
    self._become_reshape(instruction, unmerged.id, form)

  def _split(self, number: int, form: Merged) -> int:
    """An array of merged dimensions in those of the source."""
    if self._forms.get(number, (0, None))[1] == form:
      return self._forms[number][0]
    instruction = self._by_id[number]
    if instruction.opcode == 'broadcast' and self._is_plain(
        instruction) and all(
            len(form.groups[n]) == 1 for n in instruction.dimensions):
      unmerged = self._editor.copied(self._computation, instruction,
                                     instruction.operand_ids)
      unmerged.shape = array_shape.with_dims(unmerged.shape, form.source)
      unmerged.dimensions[:] = [
          form.groups[n][0] for n in instruction.dimensions
      ]
      self._new_instructions.append(unmerged)
      return unmerged.id
    return self._reshaped(number, form.source)

  def _become_reshape(self, instruction: HloInstructionProto, source: int,
                      form: Merged) -> None:
    """Keeps its id and shape, and what else is said of it."""
    reshape = messages.make(
        HloInstructionProto,
        name=instruction.name,
        opcode='reshape',
        shape=instruction.shape,
        id=instruction.id,
        operand_ids=[source])
    for field in ('metadata', 'frontend_attributes'):
      if instruction.HasField(field):
        getattr(reshape, field).CopyFrom(getattr(instruction, field))
    instruction.CopyFrom(reshape)
    self._forms[instruction.id] = source, form
    self._of_product.add(instruction.id)

  def _form_of(self, number: int) -> tuple[int, Merged]:
    if number in self._forms:
      return self._forms[number]
    return number, Merged.plain(self._dims(number))

  def _reshaped(self, number: int, dims: Dims) -> int:
    if self._dims(number) == dims:
      return number
    shape = array_shape.with_dims(self._instruction(number).shape, dims)
    reshape = self._editor.make(self._computation, 'reshape', shape, [number])
    self._new_instructions.append(reshape)
    return reshape.id

  def _transposed(self, number: int, order: Dims) -> int:
    before = self._dims(number)
    shape = array_shape.with_dims(
        self._instruction(number).shape, tuple(before[n] for n in order))
    transpose = self._editor.make(
        self._computation, 'transpose', shape, [number], dimensions=order)
    self._new_instructions.append(transpose)
    return transpose.id

  def _instruction(self, number: int) -> HloInstructionProto:
    return self._by_id.get(number) or next(
        i for i in self._new_instructions if i.id == number)

  def _dims(self,
            number: int,
            instruction: Optional[HloInstructionProto] = None) -> Dims:
    return dims_of(instruction or self._instruction(number))
