"""Functions of elements by themselves: of one, of several, and comparisons."""

from __future__ import annotations

import torch

from .inputs import (mask, NORMAL, normal, SHAPE, UNEVEN, uniform, WHOLE, whole,
                     WHOLE_UNEVEN, Inputs)
from .operation import (approximated, compound, each, exact, rounded, same_bits)
from ..comparison import dtype_name

_DTYPES = (torch.bfloat16, torch.float16, torch.float64)
_FRACTIONS = uniform(-5, 5, 8, 16)


def _halves(g: torch.Generator) -> torch.Tensor:
  """Halves of whole numbers: some are rounded to the even one of two."""
  return whole(8, 16, largest=9)(g) / 2


# Functions of torch by name, with the ends of their arguments.
_APPROXIMATED = ('exp -5 5', 'expm1 -2 2', 'log 0.1 50', 'log2 0.1 50',
                 'log10 0.1 50', 'log1p -0.5 5', 'logit 0.05 0.95',
                 'sin -10 10', 'cos -10 10', 'tan -1.2 1.2', 'asin -0.95 0.95',
                 'acos -0.95 0.95', 'atan -5 5', 'sinh -3 3', 'cosh -3 3',
                 'tanh -3 3', 'asinh -5 5', 'acosh 1.1 5', 'atanh -0.9 0.9',
                 'sigmoid -6 6', 'erf -3 3', 'erfc -2 2', 'erfinv -0.9 0.9')

