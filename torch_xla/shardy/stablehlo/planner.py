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

from collections.abc import Callable, Collection, Iterable
import dataclasses

from . import calls, dialects
from ..annotate.annotation import UserMesh
from ..compile import plan
from ..compile.plan import Plan, Planner
from ..hlo.compile_options import CompileOptions
from ..mode import Mode
from ..rewrite.extract import NamesOf
from ..rewrite.planner import is_partitioned, explain_inexpressible
from ..sdy.attributes import SdyError
from ..sdy.mesh_axes import InexpressibleError
from .attempts import Attempts, FORMAT
from .forms import Form
from .target import Target


@dataclasses.dataclass(frozen=True)
class StableHloPlanner:
  """Plans programs that leave as StableHLO.

  Attributes:
    mode: V2 or SHARDY.
    hlo: plans programs in HLO for plugins that take them.
    names_of: the users' names of a binding's operands.
    target: what the plugin reads; asked for when the first program comes.
    takes_stablehlo: whether the plugin wants programs in HLO converted.
    meshes: what the process has, as for `constraints.decide`.
    disabled_rewrites: as for `choice.apply`; called as `target` is.
  """
  mode: Mode
  hlo: Planner
  names_of: NamesOf
  target: Callable[[], Target]
  takes_stablehlo: Callable[[], bool]
  meshes: Callable[[], Iterable[UserMesh]] = tuple
  disabled_rewrites: Callable[[], Collection[str]] = frozenset

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
    job = Attempts(program, None, target.form, target.version_for(program),
                   self.names_of, self.meshes, target.oldest,
                   self.disabled_rewrites())
    if program_format == 'hlo':
      return plan_of(job, self.mode, options)
    try:
      return plan_of(job.converted_to_hlo(), self.mode, options)
    except (dialects.ProgramTextError, InexpressibleError) as e:
      # The latter: it takes a tuple, and not to hand it on to a function.
      return dataclasses.replace(
          plan.pass_through(calls.strip(program)), reason=str(e), note='')


def plan_of(job: Attempts, mode: Mode, options: CompileOptions) -> Plan:
  """The plan for a program in HLO that is to leave as StableHLO.

  Raises:
    ValueError: the program or its annotations are damaged.
    ProgramTextError: it cannot be converted, or not be written as asked.
  """
  if not is_partitioned(options):
    return job.unpartitioned()
  if job.form is Form.PLAIN:
    return job.plain()
  if mode is not Mode.SHARDY:
    return job.v2()
  try:
    return job.sdy(options.num_partitions)
  except (InexpressibleError, SdyError) as e:
    return job.v2(explain_inexpressible(e, job.program, job.names_of)[0])
