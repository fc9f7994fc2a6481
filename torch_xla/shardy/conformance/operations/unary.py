"""Functions of each element by itself."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import dtypes
from . import inputs
from .operation import Operation
from .tolerance import APPROXIMATED, ROUNDED, SAME_BITS, Tolerance

_FAMILY = 'unary'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_Function = Callable[[torch.Tensor], torch.Tensor]

# Name, function, and the numbers that it is asked for.
_APPROXIMATED: tuple[tuple[str, _Function, float, float], ...] = (
    ('exp', torch.exp, -5, 5),
    ('expm1', torch.expm1, -2, 2),
    ('log', torch.log, 0.1, 50),
    ('log2', torch.log2, 0.1, 50),
    ('log10', torch.log10, 0.1, 50),
    ('log1p', torch.log1p, -0.5, 5),
    ('logit', torch.logit, 0.05, 0.95),
    ('sin', torch.sin, -10, 10),
    ('cos', torch.cos, -10, 10),
    ('tan', torch.tan, -1.2, 1.2),
    ('asin', torch.asin, -0.95, 0.95),
    ('acos', torch.acos, -0.95, 0.95),
    ('atan', torch.atan, -5, 5),
    ('sinh', torch.sinh, -3, 3),
    ('cosh', torch.cosh, -3, 3),
    ('tanh', torch.tanh, -3, 3),
    ('asinh', torch.asinh, -5, 5),
    ('acosh', torch.acosh, 1.1, 5),
    ('atanh', torch.atanh, -0.9, 0.9),
    ('sigmoid', torch.sigmoid, -6, 6),
    ('erf', torch.erf, -3, 3),
    ('erfc', torch.erfc, -2, 2),
    ('erfinv', torch.erfinv, -0.9, 0.9),
)
_ROUNDED: tuple[tuple[str, _Function, float, float], ...] = (
    ('sqrt', torch.sqrt, 0, 50),
    ('rsqrt', torch.rsqrt, 0.1, 50),
    ('reciprocal', torch.reciprocal, 0.1, 10),
)
_SAME_BITS: tuple[tuple[str, _Function], ...] = (
    ('abs', torch.abs),
    ('neg', torch.neg),
    ('sign', torch.sign),
    ('square_of_whole', lambda x: torch.square(x.trunc())),
    ('clamp', lambda x: x.clamp(-2.5, 2.5)),
    ('clamp_min', lambda x: x.clamp(min=0.5)),
    ('nan_to_num', torch.nan_to_num),
)
_WHOLE: tuple[tuple[str, _Function], ...] = (
    ('floor', torch.floor),
    ('ceil', torch.ceil),
    ('trunc', torch.trunc),
    ('frac', torch.frac),
    ('round_half_to_even', torch.round),
)
_DTYPES = (torch.bfloat16, torch.float16, torch.float64)


def operations() -> tuple[Operation, ...]:
  """Each function in float32, and some in other dtypes and uneven shapes."""
  return (*_approximated(), *_rounded(), *_same_bits())


def _operation(name: str, function: _Function, make: Callable[...,
                                                              torch.Tensor],
               tolerance: Tolerance) -> Operation:
  return Operation(name, _FAMILY, lambda g: (make(g),), function, tolerance)


def _between(low: float,
             high: float,
             shape: tuple[int, ...] = _SHAPE,
             dtype: torch.dtype = torch.float32) -> Callable[..., torch.Tensor]:
  return lambda g: inputs.between(g, low, high, *shape, dtype=dtype)


def _approximated() -> tuple[Operation, ...]:
  return (
      *(_operation(name, function, _between(low, high), APPROXIMATED)
        for name, function, low, high in _APPROXIMATED),
      *(_operation(f'exp_{dtypes.name(dtype)}', torch.exp,
                   _between(-5, 5, dtype=dtype), APPROXIMATED)
        for dtype in _DTYPES),
      *(_operation(f'tanh_{dtypes.name(dtype)}', torch.tanh,
                   _between(-3, 3, dtype=dtype), APPROXIMATED)
        for dtype in _DTYPES),
      _operation('log_uneven', torch.log, _between(0.1, 50, _UNEVEN),
                 APPROXIMATED),
      _operation('exp_rank_1', torch.exp, _between(-5, 5, (16,)), APPROXIMATED),
      _operation('exp_scalar', torch.exp, _between(-5, 5, ()), APPROXIMATED),
  )


def _rounded() -> tuple[Operation, ...]:
  return (
      *(_operation(name, function, _between(low, high), ROUNDED)
        for name, function, low, high in _ROUNDED),
      *(_operation(f'sqrt_{dtypes.name(dtype)}', torch.sqrt,
                   _between(0, 50, dtype=dtype), ROUNDED) for dtype in _DTYPES),
  )


def _same_bits() -> tuple[Operation, ...]:
  # Halves among them, which go to the even number.
  halves = lambda g: inputs.whole(g, *_SHAPE, largest=9) / 2
  return (
      *(_operation(name, function, _between(-5, 5), SAME_BITS)
        for name, function in _SAME_BITS),
      *(_operation(name, function, halves, SAME_BITS)
        for name, function in _WHOLE),
  )
