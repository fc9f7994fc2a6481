"""The plan for a program: how it is lowered, and the ladder of attempts at it.

Programs come as HLO, or as StableHLO (XLA_STABLEHLO_COMPILE), which is converted
to it. They leave as HLO, or are converted back: a codec has the attempts.

With Shardy on the first attempt is in Shardy's terms; where these do not say it
all, or the backend refuses them or lays a tensor out otherwise, the program goes
out as it would from the official wheel, in V2. In StableHLO, in either case, what
the backend tells of its layouts is compared with what is stored, and a program
that does not pass is refused: nobody is left to compile it.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import functools
from typing import Optional, Union

from . import calls, conversion, dialects
from ..compile.attempt import Attempt, Failure
from ..compile.plan import (NO_TILES, Plan, plan_of, Probe, Step, Surroundings,
                            Tiles)
from ..compile.record import TensorRecord
from ..hlo import messages
from ..hlo.compile_options import CompileOptions, Partitioner
from ..hlo.protos import HloModuleProto
from ..mode import Mode
from ..rewrite import pipeline, untuple
from ..rewrite.hlo_codec import HloCodec
from ..rewrite.pipeline import Program, Settings, Stage
from ..sdy.attributes import SdyError
from ..sdy.constraints import name_suffix
from ..sdy.mesh_axes import InexpressibleError
from .attempts import FORMAT, StableHloCodec
from .forms import Form
from .target import Target


@dataclasses.dataclass(frozen=True)
class Planner:
  """Plans programs for a mode, and for what the plugin reads.

  Attributes:
    mode: V2 or SHARDY.
    takes_stablehlo: whether the plugin wants programs in HLO converted.
    target: what it reads in StableHLO; asked for when such a program comes.
  """
  mode: Mode
  surroundings: Surroundings = Surroundings()
  takes_stablehlo: Callable[[], bool] = lambda: False
  target: Callable[[], Target] = lambda: Target(Form.ATTRIBUTES, None, '')

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """The plan for a program, as `compile.plan.Planner` asks for it.

    Raises:
      ValueError: the program or its annotations are damaged.
      ProgramTextError: jaxlib cannot read a program with annotations. What it
        cannot convert is handed on as it came, as from the official wheel.
      DoorError: jaxlib is missing, or cannot write what the plugin reads.
    """
    if program_format == 'hlo':
      target = self.target() if self.takes_stablehlo() else None
      module = messages.parse(HloModuleProto, program)
      return self._plan(module, program, options, target)
    if program_format != FORMAT:
      return plan_of(
          '',
          Attempt(program, Partitioner.GSPMD),
          reason=f'a program in the format {program_format!r} is not lowered')
    target = self.target()
    try:
      converted = conversion.to_hlo(dialects.read(program))
      return self._plan(converted, program, options, target)
    except (dialects.ProgramTextError, InexpressibleError) as e:
      # The latter: it takes a tuple, and not to hand it on to a function.
      attempt = Attempt(calls.strip(program), Partitioner.GSPMD)
      return plan_of('', attempt, reason=str(e))

  def _plan(self, module: HloModuleProto, program: bytes,
            options: CompileOptions, target: Optional[Target]) -> Plan:
    """The plan for a program in HLO, which is used up.

    Args:
      program: the program as it came.
      target: what the plugin reads; None: HLO.
    """
    is_split = (
        options.partitioner is not Partitioner.NONE and
        options.num_partitions > 1)
    is_shardy = self.mode is Mode.SHARDY
    is_plain = (target is not None and target.form is Form.PLAIN and is_split)
    settings = Settings(options.num_partitions, untuple=target is not None)
    v2 = Program(module)
    # In HLO GSPMD takes a tuple of parameters as it is.
    is_tupled = (is_shardy and target is None and untuple.is_tupled(v2.module))
    sent = v2.copy() if is_tupled else None
    pipeline.lower(v2, settings, Stage.EXTRACTED if is_plain else Stage.V2)
    name = v2.module.name
    # Each asking may warn of annotations that do not count.
    names_of = functools.cache(self.surroundings.names_of)
    codec: Union[HloCodec, StableHloCodec]
    if target is None:
      codec = HloCodec(v2, names_of, is_tupled, None if is_shardy else program)
    else:
      codec = StableHloCodec(v2, target.form, target.version_for(program),
                             names_of, program, target.oldest)
      if is_plain:
        return codec.plain()
    if not is_split:
      return codec.unpartitioned()
    if not is_shardy:
      tensors = codec.v2_tensors()
      return Plan(name, codec.gspmd_steps(tensors), tensors, note=v2.note)
    settings = Settings(
        options.num_partitions,
        self.surroundings.meshes(),
        self.surroundings.disabled_rewrites(),
        names_of=names_of)

    def lower(tiles: Tiles) -> Program:
      return pipeline.lower(rewritten.copy(), settings, tiles=tiles)

    try:
      rewritten = pipeline.lower(sent or v2.copy(), settings, Stage.REWRITTEN)
      lowered = lower({})
    except (InexpressibleError, SdyError) as e:
      tensors = codec.v2_tensors()
      reason = f'Shardy cannot be told of {e}{_site_text(e, v2.module, tensors)}'
      return Plan(name, codec.gspmd_steps(tensors), tensors, reason, v2.note)
    tensors = lowered.sdy.tensors
    probe: Optional[Probe] = None
    tiles: Tiles = NO_TILES
    other: tuple[Step, ...] = ()
    if lowered.padded.unplaced_results:
      probe, tiles = codec.probe(lowered, lower)
      other = (Step(lambda _: codec.shardy(lower({})), codec.reports,
                    Failure.PADDING,
                    'results that nobody placed are not padded'),)
    if probe is None:
      first = codec.shardy(lower(tiles) if tiles else lowered)
      step = Step(lambda _: first, codec.reports)
    else:
      step = Step(lambda tiles: codec.shardy(lower(tiles)), codec.reports)
    steps = (step, *other, *codec.other_shardy_steps(lower),
             *codec.gspmd_steps(tensors))
    return Plan(name, steps, tensors, note=v2.note, probe=probe)


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
