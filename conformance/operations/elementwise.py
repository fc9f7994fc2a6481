"""Functions of elements by themselves: of one, of several, and comparisons."""

from __future__ import annotations

import torch

from .inputs import (mask, NORMAL, normal, SHAPE, UNEVEN, uniform, WHOLE, whole,
                     WHOLE_UNEVEN, Inputs)
from .operation import approximated, compound, exact, rounded, same_bits
from .tolerance import dtype_name

_DTYPES = (torch.bfloat16, torch.float16, torch.float64)
_FRACTIONS = uniform(-5, 5, 8, 16)


def _halves(g: torch.Generator) -> torch.Tensor:
  """Halves of whole numbers: some are rounded to the even one of two."""
  return whole(8, 16, largest=9)(g) / 2


# Each function in float32, and some in other dtypes and uneven shapes.
UNARY = (
    approximated('exp', torch.exp, uniform(-5, 5, 8, 16)),
    approximated('expm1', torch.expm1, uniform(-2, 2, 8, 16)),
    approximated('log', torch.log, uniform(0.1, 50, 8, 16)),
    approximated('log2', torch.log2, uniform(0.1, 50, 8, 16)),
    approximated('log10', torch.log10, uniform(0.1, 50, 8, 16)),
    approximated('log1p', torch.log1p, uniform(-0.5, 5, 8, 16)),
    approximated('logit', torch.logit, uniform(0.05, 0.95, 8, 16)),
    approximated('sin', torch.sin, uniform(-10, 10, 8, 16)),
    approximated('cos', torch.cos, uniform(-10, 10, 8, 16)),
    approximated('tan', torch.tan, uniform(-1.2, 1.2, 8, 16)),
    approximated('asin', torch.asin, uniform(-0.95, 0.95, 8, 16)),
    approximated('acos', torch.acos, uniform(-0.95, 0.95, 8, 16)),
    approximated('atan', torch.atan, uniform(-5, 5, 8, 16)),
    approximated('sinh', torch.sinh, uniform(-3, 3, 8, 16)),
    approximated('cosh', torch.cosh, uniform(-3, 3, 8, 16)),
    approximated('tanh', torch.tanh, uniform(-3, 3, 8, 16)),
    approximated('asinh', torch.asinh, uniform(-5, 5, 8, 16)),
    approximated('acosh', torch.acosh, uniform(1.1, 5, 8, 16)),
    approximated('atanh', torch.atanh, uniform(-0.9, 0.9, 8, 16)),
    approximated('sigmoid', torch.sigmoid, uniform(-6, 6, 8, 16)),
    approximated('erf', torch.erf, uniform(-3, 3, 8, 16)),
    approximated('erfc', torch.erfc, uniform(-2, 2, 8, 16)),
    approximated('erfinv', torch.erfinv, uniform(-0.9, 0.9, 8, 16)),
    *(approximated(f'exp_{dtype_name(dtype)}', torch.exp,
                   uniform(-5, 5, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    *(approximated(f'tanh_{dtype_name(dtype)}', torch.tanh,
                   uniform(-3, 3, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    approximated('log_uneven', torch.log, uniform(0.1, 50, 7, 9)),
    approximated('exp_rank_1', torch.exp, uniform(-5, 5, 16)),
    approximated('exp_scalar', torch.exp, uniform(-5, 5)),
    rounded('sqrt', torch.sqrt, uniform(0, 50, 8, 16)),
    rounded('rsqrt', torch.rsqrt, uniform(0.1, 50, 8, 16)),
    rounded('reciprocal', torch.reciprocal, uniform(0.1, 10, 8, 16)),
    *(rounded(f'sqrt_{dtype_name(dtype)}', torch.sqrt,
              uniform(0, 50, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    same_bits('abs', torch.abs, _FRACTIONS),
    same_bits('neg', torch.neg, _FRACTIONS),
    same_bits('sign', torch.sign, _FRACTIONS),
    same_bits('square_of_whole', lambda x: torch.square(x.trunc()), _FRACTIONS),
    same_bits('clamp', lambda x: x.clamp(-2.5, 2.5), _FRACTIONS),
    same_bits('clamp_min', lambda x: x.clamp(min=0.5), _FRACTIONS),
    same_bits('nan_to_num', torch.nan_to_num, _FRACTIONS),
    same_bits('floor', torch.floor, _halves),
    same_bits('ceil', torch.ceil, _halves),
    same_bits('trunc', torch.trunc, _halves),
    same_bits('frac', torch.frac, _halves),
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
    exact('sub', torch.sub, *_pair(*SHAPE)),
    exact('mul', torch.mul, *_pair(*SHAPE)),
    exact('add_alpha', lambda a, b: torch.add(a, b, alpha=3), *_pair(*SHAPE)),
    exact('addcmul', lambda a, b, c: torch.addcmul(a, b, c, value=2),
          *_pair(*SHAPE), whole(*SHAPE, largest=9)),
    exact('maximum', torch.maximum, *_pair(*SHAPE)),
    exact('minimum', torch.minimum, *_pair(*SHAPE)),
    exact('floor_divide', torch.floor_divide, _dividend, _divisor),
    exact('divide_trunc', lambda a, b: torch.div(a, b, rounding_mode='trunc'),
          _dividend, _divisor),
    rounded('remainder', torch.remainder, _dividend, _divisor),
    rounded('fmod', torch.fmod, _dividend, _divisor),
    exact('add_uneven', torch.add, *_pair(*UNEVEN)),
    exact('add_rank_1', torch.add, *_pair(16)),
    exact('add_rank_4', torch.add, *_pair(8, 8, 3, 2)),
    *(exact(f'add_{dtype_name(dtype)}', torch.add, *_pair(*SHAPE, dtype=dtype))
      for dtype in _DTYPES),
    *(exact(f'mul_{dtype_name(dtype)}', torch.mul, *_pair(*SHAPE, dtype=dtype))
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

_COMPARISONS = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
_LOGICAL = (torch.logical_and, torch.logical_or, torch.logical_xor)
_BITWISE = (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor)
_MASK = mask(*SHAPE)
_MASKS: Inputs = (_MASK, _MASK)
_INTS: Inputs = (whole(*SHAPE, largest=2**30, dtype=torch.int32),) * 2


def _small_pair(dtype: torch.dtype = torch.float32) -> Inputs:
  return (whole(*SHAPE, largest=3, dtype=dtype),) * 2


# Operations on floats, ints and bools; none of them rounds.
LOGIC = (
    *(same_bits(function.__name__, function, *_small_pair())
      for function in _COMPARISONS),
    *(same_bits(f'lt_{dtype_name(dtype)}', torch.lt, *_small_pair(dtype))
      for dtype in (torch.bfloat16, torch.int32, torch.int64)),
    same_bits('eq_bool', torch.eq, *_MASKS),
    same_bits('gt_number', lambda a, b: (a > 1) == (b > -1), *_small_pair()),
    same_bits('lt_uneven', torch.lt, WHOLE_UNEVEN, WHOLE_UNEVEN),
    *(same_bits(function.__name__, function, *_MASKS) for function in _LOGICAL),
    same_bits('logical_not', lambda a, b: torch.logical_not(a), *_MASKS),
    same_bits('logical_and_float32', torch.logical_and, *_small_pair()),
    *(same_bits(function.__name__, function, *_INTS) for function in _BITWISE),
    same_bits('bitwise_not', lambda a, b: torch.bitwise_not(a), *_INTS),
    same_bits('bitwise_not_bool', lambda a, b: ~a & b, *_MASKS),
    same_bits('where', torch.where, _MASK, NORMAL, NORMAL),
    same_bits('where_row', torch.where, mask(16), NORMAL, NORMAL),
    same_bits('where_number', lambda mask, a: torch.where(mask, a, -1.0), _MASK,
              NORMAL),
    same_bits('where_bool', torch.where, _MASK, *_MASKS),
)
