"""The numbers of a report that users name, and what was measured of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import dataclasses
import difflib
import enum
from typing import Any, Optional, Union

from . import sizes

Number = Union[int, float]


class UnknownQuantityError(ValueError):
  """A name that is no quantity's."""


class Unit(enum.Enum):
  """The unit of a quantity."""
  BYTES = 'bytes'
  COUNT = 'count'
  FLOPS = 'flops'
  CYCLES = 'cycles'

  def parse(self, text: str) -> int:
    """The number that a user wrote.

    Raises:
      sizes.SizeError: it is none.
    """
    read = sizes.parse if self is Unit.BYTES else sizes.parse_number
    return read(text)

  def short(self, value: Number) -> str:
    """A value in short: '1.25 GiB', '1.97 T', '3'."""
    if self is Unit.BYTES:
      return sizes.text(int(value))
    return f'{value:,}' if self is Unit.COUNT else sizes.number_text(value)

  def exact(self, value: Number) -> str:
    """A value with all digits: '1.25 GiB (1,342,177,280 bytes)'."""
    if self is not Unit.BYTES:
      return f'{value:,}'
    short = self.short(value)
    return short if value < 1024 else f'{short} ({value:,} bytes)'


@dataclasses.dataclass(frozen=True)
class Measure:
  """A number of one report, or of one program.

  Attributes:
    value: None where it is not known.
    place: what has it, where it is the largest of several.
    unknown: why it is not known.
  """
  value: Optional[Number]
  place: str = ''
  unknown: str = ''


@dataclasses.dataclass(frozen=True)
class Quantity:
  """A number that reports can be held to.

  Attributes:
    name: as users write it.
    unit: of its values.
    of_report: its value over a whole report.
  """
  name: str
  unit: Unit
  of_report: Callable[[Any], Measure]


def change_text(first: Number, value: Number) -> str:
  """How much more or less `value` is than `first`: '+12.3 %', 'x4.00'."""
  ratio = value / first
  if ratio >= 2:
    return f'x{ratio:,.2f}'
  percent = (ratio - 1) * 100
  return f'{percent:+.1f} %' if abs(percent) >= 1 else f'{percent:+.1g} %'


def find(name: str, quantities: Mapping[str, Quantity],
         synonyms: Mapping[str, str]) -> Quantity:
  """The quantity called so.

  Args:
    synonyms: what else people call some.
  """
  words = ' '.join(name.split())
  if words in quantities:
    return quantities[words]
  names = {**{one: one for one in quantities}, **synonyms}
  base = words.lower().partition(' over ')[0]
  near = difflib.get_close_matches(base, names, n=1)
  raise UnknownQuantityError(f'there is no quantity {words!r}' + (
      f': did you mean {names[near[0]]!r}?' if near else '.') +
                             f' There are: {", ".join(quantities)}')
