"""A compiled program: which computations run by themselves, and how often."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
import dataclasses
from typing import Any, Optional

from . import loops
from ...hlo import messages


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledModule:
  """A program as a compiler left it, parsed once.

  Attributes:
    message: the HloModuleProto.
    entry: its entry computation, an HloComputationProto.
    computations: all of them by id.
    times: how often each computation runs in one execution, by id, of those
      whose instructions run one by one: the entry, bodies and conditions of
      loops, what is called and what runs beside the program. Not among them is
      what a fusion fuses or a reduction applies. Each branch of a conditional
      counts as taken.
    loops_counted_once: loops whose trip count the program does not tell.
    replicas: of its device assignment; 1 where it has none.
    partitions: likewise; None where it has none.
  """
  message: Any
  entry: Any
  computations: Mapping[int, Any]
  times: Mapping[int, int]
  loops_counted_once: int
  replicas: int = 1
  partitions: Optional[int] = None

  @property
  def donated(self) -> tuple[int, ...]:
    """The positions of the arguments that it may write over.

    An argument is a parameter, or an element of the one that is a tuple.
    """
    entries = self.message.input_output_alias.entries
    return tuple((*entry.parameter_shape_index, entry.parameter_number)[0]
                 for entry in entries)

  def run(self) -> Iterator[tuple[Any, int]]:
    """Each computation that runs by itself, and how often."""
    for computation in self.message.computations:
      times = self.times.get(computation.id, 0)
      if times:
        yield computation, times


def read(program: bytes, program_format: str) -> CompiledModule:
  """Reads a program as PJRT_Executable_OptimizedProgram gives it."""
  parsed = messages.parse_compiled(program, program_format)
  if parsed is None:
    raise ValueError(
        f'a compiled program in the format {program_format!r} cannot be read: '
        f'the compiler has to give one of {", ".join(messages.HLO_FORMATS)}')
  _, message = parsed
  computations = {c.id: c for c in message.computations}
  if message.entry_computation_id not in computations:
    raise ValueError('a compiled program has no entry computation: it is '
                     f'damaged ({len(program)} bytes)')
  times, unknown = _times(message)
  assignment = message.device_assignment
  return CompiledModule(message, computations[message.entry_computation_id],
                        computations, times, unknown,
                        assignment.replica_count or 1,
                        assignment.computation_count or None)


def _times(module: Any) -> tuple[dict[int, int], int]:
  """How often each computation runs, and how many loops have no trip count."""
  times: dict[int, int] = collections.Counter({module.entry_computation_id: 1})
  unknown = 0
  counts = loops.TripCounts(module)
  # A computation stands before those that call it.
  for computation in reversed(module.computations):
    runs = times[computation.id]
    if not runs:
      continue
    for instruction in computation.instructions:
      if instruction.opcode == 'while':
        trips = counts.trip_count(computation, instruction)
        unknown += trips is None
        trips = 1 if trips is None else trips
        body, condition = instruction.called_computation_ids
        times[body] += runs * trips
        times[condition] += runs * (trips + 1)
      elif instruction.opcode in ('call', 'conditional', 'async-start'):
        for called in instruction.called_computation_ids:
          times[called] += runs
  return dict(times), unknown
