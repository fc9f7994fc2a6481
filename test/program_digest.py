"""A fingerprint of a compiled program."""

from __future__ import annotations

from collections.abc import Mapping
import hashlib
from typing import Any

from torch_xla.shardy.aot.compiled.compiled_module import CompiledModule
from torch_xla.shardy.hlo import messages, protos


def digest(module: CompiledModule) -> str:
  """SHA-256 of a program, without what equal compiles may have different.

  That is all that names and numbers: of the module, computations,
  instructions, channels and parameters, and where in the user's files an
  operation came from. Operations, shapes, layouts, shardings, schedule, aliases
  and the compiler's settings of each operation are in it.

  Returns:
    64 hexadecimal digits.
  """
  plain = messages.make(protos.HloModuleProto)
  plain.CopyFrom(module.message)
  _forget(plain)
  _sort_attributes(plain)
  _order_instructions(plain)
  _order_computations(plain)
  _number_anew(plain)
  return hashlib.sha256(plain.SerializeToString(deterministic=True)).hexdigest()


def _forget(module: Any) -> None:
  for field in ('name', 'id', 'stack_frame_index'):
    module.ClearField(field)
  module.host_program_shape.ClearField('parameter_names')
  for computation in module.computations:
    computation.ClearField('name')
    computation.program_shape.ClearField('parameter_names')
    for instruction in computation.instructions:
      for field in ('name', 'metadata', 'original_value'):
        instruction.ClearField(field)
      # The default is as good as nothing.
      if not any(instruction.precision_config.operand_precision):
        instruction.precision_config.ClearField('operand_precision')
        if not instruction.precision_config.ByteSize():
          instruction.ClearField('precision_config')


def _sort_attributes(module: Any) -> None:
  """Maps are in no order on the wire."""
  instructions = (i for c in module.computations for i in c.instructions)
  for owner in (module, *instructions):
    if len(owner.frontend_attributes.map) > 1:
      ordered = sorted(
          owner.frontend_attributes.map, key=lambda entry: entry.key)
      del owner.frontend_attributes.map[:]
      owner.frontend_attributes.map.extend(ordered)


def _order_instructions(module: Any) -> None:
  """Orders them as scheduled, or by use: on the wire they are in any order.

  Parameters come first, by number: when they are scheduled means nothing.
  """
  scheduled = {s.key: s.value for s in module.schedule.sequences}
  for computation in module.computations:
    by_id = {i.id: i for i in computation.instructions}
    parameters = sorted(
        (i for i in computation.instructions if i.opcode == 'parameter'),
        key=lambda i: i.parameter_number)
    order = dict.fromkeys(i.id for i in parameters)
    if computation.id in scheduled:
      sequence = scheduled[computation.id]
      order.update(dict.fromkeys(sequence.instruction_ids))
      sequence.instruction_ids[:] = list(order)
    else:
      _add_by_use(computation, by_id, order)
    # What the order does not have, behind it.
    ordered = [by_id[i] for i in dict.fromkeys((*order, *by_id))]
    del computation.instructions[:]
    computation.instructions.extend(ordered)


def _add_by_use(computation: Any, by_id: Mapping[int, Any],
                order: dict[int, None]) -> None:
  """Adds what the result needs, each instruction behind its operands."""
  waiting = [computation.root_id]
  while waiting:
    last = by_id[waiting[-1]]
    before = [
        i for i in (*last.operand_ids, *last.control_predecessor_ids)
        if i not in order
    ]
    if before:
      waiting += reversed(before)
    else:
      order.setdefault(waiting.pop())


def _order_computations(module: Any) -> None:
  """The entry first, then each as it is called first."""
  by_id = {c.id: c for c in module.computations}
  order = {module.entry_computation_id: None}
  waiting = [module.entry_computation_id]
  while waiting:
    called = dict.fromkeys(
        i for instruction in by_id[waiting.pop()].instructions
        for i in instruction.called_computation_ids if i not in order)
    order.update(called)
    waiting += reversed(called)
  ordered = [by_id[i] for i in dict.fromkeys((*order, *by_id))]
  del module.computations[:]
  module.computations.extend(ordered)


def _number_anew(module: Any) -> None:
  """Numbers computations, instructions and channels in the order they stand."""
  computations = {c.id: n for n, c in enumerate(module.computations)}
  instructions = {
      i.id: n for n, i in enumerate(i for c in module.computations
                                    for i in c.instructions)
  }
  channels: dict[int, int] = {}
  module.entry_computation_id = computations[module.entry_computation_id]
  for computation in module.computations:
    computation.id = computations[computation.id]
    computation.root_id = instructions[computation.root_id]
    for instruction in computation.instructions:
      instruction.id = instructions[instruction.id]
      for ids, numbers in ((instruction.operand_ids, instructions),
                           (instruction.control_predecessor_ids, instructions),
                           (instruction.called_computation_ids, computations)):
        ids[:] = [numbers[i] for i in ids]
      if instruction.channel_id:
        instruction.channel_id = channels.setdefault(instruction.channel_id,
                                                     len(channels) + 1)
  for sequence in module.schedule.sequences:
    sequence.key = computations[sequence.key]
    ids = sequence.value.instruction_ids
    ids[:] = [instructions[i] for i in ids]
  ordered = sorted(module.schedule.sequences, key=lambda s: s.key)
  del module.schedule.sequences[:]
  module.schedule.sequences.extend(ordered)
