"""Mode Shardy: the ladder of attempts at a program, and its two ends in HLO.

Shardy's result is used only where it keeps every promise that torch_xla relies
on: each parameter is laid out as it is stored, each constrained result as it
was asked for. Otherwise GSPMD compiles the same program again, in V2, as the
official wheel would; the record says why, and so does one warning.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import functools
from typing import Optional, Protocol

from . import pipeline, propagation_probe, untuple
from ..annotate.call_target import AnnotationTextError, PREFIX
from ..compile import plan
from ..compile.attempt import Attempt, Failure, hlo_answer, Outcome
from ..compile.plan import (NO_TILES, Plan, Probe, Step, Surroundings, Tiles)
from ..compile.record import TensorRecord
from ..hlo import array_shape, messages
from ..hlo.compile_options import CompileOptions, Partitioner
from ..hlo.protos import HloModuleProto
from ..sdy.attributes import SdyError
from ..sdy.constraints import name_suffix, records, SdyProgram, Tensor
from ..sdy.mesh_axes import InexpressibleError
from ..sdy.promise import LayoutPromise
from ..v2 import to_v1
from .extract import NamesOf
from .pipeline import Program, Settings, Stage

Lower = Callable[[Tiles], Program]


class Codec(Protocol):
  """The two ends of the ladder: how programs in Shardy's terms and in V2 leave."""

  @property
  def reports(self) -> Optional[bool]:
    """The condition of Shardy's first attempts, as in `Step`."""

  def shardy(self, program: Program) -> Attempt:
    """The attempt at a program in Shardy's terms, which is used up."""

  def probe(self, program: Program,
            lower: Lower) -> tuple[Optional[Probe], Tiles]:
    """A probe of the results that nobody placed, or at once their tiles."""

  def other_shardy_steps(self, lower: Lower) -> tuple[Step, ...]:
    """More steps in which Shardy partitions."""

  def gspmd_steps(self, tensors: tuple[TensorRecord, ...]) -> tuple[Step, ...]:
    """The steps from V2."""

  def v2_tensors(self) -> tuple[TensorRecord, ...]:
    """The records of the tensors of a program that Shardy cannot have."""


def shardy_plan(sent: Program, v2: Program, settings: Settings,
                names_of: NamesOf, codec: Codec) -> Plan:
  """The ladder of attempts at a program, whatever format it leaves in.

  Args:
    sent: to lower copies of: the program in V2, or as it came.
    v2: the program in V2.
  """

  def lower(tiles: Tiles) -> Program:
    return pipeline.lower(sent.copy(), settings, tiles=tiles)

  name = v2.module.name
  try:
    program = lower({})
  except (InexpressibleError, SdyError) as e:
    tensors = codec.v2_tensors()
    reason = f'Shardy cannot be told of {e}{_site_text(e, v2.module, tensors)}'
    return Plan(name, codec.gspmd_steps(tensors), tensors, reason, v2.note)
  tensors = records(program.sdy.tensors, program.annotations.names(names_of))
  probe: Optional[Probe] = None
  tiles: Tiles = NO_TILES
  other: tuple[Step, ...] = ()
  if program.padded.unplaced_results:
    probe, tiles = codec.probe(program, lower)
    other = (Step(lambda _: codec.shardy(lower({})), codec.reports,
                  Failure.PADDING,
                  'results that nobody placed are not padded'),)
  if probe is None:
    first = codec.shardy(lower(tiles) if tiles else program)
    step = Step(lambda _: first, codec.reports)
  else:
    step = Step(lambda tiles: codec.shardy(lower(tiles)), codec.reports)
  return Plan(
      name, (step, *other, *codec.other_shardy_steps(lower),
             *codec.gspmd_steps(tensors)),
      tensors,
      note=v2.note,
      probe=probe)


@dataclasses.dataclass(frozen=True)
class ShardyPlanner:
  """Plans programs in HLO for Shardy, and for GSPMD where it cannot have them."""
  surroundings: Surroundings = Surroundings()

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """The plan for a program, as `compile.plan.Planner` asks for it.

    Raises:
      ValueError: the program or its annotations are damaged.
    """
    if program_format != 'hlo':
      return _pass_through(program)
    v2 = Program(messages.parse(HloModuleProto, program))
    is_tupled = untuple.is_tupled(v2.module)
    sent = v2.copy() if is_tupled else v2
    names_of = self.surroundings.names_of
    settings = Settings(options.num_partitions, untuple=False)
    pipeline.lower(v2, settings, Stage.V2)
    codec = _HloCodec(v2, names_of, is_tupled)
    if not is_partitioned(options):
      return Plan(v2.module.name, codec.gspmd_steps(()), note=v2.note)
    return shardy_plan(
        sent, v2,
        Settings(
            options.num_partitions,
            self.surroundings.meshes(),
            self.surroundings.disabled_rewrites(),
            untuple=is_tupled), names_of, codec)


