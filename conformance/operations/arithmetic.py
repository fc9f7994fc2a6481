"""Functions of two or more floats: arithmetic, broadcast and mixed."""

from __future__ import annotations

import functools

import torch

from . import dtypes
from .inputs import uniform, mask, normal, whole, Inputs
from .operation import operation, Operation
from .tolerance import APPROXIMATED, COMPOUND, EXACT, ROUNDED

_approximated = functools.partial(operation, 'arithmetic', APPROXIMATED)
_compound = functools.partial(operation, 'arithmetic', COMPOUND)
_exact = functools.partial(operation, 'arithmetic', EXACT)
_rounded = functools.partial(operation, 'arithmetic', ROUNDED)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_DTYPES = (torch.bfloat16, torch.float16, torch.float64)
_MATRIX = whole(*_SHAPE)


def _whole_pair(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return (whole(*shape, largest=9, dtype=dtype),) * 2


def _normal_pair(dtype: torch.dtype = torch.float32) -> Inputs:
  return (normal(*_SHAPE, dtype=dtype),) * 2


def _quotient(dtype: torch.dtype = torch.float32) -> Inputs:
  return normal(*_SHAPE, dtype=dtype), uniform(0.5, 8, *_SHAPE, dtype=dtype)


def _dividend(g: torch.Generator) -> torch.Tensor:
  return whole(*_SHAPE, largest=9)(g) + 0.5


def _divisor(g: torch.Generator) -> torch.Tensor:
  """Divisors of both signs; no quotient is close to a whole number."""
  sign = torch.where(mask(*_SHAPE)(g), 1.0, -1.0)
  return sign * 23 / 16 * 2**whole(*_SHAPE, largest=1)(g)


# Operations on equal and broadcast shapes, scalars and other dtypes.
OPERATIONS: tuple[Operation, ...] = (
    # Of whole numbers.
    _exact('add', torch.add, *_whole_pair(*_SHAPE)),
    _exact('add_large', torch.add, *_whole_pair(131, 517)),
    _exact('sub', torch.sub, *_whole_pair(*_SHAPE)),
    _exact('mul', torch.mul, *_whole_pair(*_SHAPE)),
    _exact('add_alpha', lambda a, b: torch.add(a, b, alpha=3),
           *_whole_pair(*_SHAPE)),
    _exact('addcmul', lambda a, b, c: torch.addcmul(a, b, c, value=2),
           *_whole_pair(*_SHAPE), whole(*_SHAPE, largest=9)),
    _exact('maximum', torch.maximum, *_whole_pair(*_SHAPE)),
    _exact('minimum', torch.minimum, *_whole_pair(*_SHAPE)),
    _exact('floor_divide', torch.floor_divide, _dividend, _divisor),
    _exact('divide_trunc', lambda a, b: torch.div(a, b, rounding_mode='trunc'),
           _dividend, _divisor),
    _rounded('remainder', torch.remainder, _dividend, _divisor),
    _rounded('fmod', torch.fmod, _dividend, _divisor),
    _exact('add_uneven', torch.add, *_whole_pair(*_UNEVEN)),
    _exact('add_rank_1', torch.add, *_whole_pair(16)),
    _exact('add_rank_4', torch.add, *_whole_pair(8, 8, 3, 2)),
    *(_exact(f'add_{dtypes.name(dtype)}', torch.add,
             *_whole_pair(*_SHAPE, dtype=dtype)) for dtype in _DTYPES),
    *(_exact(f'mul_{dtypes.name(dtype)}', torch.mul,
             *_whole_pair(*_SHAPE, dtype=dtype)) for dtype in _DTYPES),
    # Of fractions.
    _rounded('add_rounds', torch.add, *_normal_pair()),
    _rounded('mul_rounds', torch.mul, *_normal_pair()),
    _rounded('mul_rounds_bfloat16', torch.mul, *_normal_pair(torch.bfloat16)),
    _rounded('div', torch.div, *_quotient()),
    *(_rounded(f'div_{dtypes.name(dtype)}', torch.div, *_quotient(dtype))
      for dtype in _DTYPES),
    _compound('addcdiv', lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
              normal(*_SHAPE), *_quotient()),
    _compound('lerp', torch.lerp, *_normal_pair(), uniform(0, 1, *_SHAPE)),
    _approximated('atan2', torch.atan2, *_normal_pair()),
    # Broadcast.
    _exact('add_row', torch.add, _MATRIX, whole(16)),
    _exact('add_column', torch.add, _MATRIX, whole(8, 1)),
    _exact('mul_outer', torch.mul, whole(8, 1), whole(1, 16)),
    _exact('mul_scalar_tensor', torch.mul, _MATRIX, whole()),
    _exact('add_ranks', torch.add, whole(8, 8, 4), whole(8, 1)),
    _exact('add_number', lambda a: 3 - a, _MATRIX),
    _exact('add_float32_bfloat16', torch.add, _MATRIX,
           whole(*_SHAPE, dtype=torch.bfloat16)),
    _exact('mul_float32_int32', torch.mul, _MATRIX,
           whole(*_SHAPE, dtype=torch.int32)),
    # Powers.
    _approximated('pow', torch.pow, uniform(0.5, 3, *_SHAPE),
                  uniform(-3, 3, *_SHAPE)),
    _approximated('pow_square', lambda a: a**2, _MATRIX),
    _approximated('pow_cube_of_negative', lambda a: a**3, _MATRIX),
    _approximated('pow_of_number', lambda a: 2.0**a, _MATRIX),
    _approximated('pow_half', lambda a: a**0.5, uniform(0.5, 9, *_SHAPE)),
)
