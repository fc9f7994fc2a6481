"""NaN, infinities, signed zeros and numbers too small to be normal."""

from __future__ import annotations

import functools
import math

import torch

from .inputs import Inputs, Make
from .operation import Call, operation, Operation
from .tolerance import APPROXIMATED, EXACT, ROUNDED, SAME_BITS, Tolerance

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
_WITH_SUBNORMAL: Inputs = (lambda g: torch.full(
    (8, 16), _SUBNORMAL), lambda g: torch.randint(2,
                                                  (8, 16), generator=g).float())


def _one_each_row(g: torch.Generator) -> torch.Tensor:
  """Rows of numbers; in each but the last two stands one special value."""
  values = torch.randn(8, 16, generator=g)
  places = torch.randint(16, (8,), generator=g)
  special = torch.tensor(
      [math.nan, math.inf, -math.inf, math.nan, math.inf, -math.inf])
  for row, (place, value) in enumerate(zip(places[:6], special)):
    values[row, place] = value
  return values


def _operation(tolerance: Tolerance, name: str, call: Call, *inputs:
               Make) -> Operation:
  return operation('special_values', tolerance, f'special_{name}', call,
                   *inputs)


_approximated = functools.partial(_operation, APPROXIMATED)
_exact = functools.partial(_operation, EXACT)
_rounded = functools.partial(_operation, ROUNDED)
_same_bits = functools.partial(_operation, SAME_BITS)

# What IEEE 754 says of special values, and torch where it says nothing.
OPERATIONS: tuple[Operation, ...] = (
    # Of one.
    _same_bits('copy', torch.clone, _every),
    _same_bits('neg', torch.neg, _every),
    _same_bits('abs', torch.abs, _every),
    _same_bits('isnan', torch.isnan, _every),
    _same_bits('isinf', torch.isinf, _every),
    _same_bits('isfinite', torch.isfinite, _every),
    _same_bits('nan_to_num', torch.nan_to_num, _every),
    _approximated('exp', torch.exp, _every),
    _approximated('log', torch.log, _every),
    _rounded('sqrt', torch.sqrt, _every),
    _rounded('rsqrt', torch.rsqrt, _every),
    _rounded('reciprocal', torch.reciprocal, _every),
    _approximated('tanh', torch.tanh, _every),
    _approximated('sigmoid', torch.sigmoid, _every),
    _exact('relu', torch.relu, _every),
    _exact('round', torch.round, _every),
    _exact('clamp', lambda x: x.clamp(-1, 1), _every),
    _exact('to_bfloat16', lambda x: x.to(torch.bfloat16), _every),
    # Of two.
    _rounded('add', torch.add, *_PAIRS),
    _rounded('mul', torch.mul, *_PAIRS),
    _rounded('div', torch.div, *_PAIRS),
    _exact('maximum', torch.maximum, *_PAIRS),
    _exact('minimum', torch.minimum, *_PAIRS),
    _same_bits('lt', torch.lt, *_PAIRS),
    _same_bits('ge', torch.ge, *_PAIRS),
    _same_bits('eq', torch.eq, *_PAIRS),
    _same_bits('ne', torch.ne, *_PAIRS),
    _approximated('atan2', torch.atan2, *_PAIRS),
    _approximated('pow', torch.pow, *_PAIRS),
    # Reduced.
    _same_bits('amax', lambda x: x.amax(1), _one_each_row),
    _same_bits('amin', lambda x: x.amin(1), _one_each_row),
    _approximated('sum', lambda x: x.sum(1), _one_each_row),
    _approximated('mean', lambda x: x.mean(0), _one_each_row),
    # Without inf, which torch_xla takes from itself; and no argmax, which
    # passes by NaN as torch_xla writes it.
    _approximated('logsumexp',
                  lambda x: torch.where(x == math.inf, 9.0, x).logsumexp(1),
                  _one_each_row),
    _same_bits('all_nan', lambda x: x.isnan().all(1), _one_each_row),
    _same_bits('any_nan', lambda x: x.isnan().any(0), _one_each_row),
    _approximated('softmax', lambda x: x.softmax(1), _one_each_row),
    _approximated('cumsum', lambda x: x.cumsum(1), _one_each_row),
    # Subnormal.
    _rounded('subnormal_add', torch.add, *_WITH_SUBNORMAL),
    _rounded('subnormal_mul', torch.mul, *_WITH_SUBNORMAL),
)
