"""The report of an audit: plain values, the same for every run of one set-up.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import enum
import json
from typing import Any, Optional

from torch_xla.shardy.door.memory import Memory

SCHEMA = 1
# What lives and belongs to no tensor of the model.
OTHER = 'other living tensors'
# The role of a tensor beside a weight that is no optimizer's.
GRADIENT = 'gradient'


class Kind(enum.Enum):
  """The kinds of differences and failures."""
  POLICY = 'policy'
  NEVER_ANNOTATED = 'never annotated'
  ANNOTATION = 'annotation'
  STORED = 'stored placement'
  COMPILED = 'compiled program'
  FALLBACK = 'fallback'
  BOUNDARY = 'boundary'
  REPLICATED_BYTES = 'replicated bytes'
  UNTIED = 'untied'
  STATE = 'optimizer state'
  HELD_TWICE = 'held twice'
  NOTHING_RAN = 'nothing ran'
  REQUIREMENT = 'requirement'
  GOLDEN = 'golden file'


@dataclasses.dataclass(frozen=True)
class Difference:
  """One reason for the audit to fail.

  Attributes:
    name: of the tensor, module, program or figure.
    text: what differs from what.
    nbytes: of the tensor.
  """
  kind: Kind
  name: str
  text: str
  nbytes: int = 0

  def __str__(self) -> str:
    return f'{self.name}: {self.kind.value}: {self.text}'


@dataclasses.dataclass(frozen=True)
class Seen:
  """A tensor's sharding, where one looked for it.

  Attributes:
    sharding: as XLA prints it, V2 where that exists; None if not known.
    priority: the priorities that were said there, where any can be.
    unknown: why it is not known; empty if it is.
    programs: the compiled programs that say so, in order, each once.
  """
  sharding: Optional[str] = None
  priority: Optional[tuple[Optional[int], ...]] = None
  unknown: str = ''
  programs: tuple[str, ...] = ()


WHOLE = '{replicated}'
UNMARKED = Seen(unknown='nobody marked it')


@dataclasses.dataclass(frozen=True)
class Beside:
  """A tensor that is no parameter and no buffer.

  Attributes:
    role: 'gradient', or what an optimizer calls it: 'exp_avg'.
    nbytes: of all of it.
    local_nbytes: of what one device holds.
    count: how many there are that are alike in all of this.
  """
  role: str
  shape: tuple[int, ...]
  dtype: str
  nbytes: int
  local_nbytes: int
  stored: Seen
  count: int = 1


@dataclasses.dataclass(frozen=True)
class Held:
  """All that is held of one sort; bytes as in `Beside`."""
  sort: str
  tensors: int
  nbytes: int
  local_nbytes: int


@dataclasses.dataclass(frozen=True)
class TensorRow:
  """One parameter or buffer.

  Attributes:
    aliases: its other names, where it is tied.
    kind: 'parameter' or 'buffer'.
    rule: the pattern that claims it, or 'default'; empty if nothing does.
    spec: what the policy says, with axis names; empty if it says nothing.
    shape, nbytes: of all of it.
    local_shape, local_nbytes: of what one device holds, padding included.
    replicated_nbytes: what all devices together hold beyond one copy.
    policy, annotation, stored: its sharding at each stage.
    compiled: in the compiled programs that used it: one entry per sharding, or
      one that says why it is not known.
    form: how the sharding leaves for the compiler: 'V2' or 'V1'.
    why_not_v2: empty for V2.
    partitioners: of the programs that used it.
    fallbacks: why any of these was not partitioned by Shardy as asked.
    unused_axes: mesh axes larger than 1 that do not split it.
    beside: its gradient, and its state in optimizers.
  """
  name: str
  aliases: tuple[str, ...]
  kind: str
  rule: str
  spec: str
  shape: tuple[int, ...]
  dtype: str
  nbytes: int
  local_shape: tuple[int, ...]
  local_nbytes: int
  replicated_nbytes: int
  policy: Seen
  annotation: Seen
  stored: Seen
  compiled: tuple[Seen, ...]
  form: str
  why_not_v2: str
  partitioners: tuple[str, ...]
  fallbacks: tuple[str, ...]
  unused_axes: tuple[str, ...]
  beside: tuple[Beside, ...] = ()


@dataclasses.dataclass(frozen=True)
class Activation:
  """A result of one shape that a boundary marked.

  Attributes:
    shape: None for one that torch.compile traced.
    local_shape, local_nbytes: what one device is to hold of it.
    uneven: (dimension, tiles) where the one does not divide into the other.
    constrained: how many instructions of the compiled programs are constrained
      so; its gradient is one too. None where programs do not tell.
  """
  shape: Optional[tuple[int, ...]]
  local_shape: Optional[tuple[int, ...]]
  local_nbytes: Optional[int]
  uneven: tuple[tuple[int, int], ...]
  constrained: Optional[int]


@dataclasses.dataclass(frozen=True)
class BoundaryRow:
  """A module whose result the policy marks.

  Attributes:
    hooked: whether the hook of `policy.apply` is in place.
    activations: what it marked since; none if the module never ran.
  """
  module: str
  output: Optional[int]
  spec: str
  priority: Optional[tuple[Optional[int], ...]]
  hooked: bool
  activations: tuple[Activation, ...]


@dataclasses.dataclass(frozen=True)
class CollectiveRow:
  """The collectives of one kind in one program; bytes as in `Collective`.

  Attributes:
    causes: (words, count, nbytes) of what they come from, the least bytes first.
  """
  kind: str
  count: int
  nbytes: int
  smallest: int
  causes: tuple[tuple[str, int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class ProgramRow:
  """A program that was compiled in the time of the audit.

  Attributes:
    v2, v1: shardings handed over in each form.
    why_not_v2: (reason, how many).
    note: why it was handed on other than asked; empty if it was not.
    fallback: whether Shardy should have partitioned it and did not.
    lost: tensors whose annotation does not count in it.
    collectives: None where the backend does not tell.
    memory: what it takes on a device; None where the backend does not tell.
  """
  name: str
  partitioner: str
  partitions: int
  v2: int
  v1: int
  why_not_v2: tuple[tuple[str, int], ...]
  note: str
  fallback: bool
  lost: tuple[str, ...]
  collectives: Optional[tuple[CollectiveRow, ...]]
  memory: Optional[Memory]


@dataclasses.dataclass(frozen=True)
class Totals:
  """Sums over all tensors; bytes.

  Attributes:
    replicated_nbytes: what all devices together hold beyond one copy.
    tolerance: the most of that which is allowed; None: no limit was set.
  """
  tensors: int
  nbytes: int
  local_nbytes: int
  replicated_nbytes: int
  tolerance: Optional[int]

  @property
  def limit(self) -> str:
    """The tolerance, for people."""
    return ('no tolerance was given'
            if self.tolerance is None else f'tolerance {self.tolerance:,}')


@dataclasses.dataclass(frozen=True)
class Report:
  """The results of an audit, as data.

  Attributes:
    mode: 'off', 'v2' or 'shardy'.
    policy: what it was held to: one that was 'applied', or 'given' to a model
      that others marked, or 'captured' from the model as it is.
    mesh: (axis, size), from major to minor.
    devices: ids in the mesh's row-major order.
    programs: in the order they were compiled; None where the mode is off and
      nobody sees them.
    held: what lives on the device, by sort: parameters, optimizer state, ...
    others: tensors that live and belong to none of the model's, the largest
      first.
    counts: compiles and traces since the policy was applied, or else of the
      process, by name; None where the counters were cleared meanwhile.
  """
  mode: str
  policy: str
  mesh: tuple[tuple[str, int], ...]
  devices: tuple[int, ...]
  tensors: tuple[TensorRow, ...]
  boundaries: tuple[BoundaryRow, ...]
  programs: Optional[tuple[ProgramRow, ...]]
  counts: Mapping[str, Optional[int]]
  totals: Totals
  held: tuple[Held, ...] = ()
  others: tuple[Beside, ...] = ()
  differences: tuple[Difference, ...] = ()

  @property
  def since(self) -> str:
    """The time that programs and counts are of."""
    return ('since the policy was applied'
            if self.policy == 'applied' else 'in this process')

  @property
  def largest_program(self) -> Optional[ProgramRow]:
    """The program that takes most; None where no backend tells."""
    return max((p for p in self.programs or () if p.memory),
               key=lambda p: p.memory.peak,
               default=None)

  @property
  def ok(self) -> bool:
    return not self.differences

  def to_dict(self) -> dict[str, Any]:
    """The report as JSON values; neither times nor addresses are in it."""
    data = dataclasses.asdict(self)
    data['differences'] = [{
        'kind': d.kind.value,
        'name': d.name,
        'text': d.text
    } for d in self.differences]
    for program, row in zip(data['programs'] or (), self.programs or ()):
      if row.memory is not None:
        program['memory']['peak'] = row.memory.peak
    # By name, so that a diff shows the tensor that changed.
    data['tensors'] = {row.pop('name'): row for row in data['tensors']}
    data['schema'] = SCHEMA
    return data

  def to_json(self) -> str:
    return json.dumps(self.to_dict(), indent=1, sort_keys=True) + '\n'


def collective_totals(report: Report) -> tuple[CollectiveRow, ...]:
  """The collectives of all programs, by kind."""
  kinds: dict[str, CollectiveRow] = {}
  for row in _collectives(report):
    so_far = kinds.get(row.kind, CollectiveRow(row.kind, 0, 0, row.smallest))
    kinds[row.kind] = CollectiveRow(row.kind, so_far.count + row.count,
                                    so_far.nbytes + row.nbytes,
                                    min(so_far.smallest, row.smallest))
  return tuple(kinds[kind] for kind in sorted(kinds))


def collective_causes(report: Report) -> list[tuple[str, str, int, int]]:
  """The causes of all programs' collectives, the smallest each first.

  As (kind, cause, count, nbytes).
  """
  sums_by_cause: dict[tuple[str, str], tuple[int, int]] = {}
  for row in _collectives(report):
    for cause, count, nbytes in row.causes:
      so_far = sums_by_cause.get((row.kind, cause), (0, 0))
      sums_by_cause[row.kind, cause] = so_far[0] + count, so_far[1] + nbytes
  return sorted(((*key, *sums) for key, sums in sums_by_cause.items()),
                key=lambda c: (c[3] / c[2], c))


def _collectives(report: Report) -> list[CollectiveRow]:
  return [
      row for program in report.programs or ()
      for row in program.collectives or ()
  ]
