"""Functions of each element by itself."""

from __future__ import annotations

import functools

import torch

from . import dtypes
from .inputs import uniform, whole
from .operation import operation, Operation
from .tolerance import APPROXIMATED, ROUNDED, SAME_BITS

_DTYPES = (torch.bfloat16, torch.float16, torch.float64)
_MATRIX = uniform(-5, 5, 8, 16)

_approximated = functools.partial(operation, 'unary', APPROXIMATED)
_rounded = functools.partial(operation, 'unary', ROUNDED)
_same_bits = functools.partial(operation, 'unary', SAME_BITS)


def _halves(g: torch.Generator) -> torch.Tensor:
  """Halves of whole numbers: some are rounded to the even one of two."""
  return whole(8, 16, largest=9)(g) / 2


# Each function in float32, and some in other dtypes and uneven shapes.
OPERATIONS: tuple[Operation, ...] = (
    _approximated('exp', torch.exp, uniform(-5, 5, 8, 16)),
    _approximated('expm1', torch.expm1, uniform(-2, 2, 8, 16)),
    _approximated('log', torch.log, uniform(0.1, 50, 8, 16)),
    _approximated('log2', torch.log2, uniform(0.1, 50, 8, 16)),
    _approximated('log10', torch.log10, uniform(0.1, 50, 8, 16)),
    _approximated('log1p', torch.log1p, uniform(-0.5, 5, 8, 16)),
    _approximated('logit', torch.logit, uniform(0.05, 0.95, 8, 16)),
    _approximated('sin', torch.sin, uniform(-10, 10, 8, 16)),
    _approximated('cos', torch.cos, uniform(-10, 10, 8, 16)),
    _approximated('tan', torch.tan, uniform(-1.2, 1.2, 8, 16)),
    _approximated('asin', torch.asin, uniform(-0.95, 0.95, 8, 16)),
    _approximated('acos', torch.acos, uniform(-0.95, 0.95, 8, 16)),
    _approximated('atan', torch.atan, uniform(-5, 5, 8, 16)),
    _approximated('sinh', torch.sinh, uniform(-3, 3, 8, 16)),
    _approximated('cosh', torch.cosh, uniform(-3, 3, 8, 16)),
    _approximated('tanh', torch.tanh, uniform(-3, 3, 8, 16)),
    _approximated('asinh', torch.asinh, uniform(-5, 5, 8, 16)),
    _approximated('acosh', torch.acosh, uniform(1.1, 5, 8, 16)),
    _approximated('atanh', torch.atanh, uniform(-0.9, 0.9, 8, 16)),
    _approximated('sigmoid', torch.sigmoid, uniform(-6, 6, 8, 16)),
    _approximated('erf', torch.erf, uniform(-3, 3, 8, 16)),
    _approximated('erfc', torch.erfc, uniform(-2, 2, 8, 16)),
    _approximated('erfinv', torch.erfinv, uniform(-0.9, 0.9, 8, 16)),
    *(_approximated(f'exp_{dtypes.name(dtype)}', torch.exp,
                    uniform(-5, 5, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    *(_approximated(f'tanh_{dtypes.name(dtype)}', torch.tanh,
                    uniform(-3, 3, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    _approximated('log_uneven', torch.log, uniform(0.1, 50, 7, 9)),
    _approximated('exp_rank_1', torch.exp, uniform(-5, 5, 16)),
    _approximated('exp_scalar', torch.exp, uniform(-5, 5)),
    _rounded('sqrt', torch.sqrt, uniform(0, 50, 8, 16)),
    _rounded('rsqrt', torch.rsqrt, uniform(0.1, 50, 8, 16)),
    _rounded('reciprocal', torch.reciprocal, uniform(0.1, 10, 8, 16)),
    *(_rounded(f'sqrt_{dtypes.name(dtype)}', torch.sqrt,
               uniform(0, 50, 8, 16, dtype=dtype)) for dtype in _DTYPES),
    _same_bits('abs', torch.abs, _MATRIX),
    _same_bits('neg', torch.neg, _MATRIX),
    _same_bits('sign', torch.sign, _MATRIX),
    _same_bits('square_of_whole', lambda x: torch.square(x.trunc()), _MATRIX),
    _same_bits('clamp', lambda x: x.clamp(-2.5, 2.5), _MATRIX),
    _same_bits('clamp_min', lambda x: x.clamp(min=0.5), _MATRIX),
    _same_bits('nan_to_num', torch.nan_to_num, _MATRIX),
    _same_bits('floor', torch.floor, _halves),
    _same_bits('ceil', torch.ceil, _halves),
    _same_bits('trunc', torch.trunc, _halves),
    _same_bits('frac', torch.frac, _halves),
    _same_bits('round_half_to_even', torch.round, _halves),
)
