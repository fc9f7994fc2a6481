"""Sections: users' steps that run with Shardy on and off, to be compared.

A section is a function of a test module. It takes a `Run`, and what it saw is
plain data. A test asks for one by its parameter `section` (conftest.py):

  @pytest.mark.parametrize('section', [sgd])
  def test_sgd(section, ways):
    seen = ways.on(section)

The sections that a module's tests ask for run in the order in which they stand
there, in one process for each `Way`, inside one `torch_xla.shardy.record()`:
what one leaves behind is there for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import contextlib
import dataclasses
import enum
import gc
import traceback
from typing import Any, Optional

from environments import DEVICES, SHARDY, V2  # noqa: F401
import numpy as np
import processes
import pytest
import torch
import torch_xla
from torch_xla import _XLAC
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.compile.record import ProgramRecord
from torch_xla.shardy.hlo import messages, protos

# A program's partitioner, and spec and priority of each annotated tensor.
Said = tuple[str, list[tuple[str, Any]]]


class Way(enum.Enum):
  """How sections are run.

  ON: with Shardy.
  WEIGHTS: the same with weights for tensors, to the same effect.
  OFF: with V2 alone, where no priority has an effect and nothing is bound.
  """
  ON = enum.auto()
  WEIGHTS = enum.auto()
  OFF = enum.auto()


@dataclasses.dataclass(frozen=True)
class Seen:
  """What a section saw.

  Attributes:
    same: what is the same with Shardy off: costs, donations, right results.
    said: of each program of interest what it was told.
    shardings: of results, as priorities make them.
    more: what else a test looks at.
  """
  same: Any
  said: Sequence[Said] = ()
  shardings: Sequence[str] = ()
  more: Any = None


class Run:
  """One process's run of sections or of a test.

  Attributes:
    programs: records of all programs compiled so far.
    mesh: of two by four devices, with axes x and y.
  """

  def __init__(self, programs: list[ProgramRecord], as_weights: bool):
    self.programs = programs
    self.mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
    self._as_weights = as_weights

  @classmethod
  @contextlib.contextmanager
  def start(cls, as_weights: bool = False) -> Iterator[Run]:
    """Starts the runtime and records programs to the end of the block.

    Args:
      as_weights: whether `put` makes weights.
    """
    gc.freeze()  # What is imported is no garbage, and takes long to look at.
    xr.use_spmd()
    with torch_xla.shardy.record() as programs:
      yield cls(programs, as_weights)

  def mark(self, t: torch.Tensor, spec: tuple, priority: Any = None) -> Any:
    return xs.mark_sharding(t, self.mesh, spec, priority=priority)

  def put(self,
          shape: tuple[int, ...],
          spec: tuple,
          priority: Any = None,
          may_be_weight: bool = True) -> torch.Tensor:
    """A marked tensor with data."""
    t = torch.randn(shape).to('xla')
    if may_be_weight and self._as_weights:
      t = torch.nn.Parameter(t, requires_grad=False)
    self.mark(t, spec, priority)
    return t

  def marked_mlp(self) -> torch.nn.Sequential:
    """`mlp` on devices, with both weights marked."""
    model = mlp().to('xla')
    self.mark(model[0].weight, ('y', None), (1, None))
    self.mark(model[2].weight, (None, 'y'), (None, 2))
    return model

  def said(self, start: int) -> list[Said]:
    """What programs with annotated tensors were told, from the start-th on."""
    return [
        said(p) for p in self.programs[start:] if any(t.spec for t in p.tensors)
    ]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What became of a section.

  Attributes:
    leaked: programs that left with a binding or a tag in them.
    error: the traceback of an exception; empty if it came to its end.
  """
  seen: Optional[Seen]
  leaked: int
  error: str


