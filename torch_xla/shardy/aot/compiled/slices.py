"""Transfers from libtpu's program of one slice to the others.

libtpu compiles a program over several slices as that of one: collectives within
a slice stay, and what goes between slices is sent through the host, with these
attributes. Devices are numbered by slice: 100000 to 100007 are the first one's.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import re
from typing import Optional

from .replica_groups import Groups

_TARGET = '_xla_megascale_target'
_KIND = '_xla_megascale_transfer_type'
# What a transfer and its answer have in common.
MEETING = '_xla_host_transfer_rendezvous'
_FIRST_OF_SLICE = 100000
# '{1,2}x{0:7}': each device with those in its place of the other slices.
_PRODUCT = re.compile(r'\{([\d,:]+)\}x\{([\d,:]+)\}')
# '{{100000,200000},{100001,200001}}', or '{{100000->200000}}'.
_LISTED = re.compile(r'\{(\d+(?:(?:,|->)\d+)*)\}')
_NUMBER = re.compile(r'\d+')


@dataclasses.dataclass(frozen=True)
class Transfer:
  """An exchange between devices of several slices.

  Attributes:
    kind: as XLA calls such a collective: 'all-reduce'.
    groups: of (slice, device in it), both from 0; (source, target) pairs of a
      'collective-permute'.
  """
  kind: str
  groups: tuple[tuple[tuple[int, int], ...], ...]

  @property
  def slices(self) -> int:
    """How many slices there are at least."""
    return 1 + max(place[0] for group in self.groups for place in group)

  def groups_of(self, devices: int) -> Groups:
    """The groups of devices, where each slice has so many devices."""
    return tuple(
        tuple(s * devices + d for s, d in group) for group in self.groups)


def transfer_of(attributes: Mapping[str, str]) -> Optional[Transfer]:
  """Reads the frontend attributes of a send.

  Returns:
    None where it does not say that it goes between slices.
  """
  target, kind = attributes.get(_TARGET, ''), attributes.get(_KIND)
  if not kind:
    return None
  groups = _groups(target)
  if not groups:
    return None
  name = kind.lower().replace('_', '-')
  return Transfer('collective-permute' if name == 'one-to-one' else name,
                  groups)


def _groups(target: str) -> tuple[tuple[tuple[int, int], ...], ...]:
  product = _PRODUCT.fullmatch(target)
  if product is not None:
    slices, devices = _numbers(product[1]), _numbers(product[2])
    return tuple(tuple((s - 1, d) for s in slices) for d in devices)
  return tuple(
      tuple((device // _FIRST_OF_SLICE - 1, device % _FIRST_OF_SLICE)
            for device in map(int, _NUMBER.findall(group)))
      for group in _LISTED.findall(target))


def _numbers(text: str) -> list[int]:
  """Parses a list of numbers: '0:2,5' is 0, 1, 2 and 5."""
  ends = [part.partition(':') for part in text.split(',')]
  return [
      i for first, _, last in ends
      for i in range(int(first),
                     int(last or first) + 1)
  ]
