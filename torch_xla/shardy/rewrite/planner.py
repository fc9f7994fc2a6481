"""Mode Shardy: the plan that has Shardy partition a program.

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

from . import (choice, extract, padding, partial_sums, question, shard_groups,
               to_sdy, unasked, untuple)
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
from ..sdy.free_results import Dims, Made
from ..sdy.mesh_axes import InexpressibleError
from ..sdy.promise import LayoutPromise
from ..sdy.tensor_records import in_brackets, records
from ..v2 import to_v1, to_v2
from .extract import NamesOf


@dataclasses.dataclass(frozen=True)
class ShardyPlanner:
  """Plans programs for Shardy, and for GSPMD where Shardy cannot have them.

  Attributes:
    names_of: the users' names of a binding's operands.
    meshes: what the process has, as for `constraints.decide`.
    left_out: what its plugin is spared, as for `choice.apply`; asked for when
      there is a program.
  """
  names_of: NamesOf = lambda target: ()
  meshes: Callable[[], Iterable[UserMesh]] = tuple
  left_out: Callable[[], Collection[str]] = frozenset

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """The plan for a program, as `compile.plan.Planner` asks for it.

    Raises:
      ValueError: the program or its annotations are damaged.
    """
    if program_format != 'hlo':
      return _handed_on(program)
    module = messages.parse(HloModuleProto, program)
    is_tupled = untuple.is_tupled(module)
    annotations = extract.take(module).of_used()
    gspmd = to_v2.emit_module(module)
    if not is_partitioned(options):
      return plan.gspmd(gspmd)

    def read() -> tuple[HloModuleProto, extract.Taken]:
      if is_tupled:
        return _untupled(program)
      # What is in V2 is lowered on.
      return (messages.parse(HloModuleProto, gspmd.program),
              dataclasses.replace(
                  annotations, constraints=dict(annotations.constraints)))

    def make(tiles: Optional[Mapping[int, Dims]]) -> Made:
      module, annotations = read()
      lowered, padded = lower(module, annotations, options.num_partitions,
                              tiles or {}, self.meshes(), self.left_out())
      open_results = padded.in_question if tiles is None else {}
      if open_results:
        question.ask(module, open_results, options.num_partitions)
      names = annotations.names(self.names_of)
      attempt = Attempt(
          module.SerializeToString(),
          Partitioner.SHARDY,
          gspmd.shardings,
          records(lowered.tensors, names),
          LayoutPromise.of(lowered, names).broken_by,
          answer=functools.partial(_as_known, lowered),
          requires_layout_report=True if open_results else None,
          is_untupled=is_tupled)
      return Made(attempt, open_results, padded.free)

    shardy = free_results.attempts(make)
    try:
      first = next(shardy)
    except (InexpressibleError, SdyError) as e:
      reason, said = untold(e, program, self.names_of)
      return Plan(gspmd.name, (plan.gspmd_attempt(gspmd, said),), reason)
    last = plan.gspmd_attempt(gspmd, first.tensors)
    return Plan(
        gspmd.name, (first,),
        note=gspmd.note,
        later=lambda: itertools.chain(shardy, (last,)))


def lower(module: HloModuleProto,
          annotations: extract.Taken,
          num_devices: int,
          tiles: Mapping[int, Dims] = {},
          meshes: Iterable[UserMesh] = (),
          left_out: Collection[str] = (),
          rewrites: bool = True) -> tuple[SdyProgram, padding.Padded]:
  """Has a program in HLO say all in Shardy's terms, in place.

  Args:
    module: an HloModuleProto message, whose bindings and tags are taken out.
    annotations: what they said; added to.
    tiles: as for `padding.pad`.
    meshes: as for `constraints.decide`.
    left_out: as for `choice.apply`.
    rewrites: whether it is made into what shardings get through, and
      padded.

  Raises:
    InexpressibleError, SdyError: Shardy's terms do not say it all; the module
      is of no use any more.
  """
  if module.entry_computation_id not in {c.id for c in module.computations}:
    raise InexpressibleError('a program without an entry computation')
  unasked.repeat(module, annotations)
  groups = shard_groups.take(module)
  if not rewrites:
    return (to_sdy.tell(module, annotations, num_devices,
                        meshes), padding.Padded({}, frozenset(), {}, {}))
  choice.apply(module, left_out)
  partial_sums.split(module, annotations)
  padded = padding.pad(module, annotations, num_devices, tiles)
  lowered = to_sdy.tell(module, annotations, num_devices, meshes)
  shard_groups.put(module, groups)
  return padded.as_users_know(lowered), padded


def _untupled(program: bytes) -> tuple[HloModuleProto, extract.Taken]:
  """A program, its parameters one by one, and what it says."""
  module = messages.parse(HloModuleProto, program)
  untuple.unwrap(module)
  to_v2.make_partitionable(module)
  return module, extract.take(module).of_used()


def _as_known(lowered: SdyProgram,
              outcome: Outcome) -> Optional[tuple[bytes, str]]:
  """What the runtime is to read: of manual results, that they are manual."""
  read = hlo_answer(outcome)
  if read is None or not lowered.manual_results or outcome.results is None:
    return read
  program, program_format = read
  results = lowered.as_known(outcome.results)
  return to_v1.with_results(program, program_format, results), program_format


def is_partitioned(options: CompileOptions) -> bool:
  return (options.partitioner is not Partitioner.NONE and
          options.num_partitions > 1)


def untold(error: ValueError, program: bytes,
           names_of: NamesOf) -> tuple[str, tuple[TensorRecord, ...]]:
  """Why Shardy is told nothing of a program, and what was said of its tensors."""
  module = messages.parse(HloModuleProto, program)
  taken = extract.take(module)
  said = annotated(module, taken, taken.names(names_of))
  return f'Shardy cannot be told of {error}{_said_of(error, module, said)}', said


def _said_of(error: ValueError, module: HloModuleProto,
             tensors: tuple[TensorRecord, ...]) -> str:
  """The tensor that cannot be told of, where it is one."""
  computation, number = getattr(error, 'site', None) or (None, None)
  instruction = next((i for c in module.computations if c.id == computation
                      for i in c.instructions if i.id == number), None)
  if instruction is None:
    return ''
  name = next(
      (t.name for t in tensors if t.name and t.instruction == instruction.name),
      '')
  what = f'parameter {instruction.parameter_number}' if (
      instruction.opcode == 'parameter') else instruction.name
  return f', which {what}{in_brackets(name)} has'


def _handed_on(program: bytes) -> Plan:
  # Bytecode holds strings as they are.
  if PREFIX.encode() in program:
    raise AnnotationTextError(
        'a program with annotations leaves as StableHLO, and this build of '
        'torch_xla lacks the series that lowers it, stablehlo: unset '
        'XLA_STABLEHLO_COMPILE')
  return plan.pass_through(program)


def annotated(module: HloModuleProto, annotations: extract.Taken,
              names: Mapping[int, str]) -> tuple[TensorRecord, ...]:
  """What was said of a program's tensors, where Shardy is told nothing."""
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
