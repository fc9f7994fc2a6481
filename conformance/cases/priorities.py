"""Where two shardings contradict each other, the priority decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..shared.sharding.text import parse_sharding
from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..torch_modules import torch, torch_xla, xs
from ..torch_session import check_equal, DATA, numbers, TorchSession

# The result, and the dimension of it that is to be split.
_Placed: TypeAlias = 'tuple[torch.Tensor, int]'


def _lookup(session: TorchSession, first: str) -> _Placed:
  """Rows of a table split by features, for tokens split by sequences."""
  count = session.count
  mesh = session.mesh((count,), (DATA,))
  host = numbers(64, 2 * count)
  table = session.to_device(host)
  chosen = torch.arange(4 * count).reshape(count, 4) % 64
  tokens = session.to_device(chosen)
  own, other = (0, 1) if first == 'table' else (1, 0)
  xs.mark_sharding(table, mesh, (None, DATA), priority=(None, own))
  xs.mark_sharding(tokens, mesh, (DATA, None), priority=(other, None))
  torch_xla.sync(wait=True)
  rows = torch.nn.functional.embedding(tokens, table)
  torch_xla.sync(wait=True)
  check_equal(rows.cpu(), host[chosen], 'the rows')
  return rows, {'table': 2, 'tokens': 0}[first]


def _product(session: TorchSession, first: str) -> _Placed:
  """A product whose rows and columns want the same axis."""
  count = session.count
  return _combined(session, first,
                   numbers(2 * count, 8) % 8,
                   numbers(8, 2 * count) % 8, torch.matmul, 'the product')


def _sum(session: TorchSession, first: str) -> _Placed:
  """A sum of two matrices that are split differently."""
  host = numbers(2 * session.count, 2 * session.count)
  return _combined(session, first, host, host, torch.add, 'the sum')


def _combined(session: TorchSession, first: str, left_host: torch.Tensor,
              right_host: torch.Tensor,
              combine: Callable[[torch.Tensor, torch.Tensor],
                                torch.Tensor], label: str) -> _Placed:
  """Splits the left matrix by rows and the right by columns, and combines."""
  mesh = session.mesh((session.count,), (DATA,))
  left, right = session.to_device(left_host), session.to_device(right_host)
  own, other = (0, 1) if first == 'rows' else (1, 0)
  xs.mark_sharding(left, mesh, (DATA, None), priority=(own, None))
  xs.mark_sharding(right, mesh, (None, DATA), priority=(None, other))
  torch_xla.sync(wait=True)
  result = combine(left, right)
  torch_xla.sync(wait=True)
  check_equal(result.cpu(), combine(left_host, right_host), label)
  return result, {'rows': 0, 'columns': 1}[first]


def _placement(tensor: torch.Tensor) -> str:
  return str(
      parse_sharding(
          torch_xla._XLAC._get_xla_sharding_spec(tensor)).canonical())


_CONFLICTS = {
    'lookup': (_lookup, ('table', 'tokens')),
    'product': (_product, ('rows', 'columns')),
    'sum': (_sum, ('rows', 'columns')),
}


def _flip(context: Context, part: str) -> str:
  if context.capabilities.get('shardy_attributes') is not True and (
      context.capabilities.get('shardy_dialect') is not True):
    raise NotApplicable('the plugin does not partition with Shardy: '
                        f'{context.capabilities.get("shardy_attributes")}')
  run, firsts = _CONFLICTS[part]
  session = context.torch()
  placements = []
  for first in firsts:
    result, dim = run(session, first)
    placement, rank = _placement(result), result.dim()
    tiles = ','.join(
        str(session.count) if d == dim else '1' for d in range(rank))
    expected = f'{{devices=[{tiles}]<=[{session.count}]}}'
    expect(placement == expected,
           f'with {first} first the result is {placement}, not {expected}')
    placements.append(f'{first} first: {placement}')
  return '; '.join(placements)


CASES: tuple[Case, ...] = (Case(
    'priorities.flip', 'priorities do nothing: the same conflict is '
    'always settled in the same way',
    _flip,
    tuple(_CONFLICTS),
    devices=2,
    needs=Needs.MODES),)
