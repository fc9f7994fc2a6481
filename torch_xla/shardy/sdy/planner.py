"""Mode Shardy: the plan that has Shardy partition a program.

Shardy's result is used only where it keeps every promise that torch_xla relies
on: each parameter is laid out as it is stored, each constrained result as it
was asked for. Otherwise GSPMD compiles the same program again, in V2, as the
official wheel would; the record says why, and so does one warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from .mesh_axes import InexpressibleError
from .promise import LayoutPromise

_NOT_ANNOTATED = 'no annotated tensor in it: GSPMD partitions'


@dataclasses.dataclass(frozen=True)
class ShardyPlanner:
  """Plans programs for Shardy, and for GSPMD where Shardy cannot have them.

  Attributes:
    names_of: the users' names of a binding's operands, by the binding's target;
      empty where they are not known.
  """
  names_of: Callable[[str], tuple[str, ...]] = lambda target: ()

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """See `compile.plan.Planner`.

    Raises:
      ValueError: the program or its annotations are damaged.
    """
    if program_format != 'hlo':
      return _handed_on(program)
    module = messages.parse('HloModuleProto', program)
    taken = extract.take(module)
    gspmd = to_v2.lowered(module)
    if (options.partitioner is Partitioner.NONE or options.num_partitions == 1):
      return plan.gspmd(gspmd)
    if not taken.found:
      return plan.gspmd(gspmd, note=_NOT_ANNOTATED)
    names = self._names(taken)
    try:
      told = to_sdy.lower(module, taken, options.num_partitions)
    except (InexpressibleError, SdyError) as e:
      attempt = plan.gspmd_attempt(gspmd, _annotated(module, taken, names))
      return Plan(
          gspmd.name, (attempt,), reason=f'Shardy cannot be told of {e}')
    tensors = tuple(_record(tensor, names) for tensor in told.tensors)
    shardy = Attempt(module.SerializeToString(), Partitioner.SHARDY,
                     gspmd.shardings, tensors,
                     LayoutPromise.of(told).broken_by)
    return Plan(gspmd.name, (shardy, plan.gspmd_attempt(gspmd, tensors)))

  def _names(self, taken: extract.Taken) -> dict[int, str]:
    """The users' names of parameters."""
    names = {}
    for binding in taken.bindings:
      known = self.names_of(binding.target)
      names.update(zip(binding.parameters, known))
    return names


def _handed_on(program: bytes) -> Plan:
  # Bytecode holds strings as they are.
  if PREFIX.encode() in program:
    raise AnnotationTextError(
        'annotations were made for a program in HLO, and it leaves as '
        'StableHLO: set XLA_STABLEHLO_COMPILE before the first mark_sharding')
  return plan.handed_on(program)


def _record(tensor: to_sdy.Tensor, names: Mapping[int, str]) -> TensorRecord:
  said = tensor.annotation
  return TensorRecord(
      parameter=tensor.parameter,
      instruction=tensor.instruction,
      shape=tensor.shape,
      spec=None if said is None else said.spec_text,
      priority=None if said is None else said.priority,
      sdy=tensor.sdy,
      placement=str(tensor.placement),
      source=tensor.source,
      name=names.get(tensor.parameter, ''))


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
            to_sdy.Tensor(
                parameter=parameter,
                instruction=i.name,
                shape=array_shape.arrays_of(i.shape)[0],
                placement=said.sharding,
                annotation=said,
                sdy='',
                source=(i.name, i.opcode)))
  return tuple(_record(tensor, names) for tensor in found)
