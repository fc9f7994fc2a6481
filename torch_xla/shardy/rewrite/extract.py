"""Finds the bindings and tags in a program, and takes them out.

No backend knows these calls, so they leave every program, whoever partitions
it. `annotate.call_target` says what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import dataclasses

from ..annotate import call_target
from ..annotate.annotation import Annotation
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)

# In HLO the Sharding call is how a user's sharding reaches a tensor.
SHARDING_TARGET = 'Sharding'

# An instruction: the ids of its computation and its own.
InstructionKey = tuple[int, int]

# The users' names of a binding's operands, by the binding's target; empty where
# they are not known.
NamesOf = Callable[[str], Sequence[str]]

# The target of a binding that stood in a program, by which the process knows it
# again, and the numbers of its operands; -1 for one that is no parameter.
Binding = tuple[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Annotations:
  """The annotations that a program's calls carried.

  Attributes:
    has_calls: whether there was any.
    parameters: annotation by parameter number of the entry computation.
    constraints: annotation of `Sharding` calls.
    bindings: in order.
    unused: the numbers of parameters that only bindings used.
    repeated: annotation of constraints that nobody asked for: `unasked`.
  """
  has_calls: bool = False
  parameters: dict[int, Annotation] = dataclasses.field(default_factory=dict)
  constraints: dict[InstructionKey,
                    Annotation] = dataclasses.field(default_factory=dict)
  bindings: tuple[Binding, ...] = ()
  unused: frozenset[int] = frozenset()
  repeated: dict[InstructionKey,
                 Annotation] = dataclasses.field(default_factory=dict)

  def without_unused(self) -> Annotations:
    """Drops the annotations of parameters that are not used.

    Their tensors were not going to be in this program: their annotations must
    not choose a mesh, or a priority, for others.
    """
    return dataclasses.replace(
        self,
        parameters={
            n: annotation
            for n, annotation in self.parameters.items()
            if n not in self.unused
        })

  def names(self, names_of: NamesOf) -> dict[int, str]:
    """The users' names of the program's parameters."""
    names: dict[int, str] = {}
    for target, parameters in self.bindings:
      names.update(zip(parameters, names_of(target), strict=False))
    return names


def extract_annotations(module: HloModuleProto) -> Annotations:
  """Takes the calls out of an HloModuleProto message, in place.

  A binding's scalar result becomes the constant 0, so that the program still
  gives as many results. A parameter that only a binding used is not donated:
  its tensor was not going to be in this program.

  Raises:
    AnnotationTextError: a call whose target is damaged.
  """
  annotations = Annotations()
  all_bindings: list[Binding] = []
  unused: set[int] = set()
  has_calls = False
  for computation in module.computations:
    tags, bindings = {}, []
    for instruction in computation.instructions:
      target = instruction.custom_call_target
      if not target.startswith(call_target.PREFIX):
        continue
      if call_target.is_tag(target):
        tags[instruction.id] = instruction
      elif call_target.is_binding(target):
        bindings.append(instruction)
    has_calls |= bool(tags or bindings)
    if tags:
      _extract_tags(computation, tags, annotations)
      # The messages are others now.
      bindings = bindings and [
          i for i in computation.instructions
          if call_target.is_binding(i.custom_call_target)
      ]
    bound: dict[int, int] = {}
    for binding in bindings:
      operands = list(binding.operand_ids)
      extracted = _extract_binding(binding, computation, annotations)
      all_bindings.append(extracted)
      bound |= zip(operands, extracted[1], strict=True)
    if bound:
      unused |= _unused(computation, bound)
  _keep_undonated(module, unused)
  return dataclasses.replace(
      annotations,
      has_calls=has_calls,
      bindings=tuple(all_bindings),
      unused=frozenset(unused))


def _extract_tags(computation: HloComputationProto,
                  tags: Mapping[int, HloInstructionProto],
                  annotations: Annotations) -> None:

  def untagged(instruction_id: int) -> int:
    while instruction_id in tags:
      instruction_id = tags[instruction_id].operand_ids[0]
    return instruction_id

  instructions = []
  for instruction in computation.instructions:
    if instruction.id in tags:
      continue
    instructions.append(instruction)
    operands = instruction.operand_ids
    if tags.keys().isdisjoint(operands):
      continue
    for place, operand in enumerate(operands):
      if operand in tags:
        if instruction.custom_call_target == SHARDING_TARGET:
          target = tags[operand].custom_call_target
          constraints = (
              annotations.repeated
              if call_target.is_update(target) else annotations.constraints)
          constraints[computation.id,
                      instruction.id], = call_target.parse_target(target)
        operands[place] = untagged(operand)
  computation.root_id = untagged(computation.root_id)
  del computation.instructions[:]
  computation.instructions.extend(instructions)


def _extract_binding(binding: HloInstructionProto,
                     computation: HloComputationProto,
                     annotations: Annotations) -> Binding:
  target = binding.custom_call_target
  parsed = call_target.parse_target(target)
  if len(parsed) != len(binding.operand_ids):
    raise call_target.AnnotationTextError(
        f'{len(parsed)} annotations for {len(binding.operand_ids)} tensors')
  numbers = {
      i.id: i.parameter_number
      for i in computation.instructions
      if i.opcode == 'parameter'
  }
  operands = [numbers.get(operand, -1) for operand in binding.operand_ids]
  for number, annotated in zip(operands, parsed, strict=True):
    if number >= 0:
      annotations.parameters[number] = annotated
  binding.opcode = 'constant'
  binding.literal.shape = binding.shape
  binding.literal.f32s.append(0.0)
  for field in ('custom_call_target', 'operand_ids', 'sharding',
                'frontend_attributes', 'custom_call_api_version'):
    binding.ClearField(field)
  return target, tuple(operands)


def _unused(computation: HloComputationProto, bound: Mapping[int,
                                                             int]) -> set[int]:
  """The numbers of those parameters, by id, that nothing else uses."""
  unused_ids = {i for i, number in bound.items() if number >= 0}
  unused_ids.discard(computation.root_id)
  for instruction in computation.instructions:
    if unused_ids:
      unused_ids.difference_update(instruction.operand_ids)
  return {bound[i] for i in unused_ids}


def _keep_undonated(module: HloModuleProto, parameters: set[int]) -> None:
  entries = module.buffer_donor.entries
  for entry in list(entries):
    if entry.parameter_number in parameters:
      entries.remove(entry)
