"""NaN, infinities, signed zeros and numbers too small to be normal."""

from __future__ import annotations

import functools
import math

import torch

from .inputs import Inputs, SHAPE
from .operation import approximated, each, exact, rounded, same_bits

_SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.5, -2.5,
            3e38, -3e38, 1.5e-38, 0.5, -0.5, 100.0, -100.0)
# Below the smallest normal float32, 1.18e-38: a device may flush it to zero.
_SUBNORMAL = 1e-40


def _every(g: torch.Generator) -> torch.Tensor:
  """A row of special values for each of eight rows, in any order."""
  rows = [torch.randperm(len(_SPECIAL), generator=g) for _ in range(8)]
  return torch.tensor(_SPECIAL)[torch.stack(rows)]


# Every special value with every other.
_PAIRS: Inputs = (
    lambda g: torch.tensor(_SPECIAL).repeat(16).reshape(16, 16),
    lambda g: torch.tensor(_SPECIAL).repeat_interleave(16).reshape(16, 16))
_WITH_SUBNORMAL: Inputs = (
    lambda g: torch.full(SHAPE, _SUBNORMAL),
    lambda g: torch.randint(2, SHAPE, generator=g).float())


def _one_each_row(g: torch.Generator) -> torch.Tensor:
  """Rows of numbers; in each but the last two stands one special value."""
  values = torch.randn(8, 16, generator=g)
  places = torch.randint(16, (8,), generator=g)
  special = torch.tensor(
      [math.nan, math.inf, -math.inf, math.nan, math.inf, -math.inf])
  for row, (place, value) in enumerate(zip(places[:6], special)):
    values[row, place] = value
  return values


_special = functools.partial(each, prefix='special_')

# What IEEE 754 says of special values, and torch where it says nothing.
SPECIAL_VALUES = (
    # Of one.
    same_bits('special_copy', torch.clone, _every),
    *_special(same_bits, torch, 'neg abs isnan isinf isfinite nan_to_num',
              _every),
    *_special(approximated, torch, 'exp log', _every),
    *_special(rounded, torch, 'sqrt rsqrt reciprocal', _every),
    *_special(approximated, torch, 'tanh sigmoid', _every),
    *_special(exact, torch, 'relu round', _every),
    exact('special_clamp', lambda x: x.clamp(-1, 1), _every),
    exact('special_to_bfloat16', lambda x: x.to(torch.bfloat16), _every),
    # Of two.
    *_special(rounded, torch, 'add mul div', *_PAIRS),
    *_special(exact, torch, 'maximum minimum', *_PAIRS),
    *_special(same_bits, torch, 'lt ge eq ne', *_PAIRS),
    *_special(approximated, torch, 'atan2 pow', *_PAIRS),
    # Reduced.
    same_bits('special_amax', lambda x: x.amax(1), _one_each_row),
    same_bits('special_amin', lambda x: x.amin(1), _one_each_row),
    approximated('special_sum', lambda x: x.sum(1), _one_each_row),
    approximated('special_mean', lambda x: x.mean(0), _one_each_row),
    # Without inf, which torch_xla takes from itself; and no argmax, which
    # passes by NaN as torch_xla writes it.
    approximated('special_logsumexp',
                 lambda x: torch.where(x == math.inf, 9.0, x).logsumexp(1),
                 _one_each_row),
    same_bits('special_all_nan', lambda x: x.isnan().all(1), _one_each_row),
    same_bits('special_any_nan', lambda x: x.isnan().any(0), _one_each_row),
    approximated('special_softmax', lambda x: x.softmax(1), _one_each_row),
    approximated('special_cumsum', lambda x: x.cumsum(1), _one_each_row),
    # Subnormal.
    rounded('special_subnormal_add', torch.add, *_WITH_SUBNORMAL),
    rounded('special_subnormal_mul', torch.mul, *_WITH_SUBNORMAL),
)