class Ways:
  """The outcomes of a module's sections in all ways."""

  def __init__(self, asked: set[Callable[[Run], Seen]], ways: Sequence[Way]):
    sections = sorted(asked, key=lambda s: s.__code__.co_firstlineno)

    def run_all(way: Way) -> list[Outcome]:
      environment = V2 if way is Way.OFF else SHARDY
      return processes.call(_outcomes, sections, way is Way.WEIGHTS,
                            **environment).value

    with futures.ThreadPoolExecutor(2) as pool:
      outcomes = pool.map(run_all, ways)
      self._outcomes = {
          way: dict(zip(sections, of_way))
          for way, of_way in zip(ways, outcomes)
      }

  def on(self, section: Callable[[Run], Seen]) -> Seen:
    """Runs a section with Shardy; checks what any has; fails as it did."""
    outcomes = {way: of_way[section] for way, of_way in self._outcomes.items()}
    for way, outcome in outcomes.items():
      if outcome.error:
        pytest.fail(f'{way}\n{outcome.error}', pytrace=False)
    on, off = outcomes[Way.ON], outcomes[Way.OFF]
    assert on.seen.same == off.seen.same
    assert outcomes.get(Way.WEIGHTS, on) == on
    assert on.leaked == 0
    assert all(partitioner == 'gspmd' for partitioner, _ in off.seen.said)
    return on.seen


def _outcomes(sections: Sequence[Callable[[Run], Seen]],
              as_weights: bool) -> list[Outcome]:
  with Run.start(as_weights) as run:
    return [outcome_of(section, run) for section in sections]


def outcome_of(section: Callable[[Run], Seen], run: Run) -> Outcome:
  """Runs a section after whatever ran before it."""
  gc.collect()
  sync()
  torch.manual_seed(0)
  before = len(run.programs)
  seen, error = None, ''
  try:
    seen = section(run)
  except Exception:  # pylint: disable=broad-except
    error = traceback.format_exc()
  leaked = sum(
      b'torch_xla.shardy' in p.handed_on for p in run.programs[before:])
  return Outcome(seen, leaked, error)


def sync(*pending: torch.Tensor) -> None:
  """A sync, and what is to live until it is done although nobody reads it."""
  torch_xla.sync(wait=True)
  del pending


def fails_to_sync(t: torch.Tensor) -> bool:
  """Whether a sync of what no backend knows says so."""
  unknown = _XLAC._xla_custom_call([t], 'no.such.target', [[8, 8]],
                                   [torch.float32], False, '', 1, {})
  try:
    sync()
    return False
  except ValueError as e:
    return 'no.such.target' in str(e)
  finally:
    del unknown  # The exception keeps this frame.


def counts() -> list[int]:
  """Compiles, programs found in the cache and traces of torch.compile so far.

  The first two together are the syncs that executed something.
  """
  names = 'UncachedCompile', 'CachedCompile', 'DynamoExtractCompiledGraph'
  return [met.counter_value(name) or 0 for name in names]


def counted(f: Callable[..., Any], *arguments: Any) -> list[int]:
  """What a call adds to the counts."""
  before = counts()
  f(*arguments)
  return [b - a for a, b in zip(before, counts())]


def living() -> int:
  """XLA tensors alive in C++."""
  gc.collect()
  return ((met.counter_value('CreateXlaTensor') or 0) -
          (met.counter_value('DestroyXlaTensor') or 0))


def said(program: ProgramRecord) -> Said:
  annotated = {(t.spec, t.priority) for t in program.tensors if t.spec}
  return (program.partitioner.value,
          sorted(annotated, key=lambda a: (a[0], str(a[1]))))


class Donations(int):
  """A number of donated parameters; StableHLO that `_XLAC` makes has none."""


def donated(program: ProgramRecord) -> Donations:
  """How many of a program's parameters it may take the memory of."""
  if program.format == 'mlir':
    from torch_xla.shardy.stablehlo import dialects, functions
    main = functions.main_of(dialects.read(program.handed_on))
    given = functions.attributes_of(main, functions.ARGUMENTS)
    return Donations(sum(functions.DONOR_ATTRIBUTE in one for one in given))
  module = messages.parse(protos.HloModuleProto, program.handed_on)
  return Donations(len(module.buffer_donor.entries))


def sharding_of(t: torch.Tensor) -> str:
  return _XLAC._get_xla_sharding_spec(t)


def error(a: torch.Tensor, b: torch.Tensor) -> float:
  """How far a tensor is off the right values, which are not on devices."""
  return (a.detach().cpu() - b.detach()).abs().max().item()


def mlp() -> torch.nn.Sequential:
  """The same at each call."""
  torch.manual_seed(0)
  return torch.nn.Sequential(
      torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
