"""Functions of two or more floats: arithmetic, broadcast and mixed."""

from __future__ import annotations

import torch

from . import dtypes
from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import APPROXIMATED, COMPOUND, EXACT, ROUNDED
from .tolerance import Tolerance

_FAMILY = 'arithmetic'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_DTYPES = (torch.bfloat16, torch.float16, torch.float64)


def operations() -> tuple[Operation, ...]:
  """Operations on equal and broadcast shapes, scalars and other dtypes."""
  return (*_of_whole_numbers(), *_of_fractions(), *_broadcast(), *_powers())


def _operation(name: str, make: Inputs, call: Call,
               tolerance: Tolerance) -> Operation:
  return Operation(name, _FAMILY, make, call, tolerance)


def _whole_pair(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.whole(g, *shape, largest=9, dtype=dtype),
                    inputs.whole(g, *shape, largest=9, dtype=dtype))


def _normal_pair(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.normal(g, *shape, dtype=dtype),
                    inputs.normal(g, *shape, dtype=dtype))


def _quotient(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.normal(g, *shape, dtype=dtype),
                    inputs.between(g, 0.5, 8, *shape, dtype=dtype))


def _of_whole_numbers() -> tuple[Operation, ...]:
  return (
      _operation('add', _whole_pair(*_SHAPE), torch.add, EXACT),
      _operation('add_large', _whole_pair(131, 517), torch.add, EXACT),
      _operation('sub', _whole_pair(*_SHAPE), torch.sub, EXACT),
      _operation('mul', _whole_pair(*_SHAPE), torch.mul, EXACT),
      _operation('add_alpha', _whole_pair(*_SHAPE),
                 lambda a, b: torch.add(a, b, alpha=3), EXACT),
      _operation('addcmul', _three_whole,
                 lambda a, b, c: torch.addcmul(a, b, c, value=2), EXACT),
      _operation('maximum', _whole_pair(*_SHAPE), torch.maximum, EXACT),
      _operation('minimum', _whole_pair(*_SHAPE), torch.minimum, EXACT),
      _operation('floor_divide', _dividend_and_divisor, torch.floor_divide,
                 EXACT),
      _operation('divide_trunc', _dividend_and_divisor,
                 lambda a, b: torch.div(a, b, rounding_mode='trunc'), EXACT),
      _operation('remainder', _dividend_and_divisor, torch.remainder, ROUNDED),
      _operation('fmod', _dividend_and_divisor, torch.fmod, ROUNDED),
      _operation('add_uneven', _whole_pair(*_UNEVEN), torch.add, EXACT),
      _operation('add_rank_1', _whole_pair(16), torch.add, EXACT),
      _operation('add_rank_4', _whole_pair(8, 8, 3, 2), torch.add, EXACT),
      *(_operation(f'add_{dtypes.name(dtype)}', _whole_pair(
          *_SHAPE, dtype=dtype), torch.add, EXACT) for dtype in _DTYPES),
      *(_operation(f'mul_{dtypes.name(dtype)}', _whole_pair(
          *_SHAPE, dtype=dtype), torch.mul, EXACT) for dtype in _DTYPES),
  )


def _dividend_and_divisor(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  """Pairs of both signs; no quotient is close to a whole number."""
  sign = torch.where(inputs.mask(g, *_SHAPE), 1.0, -1.0)
  return (inputs.whole(g, *_SHAPE, largest=9) + 0.5,
          sign * 23 / 16 * 2**inputs.whole(g, *_SHAPE, largest=1))


def _three_whole(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  return tuple(inputs.whole(g, *_SHAPE, largest=9) for _ in range(3))


def _of_fractions() -> tuple[Operation, ...]:
  weights = lambda g: (*_normal_pair(*_SHAPE)
                       (g), inputs.between(g, 0, 1, *_SHAPE))
  return (
      _operation('add_rounds', _normal_pair(*_SHAPE), torch.add, ROUNDED),
      _operation('mul_rounds', _normal_pair(*_SHAPE), torch.mul, ROUNDED),
      _operation('mul_rounds_bfloat16',
                 _normal_pair(*_SHAPE, dtype=torch.bfloat16), torch.mul,
                 ROUNDED),
      _operation('div', _quotient(*_SHAPE), torch.div, ROUNDED),
      *(_operation(f'div_{dtypes.name(dtype)}', _quotient(*_SHAPE, dtype=dtype),
                   torch.div, ROUNDED) for dtype in _DTYPES),
      _operation('addcdiv', lambda g:
                 (inputs.normal(g, *_SHAPE), *_quotient(*_SHAPE)(g)),
                 lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), COMPOUND),
      _operation('lerp', weights, torch.lerp, COMPOUND),
      _operation('atan2', _normal_pair(*_SHAPE), torch.atan2, APPROXIMATED),
  )


def _broadcast() -> tuple[Operation, ...]:
  row = lambda g: (inputs.whole(g, *_SHAPE), inputs.whole(g, 16))
  column = lambda g: (inputs.whole(g, *_SHAPE), inputs.whole(g, 8, 1))
  outer = lambda g: (inputs.whole(g, 8, 1), inputs.whole(g, 1, 16))
  scalar = lambda g: (inputs.whole(g, *_SHAPE), inputs.whole(g))
  ranks = lambda g: (inputs.whole(g, 8, 8, 4), inputs.whole(g, 8, 1))
  mixed = lambda g: (inputs.whole(g, *_SHAPE),
                     inputs.whole(g, *_SHAPE, dtype=torch.bfloat16))
  with_int = lambda g: (inputs.whole(g, *_SHAPE),
                        inputs.whole(g, *_SHAPE, dtype=torch.int32))
  return (
      _operation('add_row', row, torch.add, EXACT),
      _operation('add_column', column, torch.add, EXACT),
      _operation('mul_outer', outer, torch.mul, EXACT),
      _operation('mul_scalar_tensor', scalar, torch.mul, EXACT),
      _operation('add_ranks', ranks, torch.add, EXACT),
      _operation('add_number', lambda g: (inputs.whole(g, *_SHAPE),),
                 lambda a: 3 - a, EXACT),
      _operation('add_float32_bfloat16', mixed, torch.add, EXACT),
      _operation('mul_float32_int32', with_int, torch.mul, EXACT),
  )


def _powers() -> tuple[Operation, ...]:
  positive = lambda g: (inputs.between(g, 0.5, 3, *_SHAPE),
                        inputs.between(g, -3, 3, *_SHAPE))
  whole = lambda g: (inputs.whole(g, *_SHAPE),)
  return (
      _operation('pow', positive, torch.pow, APPROXIMATED),
      _operation('pow_square', whole, lambda a: a**2, APPROXIMATED),
      _operation('pow_cube_of_negative', whole, lambda a: a**3, APPROXIMATED),
      _operation('pow_of_number', whole, lambda a: 2.0**a, APPROXIMATED),
      _operation('pow_half', lambda g: (inputs.between(g, 0.5, 9, *_SHAPE),),
                 lambda a: a**0.5, APPROXIMATED),
  )
