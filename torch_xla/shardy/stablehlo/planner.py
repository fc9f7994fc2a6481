"""The plan for a program that the backend gets as StableHLO.

Programs come as HLO, or as StableHLO (XLA_STABLEHLO_COMPILE), which is converted
to it: they are lowered as those for other plugins, and then converted back.

With Shardy on the first attempt is in Shardy's terms; where these do not say it
all, or the backend refuses them or lays a tensor out otherwise, the program goes
out as it would from the official wheel, in V2. In either case what the backend
tells of its layouts is compared with what is stored, and a program that does not
pass is refused: nobody is left to compile it.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Optional

from . import calls, conversion, dialects
from ..compile import plan
from ..compile.plan import Plan, Planner, Surroundings
from ..hlo import messages
from ..hlo.compile_options import CompileOptions
from ..hlo.protos import HloModuleProto
from ..mode import Mode
from ..rewrite import pipeline
from ..rewrite.pipeline import Program, Settings, Stage
from ..rewrite.planner import is_partitioned, shardy_plan
from ..sdy.mesh_axes import InexpressibleError
from .attempts import Codec, FORMAT
from .forms import Form
from .target import Target


@dataclasses.dataclass(frozen=True)
class StableHloPlanner:
  """Plans programs that leave as StableHLO.

  Attributes:
    mode: V2 or SHARDY.
    hlo: plans programs in HLO for plugins that take them.
    target: what the plugin reads; asked for when the first program comes.
    takes_stablehlo: whether the plugin wants programs in HLO converted.
  """
  mode: Mode
  hlo: Planner
  surroundings: Surroundings
  target: Callable[[], Target]
  takes_stablehlo: Callable[[], bool]

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """The plan for a program, as `compile.plan.Planner` asks for it.

    Raises:
      ValueError: the program or its annotations are damaged.
      ProgramTextError: jaxlib cannot read a program with annotations. What it
        cannot convert is handed on as it came, as from the official wheel.
      DoorError: jaxlib is missing, or cannot write what the plugin reads.
    """
    if program_format == 'hlo' and not self.takes_stablehlo():
      return self.hlo(program, program_format, options)
    if program_format not in ('hlo', FORMAT):
      return plan.pass_through(program)
    target = self.target()
    job = Job(program, target.form, target.version_for(program),
              self.surroundings, target.oldest)
    if program_format == 'hlo':
      return job.plan(self.mode, options)
    try:
      return job.converted_to_hlo().plan(self.mode, options)
    except (dialects.ProgramTextError, InexpressibleError) as e:
      # The latter: it takes a tuple, and not to hand it on to a function.
      return plan.pass_through(calls.strip(program), reason=str(e), note='')


@dataclasses.dataclass(frozen=True)
class Job:
  """A program that is to leave as StableHLO.

  Attributes:
    program: a serialised HloModuleProto.
    form: what the plugin reads.
    version: to write artifacts in.
    oldest: the oldest version that the plugin reads.
    original: the artifact, if it came as one.
  """
  program: bytes
  form: Form
  version: dialects.Version
  surroundings: Surroundings = Surroundings()
  oldest: dialects.Version = ()
  original: Optional[bytes] = None

  def converted_to_hlo(self) -> Job:
    """Converts a program in MLIR. Raises ProgramTextError: HLO lacks it."""
    program = conversion.to_hlo(dialects.read(self.program))
    return dataclasses.replace(self, program=program, original=self.program)

  def plan(self, mode: Mode, options: CompileOptions) -> Plan:
    """The plan for a program in HLO.

    Raises:
      ValueError: the program or its annotations are damaged.
      ProgramTextError: it cannot be converted, or not be written as asked.
    """
    names_of = self.surroundings.names_of
    settings = Settings(options.num_partitions, self.surroundings.meshes(),
                        self.surroundings.disabled_rewrites())
    program = Program(messages.parse(HloModuleProto, self.program))
    is_split = is_partitioned(options)
    is_plain = self.form is Form.PLAIN and is_split
    pipeline.lower(program, settings, Stage.EXTRACTED if is_plain else Stage.V2)
    codec = Codec(program, self.form, self.version, names_of, self.original,
                  self.oldest)
    if not is_split:
      return codec.unpartitioned()
    if is_plain:
      return codec.plain(program)
    if mode is Mode.SHARDY:
      return shardy_plan(program, program, settings, names_of, codec)
    tensors = codec.v2_tensors()
    return Plan(
        program.module.name,
        codec.gspmd_steps(tensors),
        tensors,
        note=program.note)
