"""Which operations of a sequence form manual regions, whatever their format.

All that follows from the beginning of a region, up to its ends, is manual, and
what is connected is one region, unless that needs its own result: then it is
cut in *stages*, each after as many ends as lead to it. A region of a stage uses
nothing but what is not manual and of this stage at most, and regions of stages
before it. What nothing needs before a later stage is put off until then.

    begin a, m1(a), end e(m1)            stage 0
    n(e), begin b(n), m2(b, m1), end..   stage 1: m1 passes from one to the other
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
import dataclasses
import enum
from typing import Generic, TypeVar

from .manual import nested_error

Key = TypeVar('Key', bound=Hashable)


class Role(enum.Enum):
  """The role of an operation in manual regions.

  Attributes:
    PLAIN: it is manual if an operand is.
    BEGIN: it splits its operand for a region.
    END: it puts a manual value together.
    MANUAL: it is manual, whatever its operands are.
    GIVEN: a manual value that the program is given: in no region.
    RESULTS: it gives the program's results: in no region.
  """
  PLAIN = enum.auto()
  BEGIN = enum.auto()
  END = enum.auto()
  MANUAL = enum.auto()
  GIVEN = enum.auto()
  RESULTS = enum.auto()


@dataclasses.dataclass(frozen=True)
class Node(Generic[Key]):
  """One operation of a sequence, and what it has to do with manual regions.

  Attributes:
    operands: operations whose results it uses.
    name: for people.
  """
  key: Key
  operands: tuple[Key, ...]
  role: Role
  name: str


@dataclasses.dataclass
class Region(Generic[Key]):
  """Operations that each device computes for itself.

  Attributes:
    members: in order.
    ends: the operations that put its values together.
    left: members that are used elsewhere as they are: in a later region, or as
      a result.
  """
  members: list[Key] = dataclasses.field(default_factory=list)
  ends: list[Key] = dataclasses.field(default_factory=list)
  left: dict[Key, None] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Cut(Generic[Key]):
  """A sequence that is cut into regions.

  Attributes:
    stages: of every operation.
    regions: by stage, in order.
    manual: members of regions and what the program is given.
  """
  stages: dict[Key, int]
  regions: dict[int, list[Region[Key]]]
  manual: frozenset[Key]

  @property
  def all_regions(self) -> Iterator[Region[Key]]:
    for stage in sorted(self.regions):
      yield from self.regions[stage]


def cut(nodes: Sequence[Node[Key]]) -> Cut[Key]:
  """Finds the regions of a sequence, in which operands come first.

  Raises:
    ManualShardingError: a region begins within one.
  """
  stages: dict[Key, int] = {}
  manual: set[Key] = set()
  members: list[Node[Key]] = []
  for node in nodes:
    is_manual = not manual.isdisjoint(node.operands)
    stage = max((stages[o] for o in node.operands), default=0)
    if node.role in (Role.END, Role.RESULTS):
      stage += is_manual
    elif node.role is Role.GIVEN:
      manual.add(node.key)
    elif is_manual or node.role is not Role.PLAIN:
      if is_manual and node.role is Role.BEGIN:
        raise nested_error(node.name)
      members.append(node)
      manual.add(node.key)
    stages[node.key] = stage
  _put_off(nodes, members, stages)
  region_of = _connected(members, stages)
  _find_uses(nodes, region_of)
  regions: dict[int, list[Region[Key]]] = {}
  for member in members:
    region = region_of[member.key]
    if not region.members:
      regions.setdefault(stages[member.key], []).append(region)
    region.members.append(member.key)
  return Cut(stages, regions, frozenset(manual))


def _put_off(nodes: Sequence[Node[Key]], members: Sequence[Node[Key]],
             stages: dict[Key, int]) -> None:
  """Moves members to the first stage that uses them; to none before ends."""
  keys = {m.key for m in members}
  fixed = {o for n in nodes if n.key not in keys for o in n.operands}
  first_use: dict[Key, int] = {}
  for m in reversed(members):
    if m.key not in fixed and m.key in first_use:
      stages[m.key] = first_use[m.key]
    for o in m.operands:
      if o in keys:
        first_use[o] = min(first_use.get(o, stages[m.key]), stages[m.key])


def _connected(members: Sequence[Node[Key]],
               stages: dict[Key, int]) -> dict[Key, Region[Key]]:
  """The region of each member: an empty one that it shares with others."""
  parents = {m.key: m.key for m in members}

  def root_of(key: Key) -> Key:
    while parents[key] != key:
      parents[key] = parents[parents[key]]
      key = parents[key]
    return key

  for m in members:
    for o in m.operands:
      if o in parents and stages[o] == stages[m.key]:
        parents[root_of(m.key)] = root_of(o)
  regions: dict[Key, Region[Key]] = {}
  return {m.key: regions.setdefault(root_of(m.key), Region()) for m in members}


def _find_uses(nodes: Sequence[Node[Key]],
               region_of: dict[Key, Region[Key]]) -> None:
  for node in nodes:
    for o in node.operands:
      region = region_of.get(o)
      if region is None or region is region_of.get(node.key):
        continue
      if node.role is Role.END:
        region.ends.append(node.key)
      else:
        region.left[o] = None
