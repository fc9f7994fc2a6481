"""A case: one behaviour of a plugin, and what it means for a user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import dataclasses
import enum
from typing import Any

from .shared.mode import Mode


class ConformanceError(Exception):
  """The suite cannot run: wrong usage, a file, or torch_xla itself.

  It is no finding about the plugin.
  """


class Failure(Exception):
  """The plugin did something else than it should have; the text says what."""


class NotApplicable(Exception):
  """The case does not apply to this plugin or machine; the text says why."""


class Needs(enum.Enum):
  """Needs of a case beside the plugin.

  PLUGIN: nothing. TORCH_XLA: any torch_xla. MODES: this project's, with its
  modes, records and cache.
  """
  PLUGIN = enum.auto()
  TORCH_XLA = enum.auto()
  MODES = enum.auto()


class Tier(enum.IntEnum):
  """The runs that have a part: quick ones, each, or only those of a night."""
  QUICK = enum.auto()
  WHOLE = enum.auto()
  NIGHTLY = enum.auto()


@dataclasses.dataclass(frozen=True)
class Case:
  """One behaviour, tried in a process of its own.

  Attributes:
    name: with its group before the first dot: 'donation.real'.
    means: what it is for a user if the plugin fails.
    run: tries one part; returns what was measured, in a few words. Raises
      Failure, NotApplicable, or whatever the plugin made of it.
    parts: tried one after the other in the same process, each a finding of its
      own; a case without parts has one that has no name.
    mode: that torch_xla runs in, if it has modes.
    seconds: that a part may take.
    devices: how many it needs at least; 0: it starts no client.
    compiles: whether it is about programs that are compiled.
    needs: what has to be installed for it.
    tier: of its parts; one that needs torch_xla is never quick.
    part_tiers: of parts that have another one.
  """
  name: str
  means: str
  run: Callable[[Any, str], str]
  parts: tuple[str, ...] = ('',)
  mode: Mode = Mode.SHARDY
  seconds: float = 60
  devices: int = 1
  compiles: bool = True
  needs: Needs = Needs.PLUGIN
  tier: Tier = Tier.QUICK
  part_tiers: Mapping[str, Tier] = dataclasses.field(default_factory=dict)

  @property
  def group(self) -> str:
    return self.name.split('.')[0]

  def tier_of(self, part: str) -> Tier:
    least = Tier.QUICK if self.needs is Needs.PLUGIN else Tier.WHOLE
    return max(least, self.part_tiers.get(part, self.tier))


def expect(right: bool, otherwise: str) -> None:
  """Raises a Failure with the text `otherwise` unless `right`."""
  if not right:
    raise Failure(otherwise)
