"""Arithmetic of integers: division, negative remainders, shifts, overflow."""

from __future__ import annotations

import functools

import torch

from . import dtypes
from .inputs import whole, Inputs, Make
from .operation import operation, Operation
from .tolerance import SAME_BITS

_same_bits = functools.partial(operation, 'integers', SAME_BITS)
_SHAPE = (8, 16)
_SIGNED = (torch.int32, torch.int64, torch.int16, torch.int8)


def _pair(dtype: torch.dtype, largest: int = 9) -> Inputs:
  return (whole(*_SHAPE, largest=largest, dtype=dtype),) * 2


def _random(count: int, dtype: torch.dtype) -> Make:
  """Numbers of [0, count)."""
  return lambda g: torch.randint(count, _SHAPE, generator=g).to(dtype)


def _divisor(dtype: torch.dtype) -> Make:
  """Divisors of both signs, which are never zero."""

  def make(g: torch.Generator) -> torch.Tensor:
    divisor = whole(*_SHAPE, largest=7, dtype=dtype)(g)
    return torch.where(divisor == 0, 3, divisor)

  return make


def _near_end(dtype: torch.dtype) -> Make:
  return lambda g: torch.iinfo(dtype).max - _random(3, dtype)(g)


# In int32 and int64, and a few in narrower dtypes; exact, all of them.
OPERATIONS: tuple[Operation, ...] = (
    # Arithmetic.
    *(_same_bits(f'{name}_{dtypes.name(dtype)}', function, *_pair(dtype))
      for dtype in _SIGNED
      for name, function in (('add', torch.add), ('mul', torch.mul))),
    _same_bits('sub_int32', torch.sub, *_pair(torch.int32)),
    _same_bits('maximum_int64', torch.maximum, *_pair(torch.int64)),
    _same_bits('abs_int32', lambda a, b: a.abs(), *_pair(torch.int32)),
    _same_bits('neg_int64', lambda a, b: -b, *_pair(torch.int64)),
    _same_bits('sign_int32', lambda a, b: a.sign(), *_pair(torch.int32)),
    _same_bits('clamp_int64', lambda a, b: a.clamp(-3, 5), *_pair(torch.int64)),
    _same_bits('pow_int64', lambda a, b: a**3, *_pair(torch.int64, 4)),
    _same_bits('add_int32_int64', torch.add,
               _pair(torch.int32)[0],
               _pair(torch.int64)[1]),
    _same_bits('add_uint8', torch.add, _random(256, torch.uint8),
               _random(256, torch.uint8)),
    _same_bits('mul_int64_wide', torch.mul, *_pair(torch.int64, 2**31 + 11)),
    _same_bits('add_int64_wide', torch.add, *_pair(torch.int64, 2**40)),
    # Division.
    *(
        _same_bits(f'{name}_{dtypes.name(dtype)}', function,
                   whole(*_SHAPE, largest=100, dtype=dtype), _divisor(dtype))
        for dtype in _SIGNED[:2]
        for name, function in (
            ('floor_divide', torch.floor_divide),
            ('divide_trunc',
             lambda a, b: torch.div(a, b, rounding_mode='trunc')),
            # Of the divisor's sign, and of the dividend's.
            ('remainder', torch.remainder),
            ('fmod', torch.fmod),
        )),
    # Shifts.
    *(
        _same_bits(f'{name}_{dtypes.name(dtype)}', function,
                   whole(*_SHAPE, largest=2**20, dtype=dtype), _random(
                       31, dtype))
        for dtype in _SIGNED[:2]
        for name, function in (
            ('shift_left', torch.bitwise_left_shift),
            # Not `>>`, which torch_xla makes a quotient of other operands.
            ('shift_right', torch.bitwise_right_shift),
        )),
    # Overflow.
    *(_same_bits(f'add_wraps_{dtypes.name(dtype)}', torch.add, _near_end(dtype),
                 _random(6, dtype)) for dtype in _SIGNED),
    _same_bits('mul_wraps_int32', torch.mul, *_pair(torch.int32, 2**30)),
    _same_bits('sum_wraps_int32', lambda a, b: a.sum(0, dtype=torch.int32),
               *_pair(torch.int32, 2**30)),
    _same_bits(
        'neg_wraps_int32', torch.neg, lambda g: torch.full(
            _SHAPE, torch.iinfo(torch.int32).min, dtype=torch.int32)),
)
