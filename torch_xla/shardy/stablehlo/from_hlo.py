"""Converts a program in HLO to StableHLO, bindings, tags and donation kept."""

from __future__ import annotations

from typing import Any

from . import dialects
from ..hlo import array_shape, messages
from .functions import ARGUMENTS, attributes_of, DONOR_ATTRIBUTE, main_of, set_attributes

# Without these a plugin knows a program of torch_xla.
_NOT_IN_TORCH_XLA = ('mhlo.num_partitions', 'mhlo.num_replicas')


def convert(program: bytes) -> Any:
  """The module of a serialised HloModuleProto.

  Raises:
    ValueError: `program` is damaged.
    ProgramTextError: it cannot be converted.
    DoorError: jaxlib is missing.
  """
  from jaxlib.mlir import ir
  parsed = messages.parse('HloModuleProto', program)
  module = dialects.from_hlo(program)
  with dialects.scope(module):
    for name in _NOT_IN_TORCH_XLA:
      if name in module.operation.attributes:
        del module.operation.attributes[name]
    donors = {entry.parameter_number for entry in parsed.buffer_donor.entries}
    if _has_tupled_parameters(parsed):
      donors = set()  # They say nothing of the tuple's elements.
    main = main_of(module)
    given = attributes_of(main, ARGUMENTS)
    for number, one in enumerate(given):
      if number in donors:
        one[DONOR_ATTRIBUTE] = ir.BoolAttr.get(True)
    if donors:
      set_attributes(main, ARGUMENTS, given)
  return module


def _has_tupled_parameters(parsed: Any) -> bool:
  """Whether parameters are one tuple; `main` has each of its elements."""
  return any(instruction.opcode == 'parameter' and
             array_shape.is_tuple(instruction.shape)
             for computation in parsed.computations
             if computation.id == parsed.entry_computation_id
             for instruction in computation.instructions)
