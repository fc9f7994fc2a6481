"""Where two shardings contradict each other, the priority decides."""

from __future__ import annotations

from ..shared.sharding.text import parse_sharding
from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..torch_modules import torch, torch_xla, xs
from ..torch_session import check_equal, DATA, numbers, TorchSession

# For each conflict what goes first, of its two sides.
_FIRSTS = {
    'lookup': ('table', 'tokens'),
    'product': ('rows', 'columns'),
    'sum': ('rows', 'columns'),
}
_LEFT = ('tokens', 'rows')


def _combined(session: TorchSession, part: str, first: str) -> torch.Tensor:
  """Combines what is split by rows with what is split by columns.

  These are tokens split by sequences and a table split by features, the factors
  of a product, or the terms of a sum.
  """
  count = session.count
  square = numbers(2 * count, 2 * count)
  left_host, right_host, combine = {
      'lookup': (torch.arange(4 * count).reshape(count, 4) % 64,
                 numbers(64, 2 * count), torch.nn.functional.embedding),
      'product':
          (numbers(2 * count, 8) % 8, numbers(8, 2 * count) % 8, torch.matmul),
      'sum': (square, square, torch.add),
  }[part]
  mesh = session.mesh((count,), (DATA,))
  left, right = session.to_device(left_host), session.to_device(right_host)
  own, other = (0, 1) if first in _LEFT else (1, 0)
  xs.mark_sharding(left, mesh, (DATA, None), priority=(own, None))
  xs.mark_sharding(right, mesh, (None, DATA), priority=(None, other))
  torch_xla.sync(wait=True)
  result = combine(left, right)
  torch_xla.sync(wait=True)
  check_equal(result.cpu(), combine(left_host, right_host), f'the {part}')
  return result


def _placement(tensor: torch.Tensor) -> str:
  return str(
      parse_sharding(
          torch_xla._XLAC._get_xla_sharding_spec(tensor)).canonical())


def _flip(context: Context, part: str) -> str:
  if context.capabilities.get('shardy_attributes') is not True and (
      context.capabilities.get('shardy_dialect') is not True):
    raise NotApplicable('the plugin does not partition with Shardy: '
                        f'{context.capabilities.get("shardy_attributes")}')
  session = context.torch()
  placements = []
  for first in _FIRSTS[part]:
    result = _combined(session, part, first)
    placement, rank = _placement(result), result.dim()
    split = 0 if first in _LEFT else rank - 1
    tiles = ','.join(
        str(session.count) if d == split else '1' for d in range(rank))
    expected = f'{{devices=[{tiles}]<=[{session.count}]}}'
    expect(placement == expected,
           f'with {first} first the result is {placement}, not {expected}')
    placements.append(f'{first} first: {placement}')
  return '; '.join(placements)


CASES: tuple[Case, ...] = (Case(
    'priorities.flip', 'priorities do nothing: the same conflict is '
    'always settled in the same way',
    _flip,
    tuple(_FIRSTS),
    devices=2,
    needs=Needs.MODES),)
