"""The plan for a program: attempts, in the order of preference.

A planner reads a program and touches no backend; the compiler (`compiler`)
carries the plan out. A new route to a backend is one more step in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import types
from typing import Any, NamedTuple, Optional

from ..hlo.compile_options import CompileOptions
from .attempt import Attempt, Dims, Failure, Outcome
from .record import TensorRecord

# The tiles of results that nobody placed, by number.
Tiles = Mapping[int, Dims]
NO_TILES: Tiles = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Surroundings:
  """The facts of a process that its plans depend on besides the program.

  Attributes:
    names_of: the users' names of a binding's operands, by its target.
    meshes: those that the process has made, as for `sdy.constraints.decide`.
    disabled_rewrites: as for `rewrite.pipeline`; asked for when there is a
      program.
    lost: the names of tensors that a program of this name, with these records
      of its tensors, goes without the annotations of.
  """
  names_of: Callable[[str], Sequence[str]] = lambda target: ()
  meshes: Callable[[], tuple[Any, ...]] = tuple
  disabled_rewrites: Callable[[], Collection[str]] = frozenset
  lost: Callable[[str, Sequence[TensorRecord]],
                 Sequence[str]] = lambda name, tensors: ()


class Step(NamedTuple):
  """A step of the ladder.

  Attributes:
    make: the attempt, worked out when its turn has come.
    reports: whether it is only for backends that report the results' layouts
      (True), or only for those that do not (False).
    after: the step before has to have failed so; None: in any way.
    description: of the attempt, if it is not the official wheel's way.
  """
  make: Callable[[Tiles], Attempt]
  reports: Optional[bool] = None
  after: Optional[Failure] = None
  description: str = ''


class Probe(NamedTuple):
  """The phase before the attempts: how results that nobody placed are split.

  Attributes:
    attempt: a program that propagates as the attempts and computes nothing.
    results: the dimensions of what it probes, by number, in the order of its
      own results.
  """
  attempt: Attempt
  results: Mapping[int, Dims]

  @property
  def description(self) -> str:
    return f'asked how it splits {len(self.results)} results'

  def tiles(self, outcome: Outcome) -> Tiles:
    """The tiles that an outcome of `attempt` tells; none if it does not."""
    layouts = outcome.results
    if layouts is None or len(layouts) != len(self.results):
      return {}
    return {
        number: layout.tiles.dims[:len(dims)]
        for (number,
             dims), layout in zip(self.results.items(), layouts, strict=True)
        if layout.tiles is not None and layout.rank == len(dims)
    }


@dataclasses.dataclass(frozen=True)
class Plan:
  """The way to compile one program: `probe` gives tiles, `attempt` takes them.

  Attributes:
    name: of the program's module; empty where the format does not say.
    steps: one at least. Where the outcome of one breaks its promise, the next
      is taken; after the last the program is refused.
    tensors: what is known of the program's tensors.
    reason: why the first attempt is not the one that the mode stands for; a
      user has to know. Empty if it is that one.
    note: a remark for the record that nobody has to be warned of.
    probe: comes before, if there is one.
  """
  name: str
  steps: tuple[Step, ...]
  tensors: tuple[TensorRecord, ...] = ()
  reason: str = ''
  note: str = ''
  probe: Optional[Probe] = None

  def __post_init__(self) -> None:
    if not self.steps:
      raise ValueError('a plan needs steps')

  def attempt(self, tiles: Tiles = NO_TILES) -> Attempt:
    return self.steps[0].make(tiles)


# From a serialised program, its format ('hlo' or 'mlir') and how torch_xla
# wants it spread out. Raises a ValueError where the program is damaged.
Planner = Callable[[bytes, str, CompileOptions], Plan]


def plan_of(name: str, attempt: Attempt, **fields: Any) -> Plan:
  """A plan of one attempt, which is worked out already."""
  return Plan(name, (Step(lambda _: attempt),), attempt.tensors, **fields)
