"""A report as people read it: layers that are alike once, the worst first."""

from __future__ import annotations

from collections.abc import Iterable
import dataclasses
from typing import NamedTuple

from torch_xla.shardy.layers import group_of, many_text

from .report import Report, Difference, Kind, TensorRow

# Causes that come first: no size says how bad they are.
_FIRST = (Kind.NOTHING_RAN, Kind.FALLBACK, Kind.POLICY, Kind.UNTIED)


class Cause(NamedTuple):
  """Differences that say the same of other names.

  Attributes:
    names: that it is said of, in the order of the report.
    nbytes: of these tensors together.
  """
  kind: Kind
  text: str
  names: tuple[str, ...]
  nbytes: int

  @property
  def head(self) -> str:
    """The names, and how many they are."""
    return many_text(self.names,
                     f', {self.nbytes:,} bytes' if self.nbytes else '')

  def __str__(self) -> str:
    return f'{self.head}: {self.kind.value}: {self.text}'


class Fold(NamedTuple):
  """Rows that differ in the number of their layer alone.

  Attributes:
    row: the first of them.
    name: the row's, or what they have in common: 'h.*.weight (24)'.
    names: all that they are called.
  """
  row: TensorRow
  name: str
  names: tuple[str, ...]


def causes(differences: Iterable[Difference]) -> list[Cause]:
  """The differences by cause, the worst first."""
  by_cause: dict[tuple[Kind, str], list[Difference]] = {}
  for difference in differences:
    by_cause.setdefault((difference.kind, difference.text),
                        []).append(difference)
  merged = [
      Cause(kind, text, tuple(d.name
                              for d in some), sum(d.nbytes
                                                  for d in some))
      for (kind, text), some in by_cause.items()
  ]
  return sorted(merged, key=lambda c: (c.kind not in _FIRST, -c.nbytes))


def folded(report: Report) -> list[Fold]:
  """The report's tensors; layers that are alike are one."""
  rows_alike: dict[TensorRow, list[TensorRow]] = {}
  for row in report.tensors:
    alike = dataclasses.replace(
        row, name=group_of(row.name), aliases=tuple(map(group_of, row.aliases)))
    rows_alike.setdefault(alike, []).append(row)
  return [
      Fold(
          rows[0], ' = '.join((alike.name, *alike.aliases)) +
          f' ({len(rows)})' if len(rows) > 1 else ' = '.join(
              (rows[0].name, *rows[0].aliases)), tuple(r.name
                                                       for r in rows))
      for alike, rows in rows_alike.items()
  ]
