"""Requirements of a report, and tolerances of a golden file."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from fractions import Fraction
import operator
import re
from typing import Any, Optional

from .quantity import Number, Quantity, UnknownQuantityError
from .sizes import SizeError

OPERATORS = {
    '<=': operator.le,
    '>=': operator.ge,
    '==': operator.eq,
    '<': operator.lt,
    '>': operator.gt,
}
_PARTS = re.compile(r'(?P<name>[^<>=]+?)\s*(?P<op><=|>=|==|<|>)\s*'
                    r'(?P<limit>[^<>=]+)')
_PERCENT = re.compile(r'(\d+(?:\.\d+)?)\s*%')

# The quantity called so; it raises UnknownQuantityError.
Named = Callable[[str], Quantity]


class RequirementError(ValueError):
  """A text that is no requirement, or no tolerance."""


@dataclasses.dataclass(frozen=True)
class Requirement:
  """A quantity's limit that a report has to keep.

  Attributes:
    text: as the user wrote it.
    quantity: what is held to `limit`.
    op: '<', '<=', '>', '>=' or '=='.
    limit: in the quantity's unit.
  """
  text: str
  quantity: Quantity
  op: str
  limit: Number

  def check(self, report: Any) -> Optional[str]:
    """None if it holds; else a sentence that says why not, with the number.

    What is not known does not hold.
    """
    measure = self.quantity.of_report(report)
    if measure.value is None:
      return f'{self.text}: not known: {measure.unknown}'
    if OPERATORS[self.op](measure.value, self.limit):
      return None
    unit = self.quantity.unit
    place = f' of {measure.place}' if measure.place else ''
    return (f'{self.text}: {self.quantity.name}{place} is '
            f'{unit.exact(measure.value)}, and {self.op} '
            f'{unit.exact(self.limit)} is required')


@dataclasses.dataclass(frozen=True)
class Tolerance:
  """How far a quantity may be from the golden file's.

  Attributes:
    name: of the quantity.
    text: as the user wrote it: '2%', '16MiB', '1'.
    share: of the golden value; None where it is an amount.
    amount: in the quantity's unit.
  """
  name: str
  text: str = '0'
  share: Optional[Fraction] = None
  amount: int = 0

  def allows(self, was: Number, is_: Number) -> bool:
    allowed = self.amount if self.share is None else abs(was) * self.share
    return abs(is_ - was) <= allowed


def parse(text: str, named: Named) -> Requirement:
  """Reads a quantity, an operator and a number with its unit.

  A number of bytes is written as `sizes.parse` reads it, any other as
  `sizes.parse_number` does.
  """
  words = ' '.join(text.split())
  match = _PARTS.fullmatch(words)
  if not match:
    raise RequirementError(
        f'requirement {text!r}: write a quantity, one of {" ".join(OPERATORS)} '
        'and a number, such as programs<=3 or all-gather bytes<=1GiB; '
        '--require help lists the quantities')
  try:
    quantity = named(match['name'])
    limit = quantity.unit.parse(match['limit'])
  except (UnknownQuantityError, SizeError) as e:
    raise RequirementError(f'requirement {text!r}: {e}') from e
  return Requirement(words, quantity, match['op'], limit)


def parse_tolerance(text: str, named: Named) -> Tolerance:
  """Reads 'peak=2%', 'programs=1', 'all-gather bytes=16MiB'."""
  name, equals, allowed = (part.strip() for part in text.partition('='))
  if not equals or not name or not allowed:
    raise RequirementError(
        f'tolerance {text!r}: write QUANTITY=AMOUNT, such as '
        'peak=2%, programs=1 or temporaries=16MiB')
  try:
    quantity = named(name)
    percent = _PERCENT.fullmatch(allowed)
    if percent:
      return Tolerance(quantity.name, allowed, Fraction(percent[1]) / 100)
    return Tolerance(
        quantity.name, allowed, amount=quantity.unit.parse(allowed))
  except (UnknownQuantityError, SizeError) as e:
    raise RequirementError(f'tolerance {text!r}: {e}') from e
