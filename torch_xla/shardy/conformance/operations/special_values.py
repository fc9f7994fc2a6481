"""NaN, infinities, signed zeros and numbers too small to be normal."""

from __future__ import annotations

import math

import torch

from .operation import Call, Inputs, Operation
from .tolerance import APPROXIMATED, EXACT, ROUNDED, SAME_BITS, Tolerance

_FAMILY = 'special_values'
_SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.5, -2.5,
            3e38, -3e38, 1.5e-38, 0.5, -0.5, 100.0, -100.0)
# Below the smallest normal float32, 1.18e-38: a device may flush it to zero.
_SUBNORMAL = 1e-40


def operations() -> tuple[Operation, ...]:
  """What IEEE 754 says of special values, and torch where it says nothing."""
  return (*_of_one(), *_of_two(), *_reduced(), *_subnormal())


def _every(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  """A row of special values for each of eight rows, in any order."""
  rows = [torch.randperm(len(_SPECIAL), generator=g) for _ in range(8)]
  return (torch.tensor(_SPECIAL)[torch.stack(rows)],)


def _pairs(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  """Every special value with every other."""
  values = torch.tensor(_SPECIAL)
  return (values.repeat(len(_SPECIAL)).reshape(16, 16),
          values.repeat_interleave(len(_SPECIAL)).reshape(16, 16))


def _operation(name: str, make: Inputs, call: Call,
               tolerance: Tolerance) -> Operation:
  return Operation(f'special_{name}', _FAMILY, make, call, tolerance)


def _of_one() -> tuple[Operation, ...]:
  return (
      _operation('copy', _every, torch.clone, SAME_BITS),
      _operation('neg', _every, torch.neg, SAME_BITS),
      _operation('abs', _every, torch.abs, SAME_BITS),
      _operation('isnan', _every, torch.isnan, SAME_BITS),
      _operation('isinf', _every, torch.isinf, SAME_BITS),
      _operation('isfinite', _every, torch.isfinite, SAME_BITS),
      _operation('nan_to_num', _every, torch.nan_to_num, SAME_BITS),
      _operation('exp', _every, torch.exp, APPROXIMATED),
      _operation('log', _every, torch.log, APPROXIMATED),
      _operation('sqrt', _every, torch.sqrt, ROUNDED),
      _operation('rsqrt', _every, torch.rsqrt, ROUNDED),
      _operation('reciprocal', _every, torch.reciprocal, ROUNDED),
      _operation('tanh', _every, torch.tanh, APPROXIMATED),
      _operation('sigmoid', _every, torch.sigmoid, APPROXIMATED),
      _operation('relu', _every, torch.relu, EXACT),
      _operation('round', _every, torch.round, EXACT),
      _operation('clamp', _every, lambda x: x.clamp(-1, 1), EXACT),
      _operation('to_bfloat16', _every, lambda x: x.to(torch.bfloat16), EXACT),
  )


def _of_two() -> tuple[Operation, ...]:
  return (
      _operation('add', _pairs, torch.add, ROUNDED),
      _operation('mul', _pairs, torch.mul, ROUNDED),
      _operation('div', _pairs, torch.div, ROUNDED),
      _operation('maximum', _pairs, torch.maximum, EXACT),
      _operation('minimum', _pairs, torch.minimum, EXACT),
      _operation('lt', _pairs, torch.lt, SAME_BITS),
      _operation('ge', _pairs, torch.ge, SAME_BITS),
      _operation('eq', _pairs, torch.eq, SAME_BITS),
      _operation('ne', _pairs, torch.ne, SAME_BITS),
      _operation('atan2', _pairs, torch.atan2, APPROXIMATED),
      _operation('pow', _pairs, torch.pow, APPROXIMATED),
  )


def _one_special_each_row(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  """Rows of numbers; in each but the last two stands one special value."""
  values = torch.randn(8, 16, generator=g)
  places = torch.randint(16, (8,), generator=g)
  special = torch.tensor(
      [math.nan, math.inf, -math.inf, math.nan, math.inf, -math.inf])
  for row, (place, value) in enumerate(zip(places[:6], special)):
    values[row, place] = value
  return (values,)


def _reduced() -> tuple[Operation, ...]:
  rows = _one_special_each_row
  return (
      _operation('amax', rows, lambda x: x.amax(1), SAME_BITS),
      _operation('amin', rows, lambda x: x.amin(1), SAME_BITS),
      _operation('sum', rows, lambda x: x.sum(1), APPROXIMATED),
      _operation('mean', rows, lambda x: x.mean(0), APPROXIMATED),
      # Without inf, which torch_xla takes from itself; and no argmax, which
      # passes by NaN as torch_xla writes it.
      _operation('logsumexp', rows,
                 lambda x: torch.where(x == math.inf, 9.0, x).logsumexp(1),
                 APPROXIMATED),
      _operation('all_nan', rows, lambda x: x.isnan().all(1), SAME_BITS),
      _operation('any_nan', rows, lambda x: x.isnan().any(0), SAME_BITS),
      _operation('softmax', rows, lambda x: x.softmax(1), APPROXIMATED),
      _operation('cumsum', rows, lambda x: x.cumsum(1), APPROXIMATED),
  )


def _subnormal() -> tuple[Operation, ...]:
  make = lambda g: (torch.full(
      (8, 16), _SUBNORMAL), torch.randint(2, (8, 16), generator=g).float())
  return (
      _operation('subnormal_add', make, torch.add, ROUNDED),
      _operation('subnormal_mul', make, torch.mul, ROUNDED),
  )
