"""Mode Shardy: the plan by which Shardy partitions a program.

Shardy's result is used only where it keeps every promise that torch_xla relies
on: each parameter is laid out as it is stored, each constrained result as it
was asked for. Otherwise GSPMD compiles the same program again, in V2, as the
official wheel would; the record says why, and so does one warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
import functools
import itertools
from typing import Optional

from . import (choice, extract, padding, partial_sums, propagation_probe,
               shard_groups, to_sdy, unasked, untuple)
from ..annotate.annotation import Annotation, UserMesh
from ..annotate.call_target import AnnotationTextError, PREFIX
from ..compile import plan
from ..compile.attempt import hlo_answer, Attempt, Outcome
from ..compile.plan import Plan
from ..compile.record import TensorRecord
from ..hlo import array_shape, messages
from ..hlo.compile_options import CompileOptions, Partitioner
from ..hlo.protos import HloModuleProto
from ..sdy import free_results
from ..sdy.attributes import SdyError
from ..sdy.constraints import SdyProgram, Tensor
from ..sdy.free_results import Dims, CandidateAttempt
from ..sdy.mesh_axes import InexpressibleError
from ..sdy.promise import LayoutPromise
from ..sdy.tensor_records import name_suffix, records
from ..v2 import to_v1, to_v2
from .extract import NamesOf


@dataclasses.dataclass(frozen=True)
class ShardyPlanner:
  """Plans programs for Shardy, and for GSPMD where Shardy cannot have them.

  Attributes:
    names_of: the users' names of a binding's operands.
    meshes: what the process has, as for `constraints.decide`.
    disabled_rewrites: as for `choice.apply`; called when there is a program.
  """
  names_of: NamesOf = lambda target: ()
  meshes: Callable[[], Iterable[UserMesh]] = tuple
  disabled_rewrites: Callable[[], Collection[str]] = frozenset

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """The plan for a program, as `compile.plan.Planner` asks for it.

    Raises:
      ValueError: the program or its annotations are damaged.
    """
    if program_format != 'hlo':
      return _pass_through(program)
    module = messages.parse(HloModuleProto, program)
    is_tupled = untuple.is_tupled(module)
    annotations = extract.extract_annotations(module).without_unused()
    gspmd = to_v2.emit_module(module)
    if not is_partitioned(options):
      return plan.gspmd(gspmd)

    def read() -> tuple[HloModuleProto, extract.Annotations]:
      if is_tupled:
        return _untupled(program)
      # What is in V2 is lowered on.
      return (messages.parse(HloModuleProto, gspmd.program),
              dataclasses.replace(
                  annotations, constraints=dict(annotations.constraints)))

    def make(tiles: Optional[Mapping[int, Dims]]) -> CandidateAttempt:
      module, annotations = read()
      lowered, padded = lower(module, annotations, options.num_partitions,
                              tiles or {}, self.meshes(),
                              self.disabled_rewrites())
      probed = padded.unplaced_results if tiles is None else {}
      if probed:
        propagation_probe.make_probe(module, probed, options.num_partitions)
      names = annotations.names(self.names_of)
      attempt = Attempt(
          module.SerializeToString(),
          Partitioner.SHARDY,
          gspmd.shardings,
          records(lowered.tensors, names),
          LayoutPromise.make(lowered, names).broken_by,
          answer=functools.partial(_runtime_answer, lowered),
          requires_layout_report=True if probed else None,
          is_untupled=is_tupled)
      return CandidateAttempt(attempt, probed, padded.padded_unplaced)

    shardy = free_results.attempts(make)
    try:
      first = next(shardy)
    except (InexpressibleError, SdyError) as e:
      reason, tensors = explain_inexpressible(e, program, self.names_of)
      return Plan(gspmd.name, (plan.gspmd_attempt(gspmd, tensors),), reason)
    last = plan.gspmd_attempt(gspmd, first.tensors)
    return Plan(
        gspmd.name, (first,),
        note=gspmd.note,
        later=lambda: itertools.chain(shardy, (last,)))


def lower(module: HloModuleProto,
          annotations: extract.Annotations,
          num_devices: int,
          tiles: Mapping[int, Dims] = {},
          meshes: Iterable[UserMesh] = (),
          disabled_rewrites: Collection[str] = (),
          rewrites: bool = True) -> tuple[SdyProgram, padding.Padded]:
  """Lowers a program in HLO to Shardy's terms, in place.

  Args:
    module: an HloModuleProto message, whose bindings and tags are taken out.
    annotations: what these carried; added to.
    tiles: as for `padding.pad`.
    meshes: as for `constraints.decide`.
    disabled_rewrites: as for `choice.apply`.
    rewrites: whether it is made into what shardings get through, and
      padded.

  Raises:
    InexpressibleError, SdyError: Shardy's terms do not say it all; the module
      is of no use any more.
  """
  if module.entry_computation_id not in {c.id for c in module.computations}:
    raise InexpressibleError('a program without an entry computation')
  unasked.repeat(module, annotations)
  groups = shard_groups.extract_groups(module)
  if not rewrites:
    return (to_sdy.lower_shardings(module, annotations, num_devices, meshes),
            padding.Padded({}, frozenset(), {}, {}))
  choice.apply(module, disabled_rewrites)
  partial_sums.split(module, annotations)
  padded = padding.pad(module, annotations, num_devices, tiles)
  lowered = to_sdy.lower_shardings(module, annotations, num_devices, meshes)
  shard_groups.restore_groups(module, groups)
  return padded.with_original_shapes(lowered), padded


def _untupled(program: bytes) -> tuple[HloModuleProto, extract.Annotations]:
  """A program, its parameters one by one, and what it says."""
  module = messages.parse(HloModuleProto, program)
  untuple.unwrap(module)
  to_v2.make_partitionable(module)
  return module, extract.extract_annotations(module).without_unused()


def _runtime_answer(lowered: SdyProgram,
                    outcome: Outcome) -> Optional[tuple[bytes, str]]:
  """The HLO for the runtime to read, with manual results marked."""
  hlo = hlo_answer(outcome)
  if hlo is None or not lowered.manual_results or outcome.results is None:
    return hlo
  program, program_format = hlo
  results = lowered.mark_manual_results(outcome.results)
  return to_v1.with_results(program, program_format, results), program_format


def is_partitioned(options: CompileOptions) -> bool:
  return (options.partitioner is not Partitioner.NONE and
          options.num_partitions > 1)


def explain_inexpressible(
    error: ValueError, program: bytes,
    names_of: NamesOf) -> tuple[str, tuple[TensorRecord, ...]]:
  """Why Shardy's terms cannot express a program, and its tensors' records."""
  module = messages.parse(HloModuleProto, program)
  annotations = extract.extract_annotations(module)
  tensors = requested_records(module, annotations, annotations.names(names_of))
  site = _site_text(error, module, tensors)
  return f'Shardy cannot be told of {error}{site}', tensors


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


def requested_records(module: HloModuleProto, annotations: extract.Annotations,
                      names: Mapping[int, str]) -> tuple[TensorRecord, ...]:
  """The records of annotated tensors, where Shardy is not used."""
  tensors = []
  for computation in module.computations:
    for i in computation.instructions:
      parameter: Optional[int] = None
      annotation: Optional[Annotation] = annotations.constraints.get(
          (computation.id, i.id))
      if (i.opcode == 'parameter' and
          computation.id == module.entry_computation_id):
        parameter = i.parameter_number
        annotation = annotations.parameters.get(parameter)
      if annotation is not None and not array_shape.is_tuple(i.shape):
        tensors.append(
            Tensor(
                parameter=parameter,
                instruction=i.name,
                shape=array_shape.arrays_of(i.shape)[0],
                placement=annotation.sharding,
                annotation=annotation,
                sdy='',
                source=(i.name, i.opcode)))
  return records(tensors, names)
