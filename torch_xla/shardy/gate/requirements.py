"""Requirements of a report."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
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

# The quantity called so; it raises UnknownQuantityError.
Named = Callable[[str], Quantity]


class RequirementError(ValueError):
  """A text that is no requirement."""


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
