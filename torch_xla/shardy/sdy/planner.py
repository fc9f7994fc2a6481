"""Mode Shardy: the plan that has Shardy partition a program.

Shardy's result is used only where it keeps every promise that torch_xla relies
on: each parameter is laid out as it is stored, each constrained result as it
was asked for. Otherwise GSPMD compiles the same program again, in V2, as the
official wheel would; the record says why, and so does one warning.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
from typing import Any, Optional

from . import extract, to_sdy
from ..annotate.annotation import Annotation
from ..annotate.call_target import AnnotationTextError, PREFIX
from ..compile import plan
from ..compile.attempt import Attempt
from ..compile.plan import Plan
from ..compile.record import TensorRecord
from ..hlo import array_shape, messages
from ..hlo.compile_options import CompileOptions, Partitioner
from ..lower import to_v2
from .attributes import SdyError
from .lowering import SdyProgram, Tensor
from .mesh_axes import InexpressibleError
from .promise import LayoutPromise
from .tensor_records import names_of_parameters, NamesOf, records

_NOT_ANNOTATED = 'no annotated tensor in it: GSPMD partitions'


@dataclasses.dataclass(frozen=True)
class ShardyProgram:
  """A program in HLO, lowered for Shardy and for GSPMD.

  Attributes:
    gspmd: with V2 shardings.
    shardy: with Shardy's attributes, serialised; None where Shardy is not to
      have it.
    told: what Shardy is told; None likewise.
    tensors: records of it, or of what was said.
    names: the users' names of parameters.
    reason: why Shardy is not to have an annotated program; empty otherwise.
  """
  gspmd: to_v2.V2Program
  shardy: Optional[bytes] = None
  told: Optional[SdyProgram] = None
  tensors: tuple[TensorRecord, ...] = ()
  names: Mapping[int, str] = dataclasses.field(default_factory=dict)
  reason: str = ''


@dataclasses.dataclass(frozen=True)
class ShardyPlanner:
  """Plans programs for Shardy, and for GSPMD where Shardy cannot have them."""
  names_of: NamesOf = lambda target: ()

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """See `compile.plan.Planner`.

    Raises:
      ValueError: the program or its annotations are damaged.
    """
    if program_format != 'hlo':
      return _handed_on(program)
    lowered = self.lower(program, options)
    gspmd = lowered.gspmd
    if lowered.told is None:
      attempt = plan.gspmd_attempt(gspmd, lowered.tensors)
      note = '' if lowered.reason or not is_partitioned(
          options) else _NOT_ANNOTATED
      return Plan(gspmd.name, (attempt,), lowered.reason, note)
    shardy = Attempt(lowered.shardy, Partitioner.SHARDY, gspmd.shardings,
                     lowered.tensors,
                     LayoutPromise.of(lowered.told, lowered.names).broken_by)
    return Plan(gspmd.name,
                (shardy, plan.gspmd_attempt(gspmd, lowered.tensors)))

  def lower(self, program: bytes, options: CompileOptions) -> ShardyProgram:
    """Lowers a program in HLO.

    Raises:
      ValueError: the program or its annotations are damaged.
    """
    module = messages.parse('HloModuleProto', program)
    taken = extract.take(module)
    gspmd = to_v2.lowered(module)
    if not is_partitioned(options) or not taken.found:
      return ShardyProgram(gspmd)
    names = names_of_parameters(taken.bindings, self.names_of)
    try:
      told = to_sdy.lower(module, taken, options.num_partitions)
    except (InexpressibleError, SdyError) as e:
      return ShardyProgram(
          gspmd,
          tensors=_annotated(module, taken, names),
          names=names,
          reason=f'Shardy cannot be told of {e}')
    return ShardyProgram(gspmd, module.SerializeToString(), told,
                         records(told.tensors, names), names)


def is_partitioned(options: CompileOptions) -> bool:
  return (options.partitioner is not Partitioner.NONE and
          options.num_partitions > 1)


def _handed_on(program: bytes) -> Plan:
  # Bytecode holds strings as they are.
  if PREFIX.encode() in program:
    raise AnnotationTextError(
        'a program with annotations leaves as StableHLO, and this build of '
        'torch_xla lacks the series that lowers it, stablehlo: unset '
        'XLA_STABLEHLO_COMPILE')
  return plan.handed_on(program)


def _annotated(module: Any, taken: extract.Taken,
               names: Mapping[int, str]) -> tuple[TensorRecord, ...]:
  """What was said of a program's tensors, where Shardy is told nothing."""
  found = []
  for computation in module.computations:
    for i in computation.instructions:
      parameter: Optional[int] = None
      said: Optional[Annotation] = taken.constraints.get((computation.id, i.id))
      if (i.opcode == 'parameter' and
          computation.id == module.entry_computation_id):
        parameter = i.parameter_number
        said = taken.parameters.get(parameter)
      if said is not None and not array_shape.is_tuple(i.shape):
        found.append(
            Tensor(
                parameter=parameter,
                instruction=i.name,
                shape=array_shape.arrays_of(i.shape)[0],
                placement=said.sharding,
                annotation=said,
                sdy='',
                source=(i.name, i.opcode)))
  return records(found, names)
