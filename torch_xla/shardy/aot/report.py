"""The report on a script that ran ahead of time, as values.

Bytes and floating-point operations are those of one device throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
import dataclasses
from typing import Optional

from ..door.memory import Memory

# The programs of a step, in order, and how many steps were like that.
StepKind = tuple[tuple[int, ...], int]
# How a script has ended that has not.
RUNNING = 'running'
# How one has ended that somebody interrupted.
INTERRUPTED = 'interrupted'


@dataclasses.dataclass(frozen=True)
class Topology:
  """The devices that programs are compiled for.

  Attributes:
    name: as it was asked for, 'v5e:16x16'.
    kind: of a device, as the compiler calls it, 'TPU v5 lite'.
    chips: of all slices.
    devices: of all slices; more than `chips` where a chip has several.
    hosts: processes of a real run.
    slices: connected by the data center's network.
    memory: of one device, in bytes, as libtpu counts with it.
    compiler: its platform and version, in one line.
  """
  name: str
  kind: str
  chips: int
  devices: int
  hosts: int
  slices: int
  memory: int
  compiler: str = ''


@dataclasses.dataclass(frozen=True)
class HeavyTensor:
  """An argument or a result of a program that weighs much.

  Attributes:
    name: the user's name for it, or 'parameter 3', 'result 0'.
    role: 'argument' or 'result'.
    shape: on one device, as XLA writes it: 'bf16[1024,512]'.
    nbytes: on one device, with the padding of its layout.
  """
  name: str
  role: str
  shape: str
  nbytes: int


@dataclasses.dataclass(frozen=True)
class CollectiveUse:
  """The collectives of one kind over the same axes, in one program.

  Attributes:
    kind: as XLA calls it: 'all-reduce'.
    axes: the mesh axes that they run over; empty where `groups` are of no mesh
      that the script made.
    groups: the devices that take part, '16 groups of 16'.
    count: how many are run in one execution, those in loops by trip counts.
    nbytes: their sum over one execution; of each, the larger of what one device
      gives and gets.
    modules: that they come from, alike layers as one, the most bytes first.
  """
  kind: str
  axes: tuple[str, ...]
  groups: str
  count: int
  nbytes: int
  modules: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Cycles:
  """The compiler's own estimate of a program's time.

  Attributes:
    total: the sum of `estimated_cycles`, those in loops by trip counts.
    operations: how many of its operations have an estimate.
    left_out: operations that have none, by opcode: they count as nothing.
    loops_counted_once: loops whose trip count the program does not tell.
  """
  total: int
  operations: int
  left_out: tuple[tuple[str, int], ...] = ()
  loops_counted_once: int = 0


@dataclasses.dataclass(frozen=True)
class Program:
  """One program that the script had compiled.

  Attributes:
    name: the module's.
    called_from: where in the user's code it was asked for, innermost first:
      'train.py:41 in step'.
    step: how many steps had ended before.
    seconds: of compiling.
    partitions: devices that it was split over.
    partitioner: 'shardy', 'gspmd' or 'none'.
    note: why it was compiled other than asked; empty if it was not.
    error: the compiler's refusal; empty if it compiled.
    executions: how often it was executed.
    sent: digest of the program and its options as torch_xla sent them, byte for
      byte: what has to be the same on all hosts.
    memory: None if it was refused.
    beside: the most that tensors other than its arguments took on a device when
      it was executed, in bytes, without the padding of layouts.
    heaviest: its heaviest arguments and results, the heaviest first.
    collectives: sorted by bytes, most first.
    flops: None where the compiler does not tell.
    cycles: None where the compiler does not tell.
  """
  name: str
  called_from: tuple[str, ...]
  step: int
  seconds: float
  partitions: int
  partitioner: str
  note: str = ''
  error: str = ''
  executions: int = 0
  sent: str = ''
  memory: Optional[Memory] = None
  beside: int = 0
  heaviest: tuple[HeavyTensor, ...] = ()
  collectives: tuple[CollectiveUse, ...] = ()
  flops: Optional[float] = None
  cycles: Optional[Cycles] = None

  @property
  def label(self) -> str:
    """Its name, and where it was asked for."""
    place = f' ({self.called_from[0]})' if self.called_from else ''
    return self.name + place

  @property
  def peak(self) -> Optional[int]:
    """The most memory that is needed while it runs; None where not known."""
    return None if self.memory is None else self.memory.peak + self.beside


@dataclasses.dataclass(frozen=True)
class AotReport:
  """The report on a script for one topology.

  Attributes:
    script: as it was named, and its arguments.
    topology: what it was compiled for.
    mode: 'shardy', 'v2' or 'off'.
    host: the process whose part the script played.
    processes: how many processes the script was told of.
    meshes: that it made: 'data=16, model=16'.
    programs: in the order in which they were compiled.
    steps: that have ended.
    usual_step: what one step executes, of the kind that most work went into once
      nothing was compiled any more: positions in `programs`, in order; empty
      where no such step has ended.
    usual_steps: how many steps were like that.
    other_steps: the other kinds, and how many steps were of each.
    ended: 'finished', 'stopped after 3 steps', 'interrupted', or the exception
      that the script ended with, in one line.
    failed: whether that is an error of the script's.
    traceback: of that error; empty without one.
    reads: values that were read, all of them zeros.
    traces: graphs that lazy mode cut and torch.compile traced, by name.
    findings: what a user has to know of the run itself, each a sentence.
    seconds: from the script's first line to its end.
    host_memory: the most that the process took on this machine, in bytes.
  """
  script: tuple[str, ...]
  topology: Topology
  mode: str
  host: int
  processes: int
  meshes: tuple[str, ...]
  programs: tuple[Program, ...]
  steps: int
  ended: str
  usual_step: tuple[int, ...] = ()
  usual_steps: int = 0
  other_steps: tuple[tuple[tuple[int, ...], int], ...] = ()
  failed: bool = False
  traceback: str = ''
  reads: int = 0
  traces: tuple[tuple[str, int], ...] = ()
  findings: tuple[str, ...] = ()
  seconds: float = 0.0
  host_memory: int = 0

  @property
  def warm_up(self) -> int:
    """The first step in which nothing was compiled: the end of warm-up.

    The number of steps where each step compiled something.
    """
    return warm_up(self.programs, self.steps)

  @property
  def programs_after_warm_up(self) -> tuple[Program, ...]:
    warm_up = self.warm_up
    return tuple(p for p in self.programs if p.step > warm_up)

  @property
  def never_steady(self) -> str:
    """Why warm-up did not end in this run; empty if it did."""
    if self.steps > self.warm_up:
      return ''
    if not self.steps:
      return ('no step ended, so nothing is known of one after warm-up: let '
              'the script take more steps')
    if self.steps == 1:
      return ('only one step ended, and it compiled something: let the script '
              'take more steps')
    return (f'each of the {self.steps} steps that ended compiled something, so '
            'none is after warm-up')

  @property
  def unknown_step(self) -> str:
    """Why `step_programs` are not known; empty if they are."""
    return self.never_steady or ('' if self.usual_step else
                                 'no step after warm-up executed a program')

  @property
  def step_programs(self) -> tuple[Program, ...]:
    """The programs of the step that was the usual one after warm-up, in order.

    A step executes a program at most once: the second time begins the next one.
    What runs in some steps only, such as an evaluation, is not among them.
    """
    return () if self.unknown_step else tuple(
        self.programs[i] for i in self.usual_step)

  def is_fallback(self, program: Program) -> bool:
    """Tests whether GSPMD compiled what was Shardy's to partition."""
    return (self.mode == 'shardy' and program.partitioner == 'gspmd' and
            bool(program.note))

  @property
  def fits(self) -> Optional[bool]:
    """Tests whether every program fits into a device; None where nobody tells.

    Nor does anybody where no program was compiled, or the script failed before
    it had compiled all.
    """
    if any(p.error for p in self.programs):
      return False
    if not self.programs:
      return None
    peaks = [p.peak for p in self.programs]
    if any(p is not None and p > self.topology.memory for p in peaks):
      return False
    return None if None in peaks or self.failed else True