# Each function in float32, and some in other dtypes and uneven shapes.
UNARY = (
    *(approximated(name, getattr(torch, name),
                   uniform(float(low), float(high), *SHAPE))
      for name, low, high in map(str.split, _APPROXIMATED)),
    *(approximated(f'{name}_{dtype_name(dtype)}', getattr(torch, name),
                   uniform(-end, end, *SHAPE, dtype=dtype))
      for name, end in (('exp', 5), ('tanh', 3))
      for dtype in _DTYPES),
    approximated('log_uneven', torch.log, uniform(0.1, 50, 7, 9)),
    approximated('exp_rank_1', torch.exp, uniform(-5, 5, 16)),
    approximated('exp_scalar', torch.exp, uniform(-5, 5)),
    rounded('sqrt', torch.sqrt, uniform(0, 50, 8, 16)),
    rounded('rsqrt', torch.rsqrt, uniform(0.1, 50, 8, 16)),
    rounded('reciprocal', torch.reciprocal, uniform(0.1, 10, 8, 16)),
    *(rounded(f'sqrt_{dtype_name(dtype)}', torch.sqrt,
              uniform(0, 50, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    *each(same_bits, torch, 'abs neg sign', _FRACTIONS),
    same_bits('square_of_whole', lambda x: torch.square(x.trunc()), _FRACTIONS),
    same_bits('clamp', lambda x: x.clamp(-2.5, 2.5), _FRACTIONS),
    same_bits('clamp_min', lambda x: x.clamp(min=0.5), _FRACTIONS),
    same_bits('nan_to_num', torch.nan_to_num, _FRACTIONS),
    *each(same_bits, torch, 'floor ceil trunc frac', _halves),
    same_bits('round_half_to_even', torch.round, _halves),
)


def _pair(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return (whole(*shape, largest=9, dtype=dtype),) * 2


def _normal_pair(dtype: torch.dtype = torch.float32) -> Inputs:
  return (normal(*SHAPE, dtype=dtype),) * 2


def _quotient(dtype: torch.dtype = torch.float32) -> Inputs:
  return normal(*SHAPE, dtype=dtype), uniform(0.5, 8, *SHAPE, dtype=dtype)


def _dividend(g: torch.Generator) -> torch.Tensor:
  return whole(*SHAPE, largest=9)(g) + 0.5


def _divisor(g: torch.Generator) -> torch.Tensor:
  """Divisors of both signs; no quotient is close to a whole number."""
  sign = torch.where(mask(*SHAPE)(g), 1.0, -1.0)
  return sign * 23 / 16 * 2**whole(*SHAPE, largest=1)(g)


# Operations on equal and broadcast shapes, scalars and other dtypes.
ARITHMETIC = (
    # Of whole numbers.
    exact('add', torch.add, *_pair(*SHAPE)),
    exact('add_large', torch.add, *_pair(131, 517)),
    *each(exact, torch, 'sub mul', *_pair(*SHAPE)),
    exact('add_alpha', lambda a, b: torch.add(a, b, alpha=3), *_pair(*SHAPE)),
    exact('addcmul', lambda a, b, c: torch.addcmul(a, b, c, value=2),
          *_pair(*SHAPE), whole(*SHAPE, largest=9)),
    *each(exact, torch, 'maximum minimum', *_pair(*SHAPE)),
    exact('floor_divide', torch.floor_divide, _dividend, _divisor),
    exact('divide_trunc', lambda a, b: torch.div(a, b, rounding_mode='trunc'),
          _dividend, _divisor),
    *each(rounded, torch, 'remainder fmod', _dividend, _divisor),
    exact('add_uneven', torch.add, *_pair(*UNEVEN)),
    exact('add_rank_1', torch.add, *_pair(16)),
    exact('add_rank_4', torch.add, *_pair(8, 8, 3, 2)),
    *(exact(f'{name}_{dtype_name(dtype)}', getattr(torch, name),
            *_pair(*SHAPE, dtype=dtype))
      for name in ('add', 'mul')
      for dtype in _DTYPES),
    # Of fractions.
    rounded('add_rounds', torch.add, *_normal_pair()),
    rounded('mul_rounds', torch.mul, *_normal_pair()),
    rounded('mul_rounds_bfloat16', torch.mul, *_normal_pair(torch.bfloat16)),
    rounded('div', torch.div, *_quotient()),
    *(rounded(f'div_{dtype_name(dtype)}', torch.div, *_quotient(dtype))
      for dtype in _DTYPES),
    compound('addcdiv', lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
             NORMAL, *_quotient()),
    compound('lerp', torch.lerp, *_normal_pair(), uniform(0, 1, *SHAPE)),
    approximated('atan2', torch.atan2, *_normal_pair()),
    # Broadcast.
    exact('add_row', torch.add, WHOLE, whole(16)),
    exact('add_column', torch.add, WHOLE, whole(8, 1)),
    exact('mul_outer', torch.mul, whole(8, 1), whole(1, 16)),
    exact('mul_scalar_tensor', torch.mul, WHOLE, whole()),
    exact('add_ranks', torch.add, whole(8, 8, 4), whole(8, 1)),
    exact('add_number', lambda a: 3 - a, WHOLE),
    exact('add_float32_bfloat16', torch.add, WHOLE,
          whole(*SHAPE, dtype=torch.bfloat16)),
    exact('mul_float32_int32', torch.mul, WHOLE,
          whole(*SHAPE, dtype=torch.int32)),
    # Powers.
    approximated('pow', torch.pow, uniform(0.5, 3, *SHAPE),
                 uniform(-3, 3, *SHAPE)),
    approximated('pow_square', lambda a: a**2, WHOLE),
    approximated('pow_cube_of_negative', lambda a: a**3, WHOLE),
    approximated('pow_of_number', lambda a: 2.0**a, WHOLE),
    approximated('pow_half', lambda a: a**0.5, uniform(0.5, 9, *SHAPE)),
)

_MASK = mask(*SHAPE)
_MASKS: Inputs = (_MASK, _MASK)
_INTS: Inputs = (whole(*SHAPE, largest=2**30, dtype=torch.int32),) * 2


def _small_pair(dtype: torch.dtype = torch.float32) -> Inputs:
  return (whole(*SHAPE, largest=3, dtype=dtype),) * 2


# Operations on floats, ints and bools; none of them rounds.
LOGIC = (
    *each(same_bits, torch, 'eq ne lt le gt ge', *_small_pair()),
    *(same_bits(f'lt_{dtype_name(dtype)}', torch.lt, *_small_pair(dtype))
      for dtype in (torch.bfloat16, torch.int32, torch.int64)),
    same_bits('eq_bool', torch.eq, *_MASKS),
    same_bits('gt_number', lambda a, b: (a > 1) == (b > -1), *_small_pair()),
    same_bits('lt_uneven', torch.lt, WHOLE_UNEVEN, WHOLE_UNEVEN),
    *each(same_bits, torch, 'logical_and logical_or logical_xor', *_MASKS),
    same_bits('logical_not', lambda a, b: torch.logical_not(a), *_MASKS),
    same_bits('logical_and_float32', torch.logical_and, *_small_pair()),
    *each(same_bits, torch, 'bitwise_and bitwise_or bitwise_xor', *_INTS),
    same_bits('bitwise_not', lambda a, b: torch.bitwise_not(a), *_INTS),
    same_bits('bitwise_not_bool', lambda a, b: ~a & b, *_MASKS),
    same_bits('where', torch.where, _MASK, NORMAL, NORMAL),
    same_bits('where_row', torch.where, mask(16), NORMAL, NORMAL),
    same_bits('where_number', lambda mask, a: torch.where(mask, a, -1.0), _MASK,
              NORMAL),
    same_bits('where_bool', torch.where, _MASK, *_MASKS),
)
