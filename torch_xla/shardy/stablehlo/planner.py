"""The plan for a program that the backend gets as StableHLO.

Programs come as StableHLO (XLA_STABLEHLO_COMPILE), or as HLO, which is
converted. With Shardy on the first attempt is in Shardy's terms; where these do
not say it all, or the backend refuses them or lays a tensor out otherwise, the
program goes out as it would from the official wheel, in V2. In either case what
the backend tells of its layouts is compared with what is stored, and a program
that does not pass is refused: nobody is left to compile it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import dataclasses
import functools

from . import dialects, from_hlo
from ..annotate.annotation import UserMesh
from ..annotate.call_target import PREFIX
from ..compile import plan
from ..compile.plan import Plan, Planner
from ..hlo.compile_options import CompileOptions
from ..mode import Mode
from ..sdy.attributes import SdyError
from ..sdy.mesh_axes import InexpressibleError
from ..sdy.planner import is_partitioned
from ..sdy.tensor_records import NamesOf
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
    meshes: what the process has, as for `lowering.lower`.
  """
  mode: Mode
  hlo: Planner
  names_of: NamesOf
  target: Callable[[], Target]
  takes_stablehlo: Callable[[], bool]
  meshes: Callable[[], Iterable[UserMesh]] = tuple

  def __call__(self, program: bytes, program_format: str,
               options: CompileOptions) -> Plan:
    """See `compile.plan.Planner`.

    Raises:
      ValueError: the program or its annotations are damaged.
      ProgramTextError: jaxlib cannot read or write a program with annotations.
        Without any it is handed on as it came, as from the official wheel.
      DoorError: jaxlib is missing, or cannot write what the plugin reads.
    """
    if program_format == FORMAT:
      come = functools.partial(dialects.read, program)
    elif program_format == 'hlo' and self.takes_stablehlo():
      come = functools.partial(from_hlo.convert, program)
    elif program_format == 'hlo':
      return self.hlo(program, program_format, options)
    else:
      return plan.handed_on(program)
    target = self.target()
    job = Attempts(come,
                   program if program_format == FORMAT else None, target.form,
                   target.version_for(program), self.names_of, self.meshes)
    try:
      return self._plan(job, options)
    except dialects.ProgramTextError as e:
      # Bytecode holds strings as they are.
      if program_format != FORMAT or PREFIX.encode() in program:
        raise
      return dataclasses.replace(
          plan.handed_on(program), reason=str(e), note='')

  def _plan(self, job: Attempts, options: CompileOptions) -> Plan:
    if not is_partitioned(options):
      return job.unpartitioned()
    if job.form is Form.PLAIN:
      return job.plain()
    if self.mode is not Mode.SHARDY:
      return job.v2()
    try:
      return job.sdy(options.num_partitions)
    except (InexpressibleError, SdyError) as e:
      return job.v2(f'Shardy cannot be told of {e}{job.said_of(e)}')
