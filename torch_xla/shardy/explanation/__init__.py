"""Why a program's tensors are sharded as they are, and what was in conflict.

>>> print(torch_xla.shardy.explain([loss]))

Shardy itself, as jaxlib has it, propagates the program that the backend gets
and says of each axis where it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
import dataclasses
import functools
import logging
from typing import Any, Optional

from . import backend, conflicts, in_subprocess, reader, text, trial, why_not
from .. import layers
from ..compile.record import collectives, lost_text, ProgramRecord
from ..hlo.compile_options import Partitioner
from ..hlo.compiled_program import Collective
from ..stablehlo import dialects
from .conflicts import Conflict
from .propagation import Propagation
from .why_not import Spec

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Explanation:
  """Shardy's result for one program.

  Attributes:
    name: the program's.
    program: in Shardy's dialect, as the backend gets it.
    propagation: what becomes of it.
    compiled: the collectives of the compiled program; None where unknown.
    backend: whether the backend's own Shardy chose the same, as people read it.
    lost: tensors whose annotation does not count in it.
  """
  name: str
  program: bytes = dataclasses.field(repr=False)
  propagation: Propagation = dataclasses.field(repr=False)
  compiled: Optional[tuple[Collective, ...]] = None
  backend: str = ''
  lost: tuple[str, ...] = ()

  @functools.cached_property
  def conflicts(self) -> tuple[Conflict, ...]:
    """The conflicts between two annotations; of like layers, the first."""
    return conflicts.find_conflicts(self.propagation)

  @functools.cached_property
  def turning(self) -> Callable[[Conflict], Optional[trial.Priorities]]:
    """Priorities that turn a conflict, by origin and dimension: each was tried.

    None if none of those tried does.
    """
    return functools.cache(
        functools.partial(trial.turning, self.program, self.propagation))

  def __str__(self) -> str:
    return '\n'.join(self.lines())

  def lines(self, shown: Optional[set[str]] = None) -> Iterator[str]:
    """The lines to print, each conflict's as soon as its change was tried.

    Args:
      shown: as of `new_conflicts`; None: all of them.
    """
    propagation = self.propagation
    splitting = sum(
        bool(list(text.axes_of(o.dims))) for o in propagation.origins.values())
    mesh = ', '.join(
        f'{name}={size}' for name, size in propagation.mesh.items())
    yield (f'{self.name}: {sum(bool(o.rule) for o in propagation.operations)} '
           f'operations over {mesh}, {splitting} tensors marked or stored '
           f'split; conflicts: {len(self.conflicts)}')
    yield from self.notes()
    yield from text.timeline(propagation)
    yield f'moved, as Shardy plans it: {collectives(propagation.collectives())}'
    if self.compiled is not None:
      yield f'moved, in the compiled program: {collectives(self.compiled)}'
    conflicts = self.new_conflicts(set() if shown is None else shown)
    for number, conflict in enumerate(conflicts, 1):
      first, *rest = text.conflict_lines(propagation, conflict)
      yield from ('', f'{number}. {first}', *rest, self.turned_text(conflict))
    if left := len(self.conflicts) - len(conflicts):
      yield from ('', text.as_above(left))

  def new_conflicts(self, shown: set[str]) -> list[Conflict]:
    """The conflicts that no program before has.

    Args:
      shown: the texts of those before, but for the numbers of operations; these
        are added.
    """
    texts = {
        layers.steady('\n'.join(text.conflict_lines(self.propagation, c))): c
        for c in self.conflicts
    }
    new = [c for t, c in texts.items() if t not in shown]
    shown.update(texts)
    return new

  def turned_text(self, conflict: Conflict) -> str:
    """The line that says what turns a conflict."""
    return text.turned(self.propagation, self.turning(conflict))

  def notes(self) -> Iterator[str]:
    """Facts of the whole program."""
    if self.propagation.is_inferred:
      yield text.INFERRED
    if self.backend:
      yield self.backend
    if self.lost:
      yield lost_text(self.lost)

  def tensors(self, glob: str = '*') -> str:
    """The shardings of tensors whose names match, and the way of each axis."""
    return '\n'.join(text.tensor_lines(self.propagation,
                                       glob)) or f'no tensor is called {glob}'

  def whole(self, nbytes: int = 1 << 20) -> str:
    """Computed tensors of such a size that each device has whole, and why."""
    return '\n'.join(text.whole_lines(self.propagation, nbytes)) or (
        f'every computed tensor of {nbytes:,} bytes or more is split')

  def why_not(self, name: str, spec: Spec) -> str:
    """The answer whether a tensor can be split so, and at which price.

    Args:
      name: of an argument, a constraint or what an operation makes, as
        `tensors` has it.
      spec: a partition spec.

    Raises:
      ValueError: there is no such tensor, or the spec is none of it.
    """
    return '\n'.join(why_not.answer(self.program, self.propagation, name, spec))


def explain(name: str,
            program: bytes,
            names: Mapping[int, str],
            compiled: Optional[tuple[Collective, ...]] = None) -> Explanation:
  """Explains a module in Shardy's dialect, text or serialised.

  Args:
    names: of arguments, where the module has none.

  Raises:
    ProgramTextError: it has no mesh, or Shardy does not take it.
  """

  def propagate(is_told: bool) -> Propagation:
    return reader.propagate(reader.parse(program), names, is_told)

  # Asked where axes came from jaxlib 0.10.2's Shardy reads what is not there
  # where a factor is split unevenly: mostly it ends, and else what it tells is
  # of no use.
  propagation = in_subprocess.run(lambda: propagate(True))
  if propagation is None or propagation.splits_factors_unevenly():
    propagation = propagate(False)
  return Explanation(name, program, propagation, compiled)


def explain_source(source: Any) -> Explanation:
  """Explains a program, as `torch_xla.shardy.explain` does."""
  from ..stablehlo import exports
  if not isinstance(source, ProgramRecord):
    return explain(*exports.shardy_program(source))
  return dataclasses.replace(
      explain(*exports.shardy_program(source), source.collectives),
      lost=source.lost)


def of_records(records: Iterable[ProgramRecord],
               backend_folder: str = '') -> Iterator[Explanation]:
  """Each program of a recording that Shardy was told something of, once.

  Args:
    backend_folder: where the backend shows its own propagation, if it does.
  """
  seen = set()
  for record in records:
    if (record.tensors and record.partitioner is Partitioner.SHARDY and
        record.sent is not None and record.sent not in seen):
      seen.add(record.sent)
      try:
        explanation = explain_source(record)
        yield dataclasses.replace(
            explanation,
            backend=backend.compared(
                backend_folder, explanation.name,
                explanation.propagation)) if backend_folder else explanation
      except dialects.ProgramTextError as e:
        logger.warning('%s: %s', record.name, e)


def as_json(explanation: Explanation) -> dict[str, Any]:
  """The explanation as a dict to be written as JSON."""
  propagation = explanation.propagation
  return dict(
      name=explanation.name,
      mesh=dict(propagation.mesh),
      is_inferred=propagation.is_inferred,
      backend=explanation.backend,
      lost=explanation.lost,
      collectives=list(map(dataclasses.asdict, propagation.collectives())),
      compiled=None if explanation.compiled is None else list(
          map(dataclasses.asdict, explanation.compiled)),
      tensors=[
          dict(
              name=tensor.name,
              shape=str(tensor.shape),
              where=tensor.where,
              spec=[list(d.axes)
                    for d in tensor.dims],
              axes={
                  axis: [
                      propagation.tensors[n].name
                      for n in propagation.path(at, axis)
                  ]
                  for axis in tensor.axes
              })
          for at, tensor in enumerate(propagation.tensors)
      ],
      conflicts=[
          dict(
              loser=propagation.origins[conflict.loser].name,
              winner=propagation.origins[conflict.winner].name,
              axis=conflict.axis,
              alike=conflict.alike,
              places=[
                  dict(
                      operation=propagation.operations[p.operation].name,
                      tensor=propagation.tensors[p.target].name,
                      dimension=p.dim,
                      reason=p.reason.name.lower())
                  for p in conflict.places
              ],
              turned_by=None if (turned := explanation.turning(conflict))
              is None else text.priorities_text(propagation, turned))
          for conflict in explanation.conflicts
      ])