def warm_up(programs: Sequence[Program], steps: int) -> int:
  """The first of so many steps in which no program was compiled.

  The number of steps where each step compiled something.
  """
  compiled = {program.step for program in programs}
  return next(s for s in range(steps + 1) if s not in compiled or s == steps)


def kinds_of_steps(executions: Iterable[tuple[int, int]], ended: int,
                   warm_up: int, flops: Sequence[float]) -> list[StepKind]:
  """The steps after warm-up by what they executed, those of most work first.

  The work of a kind is the flops of all its steps: an evaluation may take as
  many steps as the training, and is still less of what the script does.

  Args:
    executions: in order: the program, and how many steps had ended.
    ended: how many steps have; what was executed after the last is none.
    warm_up: how many steps it took until nothing was compiled in one.
    flops: of each program.
  """
  steps: dict[int, list[int]] = {}
  for program, step in executions:
    if warm_up <= step < ended:
      steps.setdefault(step, []).append(program)
  counts = Counter(tuple(programs) for programs in steps.values())

  def work(kind: StepKind) -> tuple[float, int, int]:
    programs, count = kind
    return sum(flops[p] for p in programs) * count, count, len(programs)

  # Of equal ones, that which came first: the order of a Counter.
  return sorted(counts.items(), key=work, reverse=True)
