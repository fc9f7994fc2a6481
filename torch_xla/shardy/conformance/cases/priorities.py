"""Where two shardings contradict each other, the priority decides."""

from __future__ import annotations

import torch
import torch_xla
import torch_xla.distributed.spmd as xs

from ...sharding.text import parse_sharding
from ..case import Case, expect, NotApplicable
from ..context import Context
from ..torch_session import check_equal, DATA, numbers, TorchSession


def _lookup(session: TorchSession, first: str) -> tuple[str, torch.Tensor, int]:
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
  return _placement(rows), rows, {'table': 2, 'tokens': 0}[first]


def _product(session: TorchSession,
             first: str) -> tuple[str, torch.Tensor, int]:
  """A product whose rows and columns want the same axis."""
  count = session.count
  mesh = session.mesh((count,), (DATA,))
  left_host, right_host = (numbers(2 * count, 8) % 8, numbers(8, 2 * count) % 8)
  left, right = session.to_device(left_host), session.to_device(right_host)
  own, other = (0, 1) if first == 'rows' else (1, 0)
  xs.mark_sharding(left, mesh, (DATA, None), priority=(own, None))
  xs.mark_sharding(right, mesh, (None, DATA), priority=(None, other))
  torch_xla.sync(wait=True)
  result = left @ right
  torch_xla.sync(wait=True)
  check_equal(result.cpu(), left_host @ right_host, 'the product')
  return _placement(result), result, {'rows': 0, 'columns': 1}[first]


def _sum(session: TorchSession, first: str) -> tuple[str, torch.Tensor, int]:
  """A sum of two matrices that are split differently."""
  count = session.count
  mesh = session.mesh((count,), (DATA,))
  host = numbers(2 * count, 2 * count)
  left, right = session.to_device(host), session.to_device(host)
  own, other = (0, 1) if first == 'rows' else (1, 0)
  xs.mark_sharding(left, mesh, (DATA, None), priority=(own, None))
  xs.mark_sharding(right, mesh, (None, DATA), priority=(None, other))
  torch_xla.sync(wait=True)
  result = left + right
  torch_xla.sync(wait=True)
  check_equal(result.cpu(), host * 2, 'the sum')
  return _placement(result), result, {'rows': 0, 'columns': 1}[first]


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
  told = []
  for first in firsts:
    placement, result, dim = run(session, first)
    rank = result.dim()
    tiles = ','.join(
        str(session.count) if d == dim else '1' for d in range(rank))
    wanted = f'{{devices=[{tiles}]<=[{session.count}]}}'
    expect(placement == wanted,
           f'with {first} first the result is {placement}, not {wanted}')
    told.append(f'{first} first: {placement}')
  return '; '.join(told)


def cases() -> tuple[Case, ...]:
  return (Case(
      'priorities.flip', 'priorities do nothing: the same conflict is '
      'always settled in the same way',
      _flip,
      tuple(_CONFLICTS),
      devices=2),)
