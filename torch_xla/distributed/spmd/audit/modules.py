"""The bytes of each module's tensors on a device, alike layers as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from torch_xla.shardy.layers import folded, group_of

from .report import Report, GRADIENT

_HEADER = ('module', 'weights', 'gradients', 'optimizer state',
           'boundary activations')
_MODEL = '(the model)'


def table(report: Report) -> list[tuple[str, ...]]:
  """A header, a row for each module that owns a tensor or has a boundary, sums.
  """
  sums: dict[str, list[int]] = {}
  is_known = True
  for module, column, nbytes in _parts(report):
    is_known = is_known and nbytes is not None
    sums.setdefault(f'{module}.', [0] * 4)[column] += nbytes or 0
  alike = folded({name: tuple(row) for name, row in sums.items()})
  names: dict[str, list[str]] = {}
  for name in sums:
    names.setdefault(name if name in alike else group_of(name), []).append(name)
  rows = [(_title(group,
                  names[group]), *(f'{n * len(names[group]):,}' if n else '-'
                                   for n in row))
          for group, row in alike.items()]
  together = [f'{sum(column):,}' for column in zip([0] * 4, *sums.values())]
  if not is_known:
    together[-1] += ', without those that torch.compile traced'
  return [_HEADER, *rows, ('together', *together)]


def _title(group: str, names: Sequence[str]) -> str:
  title = group if len(names) > 1 else names[0]
  return title[:-1] + f' ({len(names)})' * (len(names) > 1) or _MODEL


def _parts(report: Report) -> Iterator[tuple[str, int, Optional[int]]]:
  """The bytes on a device of each tensor, by its module and column.

  As (module, column after its name, bytes; None: not known).
  """
  for row in report.tensors:
    module = row.name.rpartition('.')[0]
    yield module, 0, row.local_nbytes
    for state in row.beside:
      yield module, 1 if state.role == GRADIENT else 2, state.local_nbytes
  for boundary in report.boundaries:
    for activation in boundary.activations:
      yield boundary.module, 3, activation.local_nbytes
