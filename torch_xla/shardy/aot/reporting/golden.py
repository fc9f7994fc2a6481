"""Holds a report to one that was kept, within tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
from fractions import Fraction
import re
from typing import Optional

from . import comparison, quantities, sizes
from .matching import match
from .measures import label, Measure, Number
from .quantities import Quantity, Unit
from ..report import Program, AotReport

_PERCENT = re.compile(r'(\d+(?:\.\d+)?)\s*%')


class ToleranceError(ValueError):
  """A text that is no tolerance."""


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


def parse_tolerance(text: str) -> Tolerance:
  """Reads 'peak=2%', 'programs=1', 'all-gather bytes=16MiB'.

  One of 'all-gather bytes' also holds for 'all-gather bytes over model', one of
  'collective bytes' for all collectives, where they have none of their own; and
  one for what programs have holds for each program.

  Raises:
    ToleranceError: it is none, or of no quantity.
  """
  name, equals, allowed = (part.strip() for part in text.partition('='))
  if not equals or not name or not allowed:
    raise ToleranceError(f'tolerance {text!r}: write QUANTITY=AMOUNT, such as '
                         'peak=2%, programs=1 or temporaries=16MiB')
  try:
    quantity = quantities.named(name)
    percent = _PERCENT.fullmatch(allowed)
    if percent:
      return Tolerance(quantity.name, allowed, Fraction(percent[1]) / 100)
    return Tolerance(
        quantity.name, allowed, amount=quantity.unit.parse(allowed))
  except (quantities.UnknownQuantityError, sizes.SizeError) as e:
    raise ToleranceError(f'tolerance {text!r}: {e}') from e


def differences(golden: Sequence[AotReport], reports: Sequence[AotReport],
                tolerances: Sequence[Tolerance]) -> tuple[str, ...]:
  """`differences_from` for several reports, each beside that of its topology.

  A report of one alone is a difference too. Each sentence names the topology.
  """
  kept = {report.topology.name: report for report in golden}
  now = {report.topology.name: report for report in reports}
  found = []
  for name in dict.fromkeys([*kept, *now]):
    if name not in now:
      found.append(f'{name}: it is in the golden file, and was not asked for')
    elif name not in kept:
      found.append(f'{name}: the golden file has no report of it, but of '
                   f'{", ".join(kept) or "nothing"}')
    else:
      found += [
          f'{name}: {text}'
          for text in differences_from(kept[name], now[name], tolerances)
      ]
  return tuple(found)


def differences_from(golden: AotReport, report: AotReport,
                     tolerances: Sequence[Tolerance]) -> tuple[str, ...]:
  """What is not as in the golden report, a sentence each; empty: all is.

  Better than that is a difference too, or the golden file would go stale.

  Not compared: what this machine took (seconds, its memory), digests and names
  of programs and tensors, places in the user's code but to match programs, and
  the compiler's version, which is only told where something differs.

  Args:
    tolerances: of what has none, every digit counts. Of several for one
      quantity, the last.
  """
  allowed = {t.name: t for t in tolerances}
  matches = match([golden, report])
  found = [
      *_of_facts('', comparison.facts(golden), comparison.facts(report)),
      *_of_quantities('', comparison.report_quantities([golden, report
                                                       ]), allowed, lambda q:
                      (q.of_report(golden), q.of_report(report)))
  ]
  for was, is_ in matches:
    if was is not None and is_ is not None:
      found += _of_program(was, is_, allowed)
  found += _of_unmatched(matches, len(golden.programs), allowed)
  then, now = golden.topology.compiler, report.topology.compiler
  if found and then != now:
    found.append(f'compiler: it was {then or "not told"}, and is '
                 f'{now or "not told"}: that alone can make a difference')
  return tuple(found)


def _of_program(was: Program, is_: Program,
                allowed: Mapping[str, Tolerance]) -> Iterator[str]:
  subject = f'{label(is_)}: '
  yield from _of_facts(subject, comparison.program_facts(was),
                       comparison.program_facts(is_))

  def measured(quantity: Quantity) -> tuple[Measure, Measure]:
    assert quantity.of_program is not None
    return quantity.of_program(was), quantity.of_program(is_)

  yield from _of_quantities(subject, comparison.program_quantities([was, is_]),
                            allowed, measured)


def _of_facts(subject: str, was: Mapping[str, str],
              is_: Mapping[str, str]) -> Iterator[str]:
  for name, value in is_.items():
    if was[name] != value:
      yield f'{subject}{name}: it was {was[name]}, and is {value}'


def _of_quantities(
    subject: str, compared: Sequence[Quantity], allowed: Mapping[str,
                                                                 Tolerance],
    measured: Callable[[Quantity], tuple[Measure, Measure]]) -> Iterator[str]:
  for quantity in compared:
    text = _of_quantity(quantity, *measured(quantity),
                        _tolerance(allowed, quantity.name))
    if text:
      yield f'{subject}{quantity.name}: {text}'


def _of_quantity(quantity: Quantity, was: Measure, is_: Measure,
                 tolerance: Tolerance) -> Optional[str]:
  """How they differ beyond the tolerance; None if they do not."""
  if was.value is None or is_.value is None:
    if was.value is is_.value:
      return None
    known = is_ if was.value is None else was
    values = ('not known', quantity.unit.exact(known.value))
    then, now = values if known is is_ else values[::-1]
    return f'it was {then}, and is {now}' + (f': {is_.unknown}'
                                             if is_.unknown else '')
  if tolerance.allows(was.value, is_.value):
    return None
  text = (f'it was {quantity.unit.exact(was.value)}, and is '
          f'{quantity.unit.exact(is_.value)}')
  if was.value:
    text += f', {comparison.change_text(was.value, is_.value)}'
  text += f' (tolerance {tolerance.text})'
  # Fewer flops may be work that is missing, and what is an alias saves memory.
  if is_.value < was.value and quantity.unit is not Unit.FLOPS and (
      quantity.name != 'aliases'):
    text += ': that is better, and the golden file is out of date'
  return text


def _of_unmatched(matches: Sequence[tuple[Optional[Program],
                                          ...]], golden_programs: int,
                  allowed: Mapping[str, Tolerance]) -> Iterator[str]:
  """Programs that one report alone has, if there are more than is allowed."""
  tolerance = _tolerance(allowed, 'programs')
  for which, text in ((0, 'it is not compiled any more'),
                      (1, 'the golden file has no such program')):
    alone = [m[which] for m in matches if m[1 - which] is None]
    if not tolerance.allows(golden_programs, golden_programs + len(alone)):
      yield from (f'{label(p)}: {text}' for p in alone if p is not None)


def _tolerance(allowed: Mapping[str, Tolerance], name: str) -> Tolerance:
  for wider in quantities.wider_names(name):
    if wider in allowed:
      return allowed[wider]
  return Tolerance(name)
