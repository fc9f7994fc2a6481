"""What a user requires of a report: `fits`, `all-gather bytes <= 1GiB`."""

from __future__ import annotations

import dataclasses
import operator
import re
from typing import Optional

from . import quantities, sizes
from .measures import label, Number
from .quantities import Quantity
from ..report import AotReport
from .wording import verdict

_FITS = 'fits'
_OPERATORS = {
    '<=': operator.le,
    '>=': operator.ge,
    '==': operator.eq,
    '<': operator.lt,
    '>': operator.gt,
}
_PARTS = re.compile(r'(?P<name>[^<>=]+?)\s*(?P<op><=|>=|==|<|>)\s*'
                    r'(?P<limit>[^<>=]+)')


class RequirementError(ValueError):
  """A text that is no requirement."""


@dataclasses.dataclass(frozen=True)
class Requirement:
  """One requirement.

  Attributes:
    text: as the user wrote it.
    quantity: what is held to `limit`; None: every program has to fit.
    op: '<', '<=', '>', '>=' or '=='.
    limit: in the quantity's unit.
  """
  text: str
  quantity: Optional[Quantity] = None
  op: str = ''
  limit: Number = 0

  def check(self, report: AotReport) -> Optional[str]:
    """None if it holds; else why not, with the number, in a sentence.

    What is not known does not hold.
    """
    if self.quantity is None:
      return None if report.fits else f'{self.text}: {verdict(report)}'
    measure = self.quantity.of_report(report)
    if measure.value is None:
      return f'{self.text}: not known: {measure.unknown}'
    if _OPERATORS[self.op](measure.value, self.limit):
      return None
    unit = self.quantity.unit
    of = f' of {label(measure.program)}' if measure.program else ''
    return (f'{self.text}: {self.quantity.name}{of} is '
            f'{unit.exact(measure.value)}, and {self.op} '
            f'{unit.exact(self.limit)} is required')


def known() -> str:
  """What may be required, for people."""
  return (
      f'{_FITS}, or a quantity, one of {" ".join(_OPERATORS)}, and a number '
      'such as 3, 1GiB, 16 MB, 2.5T.\n'
      f'Quantities: {quantities.known()}.\n'
      'All are of one device. Memory is that of the program which needs the '
      'most of it; flops, cycles and collectives are those of one step '
      'after warm-up, over AXIS,AXIS those along '
      'exactly these axes. What is not known does not hold.')


def parse(text: str) -> Requirement:
  """Reads `fits`, or a quantity, an operator and a number with its unit.

  Quantities are those of `quantities.named`; a number of bytes is written as
  `sizes.parse` reads it, any other as `sizes.parse_number` does.

  Raises:
    RequirementError: it is neither, or names no quantity.
  """
  words = ' '.join(text.split())
  if words == _FITS:
    return Requirement(words)
  match = _PARTS.fullmatch(words)
  if not match:
    raise RequirementError(
        f'requirement {text!r}: write fits, or a quantity, one of '
        f'{" ".join(_OPERATORS)} and a number: peak<=14GiB, programs<=3, '
        'all-gather bytes over model<=1GiB')
  try:
    quantity = quantities.named(match['name'])
    limit = quantity.unit.parse(match['limit'])
  except (quantities.UnknownQuantityError, sizes.SizeError) as e:
    raise RequirementError(f'requirement {text!r}: {e}') from e
  return Requirement(words, quantity, match['op'], limit)
