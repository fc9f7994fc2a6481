"""The plan for a program: attempts, in the order of preference.

A mode is a planner. Each planner reads a program and touches no backend; the
compiler (`compiler`) makes the attempts. A new route to a backend is one more
attempt in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import dataclasses

from ..hlo.compile_options import CompileOptions, Partitioner
from ..v2 import to_v2
from .attempt import Attempt
from .record import TensorRecord

_MLIR_NOTE = 'StableHLO is handed on unchanged'


@dataclasses.dataclass(frozen=True)
class Plan:
  """The attempts at one program.

  Attributes:
    name: of the program's module; empty where the format does not say.
    attempts: one at least. Where the outcome of one breaks its promise, the
      next is made; after the last the program is refused.
    reason: why the first attempt is not the one that the mode stands for; a
      user has to know. Empty if it is that one.
    note: a remark for the record that nobody has to be warned of.
    later: more attempts, only worked out if none of the others is used.
  """
  name: str
  attempts: tuple[Attempt, ...]
  reason: str = ''
  note: str = ''
  later: Callable[[], Iterable[Attempt]] = tuple

  def __post_init__(self) -> None:
    if not self.attempts:
      raise ValueError('a plan needs attempts')

  def all_attempts(self) -> Iterator[Attempt]:
    """All attempts in order, those for later as they are asked for."""
    yield from self.attempts
    yield from self.later()


# From a serialised program, its format ('hlo' or 'mlir') and how torch_xla
# wants it spread out. Raises a ValueError where the program is damaged.
Planner = Callable[[bytes, str, CompileOptions], Plan]


def plan_v2(program: bytes, program_format: str,
            options: CompileOptions) -> Plan:
  """The plan of mode V2: GSPMD partitions, or nobody, from V2 shardings."""
  del options  # Whether anybody partitions is torch_xla's decision.
  if program_format != 'hlo':
    return pass_through(program)
  return gspmd(to_v2.emit(program))


def pass_through(program: bytes) -> Plan:
  """The plan for a program in a format that is not lowered."""
  return Plan('', (Attempt(program, Partitioner.GSPMD),), note=_MLIR_NOTE)


def gspmd(lowered: to_v2.V2Program) -> Plan:
  """A plan with GSPMD's attempt alone."""
  return Plan(lowered.name, (gspmd_attempt(lowered),), note=lowered.note)


def gspmd_attempt(
    lowered: to_v2.V2Program, tensors: tuple[TensorRecord,
                                             ...] = ()) -> Attempt:
  """GSPMD's attempt, which promises nothing: as the official wheel's."""
  return Attempt(lowered.program, Partitioner.GSPMD, lowered.shardings, tensors)