@dataclasses.dataclass(frozen=True)
class _HloCodec:
  """Programs that leave as HLO."""
  v2: Program
  names_of: NamesOf
  is_tupled: bool

  @property
  def reports(self) -> Optional[bool]:
    return None

  def shardy(self, program: Program) -> Attempt:
    sdy = program.sdy
    names = program.annotations.names(self.names_of)
    return Attempt(
        program.module.SerializeToString(),
        Partitioner.SHARDY,
        self.v2.shardings,
        records(sdy.tensors, names),
        LayoutPromise.make(sdy, names).broken_by,
        answer=functools.partial(_runtime_answer, sdy),
        is_untupled=self.is_tupled,
        padded=program.padded.padded_unplaced)

  def probe(self, program: Program, lower: Lower) -> tuple[Probe, Tiles]:
    results = program.padded.unplaced_results
    propagation_probe.make_probe(program.module, results, program.num_devices)
    return Probe(self.shardy(program), results), {}

  def other_shardy_steps(self, lower: Lower) -> tuple[Step, ...]:
    return ()

  def gspmd_steps(self, tensors: tuple[TensorRecord, ...]) -> tuple[Step, ...]:
    """GSPMD's attempt, which promises nothing: as the official wheel's."""
    return (Step(lambda _: Attempt(self.v2.module.SerializeToString(
    ), Partitioner.GSPMD, self.v2.shardings, tensors)),)

  def v2_tensors(self) -> tuple[TensorRecord, ...]:
    return requested_records(self.v2, self.names_of)


def _runtime_answer(sdy: SdyProgram,
                    outcome: Outcome) -> Optional[tuple[bytes, str]]:
  """The HLO for the runtime to read, with manual results marked."""
  hlo = hlo_answer(outcome)
  if hlo is None or not sdy.manual_results or outcome.results is None:
    return hlo
  program, program_format = hlo
  results = sdy.mark_manual_results(outcome.results)
  return to_v1.with_results(program, program_format, results), program_format


def is_partitioned(options: CompileOptions) -> bool:
  return (options.partitioner is not Partitioner.NONE and
          options.num_partitions > 1)


def _site_text(error: ValueError, module: HloModuleProto,
               tensors: tuple[TensorRecord, ...]) -> str:
  """The tensor that cannot be expressed, where the error names one."""
  computation, number = getattr(error, 'site', None) or (None, None)
  instruction = next((i for c in module.computations if c.id == computation
                      for i in c.instructions if i.id == number), None)
  if instruction is None:
    return ''
  name = next(
      (t.name for t in tensors if t.name and t.instruction == instruction.name),
      '')
  position = f'parameter {instruction.parameter_number}' if (
      instruction.opcode == 'parameter') else instruction.name
  return f', which {position}{name_suffix(name)} has'


def _pass_through(program: bytes) -> Plan:
  # Bytecode holds strings as they are.
  if PREFIX.encode() in program:
    raise AnnotationTextError(
        'a program with annotations leaves as StableHLO, and this build of '
        'torch_xla lacks the series that lowers it, stablehlo: unset '
        'XLA_STABLEHLO_COMPILE')
  return plan.pass_through(program)


def requested_records(program: Program,
                      names_of: NamesOf) -> tuple[TensorRecord, ...]:
  """The records of annotated tensors, where Shardy is not used."""
  module, annotations = program.module, program.annotations
  tensors = []
  for computation in module.computations:
    is_entry = computation.id == module.entry_computation_id
    for i in computation.instructions:
      number = (
          i.parameter_number if is_entry and i.opcode == 'parameter' else None)
      annotation = (
          annotations.constraints.get(
              (computation.id,
               i.id)) if number is None else annotations.parameters.get(number))
      if annotation is not None and not array_shape.is_tuple(i.shape):
        tensors.append(
            Tensor(number, i.name,
                   array_shape.arrays_of(i.shape)[0], annotation.sharding,
                   annotation, '', (i.name, i.opcode)))
  return records(tensors, annotations.names(names_of))
