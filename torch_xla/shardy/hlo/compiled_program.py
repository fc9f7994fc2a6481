"""Reads what a compiler made of a program's shardings, and what it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Optional

from . import array_shape, collectives, messages, op_sharding
from ..sharding.hlo_sharding import HloSharding, ShardingType
from ..sharding.tile_assignment import ShardingError
from .array_shape import ArrayShape
from .protos import HloModuleProto

# An instruction before it was compiled: its name and opcode.
Source = tuple[str, str]

COLLECTIVES = collectives.KINDS


@dataclasses.dataclass(frozen=True)
class Collective:
  """All collectives of one kind in a program.

  Attributes:
    kind: as XLA calls it: 'all-reduce'.
    count: instructions; one in a loop counts once.
    nbytes: their sum; of each, the larger of what one device gives and gets.
    smallest: the nbytes of the smallest.
    sources: (op_name, count, nbytes) of what they were made of, the least bytes
      first; the name is empty where metadata do not tell.
  """
  kind: str
  count: int
  nbytes: int
  smallest: int
  sources: tuple[tuple[str, int, int], ...] = dataclasses.field(
      default=(), compare=False)


@dataclasses.dataclass(frozen=True)
class CompiledProgram:
  """The facts that are read from a compiled program.

  Attributes:
    parameters: the sharding of each parameter; None where XLA does not say.
    results: likewise of each result.
    collectives: sorted by kind; None where the backend does not say.
    local_shapes: of the instructions asked for, what one device computes.
  """
  parameters: Optional[tuple[HloSharding, ...]]
  results: Optional[tuple[HloSharding, ...]]
  collectives: Optional[tuple[Collective, ...]]
  local_shapes: dict[Source, ArrayShape]


def read(
    program: bytes,
    program_format: str,
    sources: frozenset[Source] = frozenset()
) -> Optional[CompiledProgram]:
  """Reads a program as PJRT_Executable_OptimizedProgram gives it.

  Args:
    sources: instructions of the program before it was compiled.

  Returns:
    None for formats other than 'hlo' and 'hlo_with_config'.

  Raises:
    ValueError: `program` is damaged.
  """
  parsed = messages.parse_compiled(program, program_format)
  if parsed is None:
    return None
  _, module = parsed
  return CompiledProgram(
      _shardings(module.spmd_parameters_shardings),
      _shardings([module.spmd_output_sharding] if module.
                 HasField('spmd_output_sharding') else []),
      _collectives(module), _local_shapes(module, sources))


def _shardings(data: Sequence[bytes]) -> Optional[tuple[HloSharding, ...]]:
  if not data:
    return None
  try:
    shardings = [op_sharding.from_bytes(d) for d in data]
  except ShardingError:
    return None
  if len(shardings) == 1 and shardings[0].type == ShardingType.TUPLE:
    return shardings[0].elements
  return tuple(shardings)


def group_by_kind(
    moved: Iterable[tuple[str, int, str]]) -> tuple[Collective, ...]:
  """Collectives, each with its nbytes and its source, as one of each kind."""
  kinds: dict[str, dict[str, list[int]]] = {}
  for kind, nbytes, source in moved:
    kinds.setdefault(kind, {}).setdefault(source, []).append(nbytes)
  return tuple(_sum(kind, sizes) for kind, sizes in sorted(kinds.items()))


def _sum(kind: str, sizes: Mapping[str, list[int]]) -> Collective:
  every = [nbytes for of_source in sizes.values() for nbytes in of_source]
  return Collective(
      kind, len(every), sum(every), min(every),
      tuple(
          sorted(((source, len(of_source), sum(of_source))
                  for source, of_source in sizes.items()),
                 key=lambda s: (s[2], s[0]))))


def _collectives(module: HloModuleProto) -> tuple[Collective, ...]:
  return group_by_kind(
      (started.kind, started.nbytes, started.instruction.metadata.op_name)
      for computation in module.computations
      for started in collectives.started_in(computation))


def _local_shapes(module: HloModuleProto,
                  sources: frozenset[Source]) -> dict[Source, ArrayShape]:
  """The shapes on one device of instructions stemming from `sources`.

  On Shardy's way an instruction's name becomes the op_name of all that is made
  of it. One of the same opcode is the instruction itself, in its local shape;
  two of different shapes say nothing.
  """
  shapes_by_source: dict[Source, set[ArrayShape]] = {}
  if sources:
    for computation in module.computations:
      for instruction in computation.instructions:
        source = instruction.metadata.op_name, instruction.opcode
        if source in sources:
          shapes_by_source.setdefault(source, set()).update(
              array_shape.arrays_of(instruction.shape))
  return {
      source: shapes.pop()
      for source, shapes in shapes_by_source.items()
      if len(shapes) == 1
  }
