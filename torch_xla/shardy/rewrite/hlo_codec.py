"""Programs that leave as HLO: the attempts at one, as `stablehlo.planner` asks.

Shardy's result is used only where it keeps every promise that torch_xla relies
on: each parameter is laid out as it is stored, each constrained result as it
was asked for. Otherwise GSPMD compiles the same program again, in V2, as the
official wheel would; the record says why, and so does one warning.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Optional

from . import propagation_probe
from ..compile.attempt import Attempt, hlo_answer, Outcome
from ..compile.plan import Plan, Probe, Step, Tiles
from ..compile.record import TensorRecord
from ..hlo import array_shape
from ..hlo.compile_options import Partitioner
from ..sdy.constraints import record_of
from ..sdy.promise import LayoutPromise
from ..sharding.hlo_sharding import HloSharding
from .extract import NamesOf
from .pipeline import Program

# Lowers the program to Shardy's terms once more.
Lower = Callable[[Tiles], Program]


@dataclasses.dataclass(frozen=True)
class HloCodec:
  """Programs that leave as HLO, from one that is lowered to V2.

  Attributes:
    v2: the program in V2.
    names_of: the users' names of a binding's operands.
    is_tupled: whether parameters came as one tuple, which Shardy cannot have.
    original: the program as it came, if it is to be handed on so where V2
      changes nothing.
    reports: the condition of Shardy's first attempts, as in `Step`.
  """
  v2: Program
  names_of: NamesOf
  is_tupled: bool
  original: Optional[bytes] = None
  reports: Optional[bool] = None

  def shardy(self, program: Program) -> Attempt:
    """The attempt at a program in Shardy's terms, which is used up."""
    sdy = program.sdy

    def answer(outcome: Outcome) -> Optional[tuple[bytes, str]]:
      manual: tuple[HloSharding, ...] = ()
      if sdy.manual_results:
        manual = sdy.mark_manual_results(outcome.results or ())
      return hlo_answer(outcome, manual)

    return Attempt(
        program.module.SerializeToString(),
        Partitioner.SHARDY,
        self.v2.shardings,
        sdy.tensors,
        LayoutPromise(sdy.parameters, sdy.results, is_padded=True).broken_by,
        answer=answer,
        is_untupled=self.is_tupled,
        padded=program.padded.padded_unplaced)

  def probe(self, program: Program, lower: Lower) -> tuple[Probe, Tiles]:
    """A probe of the results that nobody placed."""
    del lower
    results = program.padded.unplaced_results
    propagation_probe.make_probe(program.module, results, program.num_devices)
    return Probe(self.shardy(program), results), {}

  def other_shardy_steps(self, lower: Lower) -> tuple[Step, ...]:
    """More steps in which Shardy partitions."""
    del lower
    return ()

  def gspmd_steps(self, tensors: tuple[TensorRecord, ...]) -> tuple[Step, ...]:
    """GSPMD's attempt, which promises nothing: as the official wheel's."""

    def attempt(_: Tiles) -> Attempt:
      program = self.original
      if program is None or self.v2.is_changed:
        program = self.v2.module.SerializeToString()
      return Attempt(program, Partitioner.GSPMD, self.v2.shardings, tensors)

    return (Step(attempt),)

  def v2_tensors(self) -> tuple[TensorRecord, ...]:
    """The records of the tensors of a program that Shardy does not get."""
    return requested_records(self.v2, self.names_of)

  def unpartitioned(self) -> Plan:
    """The plan for a program that nobody splits."""
    return Plan(self.v2.module.name, self.gspmd_steps(()), note=self.v2.note)


def requested_records(program: Program,
                      names_of: NamesOf) -> tuple[TensorRecord, ...]:
  """The records of annotated tensors, where Shardy is not used."""
  module, annotations = program.module, program.annotations
  if not (annotations.parameters or annotations.constraints):
    return ()
  names = annotations.names(names_of)
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
            record_of(
                i,
                annotation.sharding,
                annotation,
                number=number,
                name='' if number is None else names.get(number, '')))
  return tuple(tensors)
