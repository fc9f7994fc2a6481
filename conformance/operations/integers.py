"""Integers: division, negative remainders, shifts, overflow; and casts."""

from __future__ import annotations

import torch

from .inputs import indices, Make, mask, SHAPE, whole, Inputs
from .operation import same_bits, Operation
from ..comparison import dtype_name

_SIGNED = (torch.int32, torch.int64, torch.int16, torch.int8)


def _pair(dtype: torch.dtype, largest: int = 9) -> Inputs:
  return (whole(*SHAPE, largest=largest, dtype=dtype),) * 2


def _random(count: int, dtype: torch.dtype) -> Make:
  """Numbers of [0, count)."""
  return lambda g: torch.randint(count, SHAPE, generator=g).to(dtype)


def _divisor(dtype: torch.dtype) -> Make:
  """Divisors of both signs, which are never zero."""

  def make(g: torch.Generator) -> torch.Tensor:
    divisor = whole(*SHAPE, largest=7, dtype=dtype)(g)
    return torch.where(divisor == 0, 3, divisor)

  return make


def _near_end(dtype: torch.dtype) -> Make:
  return lambda g: torch.iinfo(dtype).max - _random(3, dtype)(g)


# In int32 and int64, and a few in narrower dtypes; exact, all of them.
INTEGERS = (
    # Arithmetic.
    *(same_bits(f'{name}_{dtype_name(dtype)}', function, *_pair(dtype))
      for dtype in _SIGNED
      for name, function in (('add', torch.add), ('mul', torch.mul))),
    same_bits('sub_int32', torch.sub, *_pair(torch.int32)),
    same_bits('maximum_int64', torch.maximum, *_pair(torch.int64)),
    same_bits('abs_int32', lambda a, b: a.abs(), *_pair(torch.int32)),
    same_bits('neg_int64', lambda a, b: -b, *_pair(torch.int64)),
    same_bits('sign_int32', lambda a, b: a.sign(), *_pair(torch.int32)),
    same_bits('clamp_int64', lambda a, b: a.clamp(-3, 5), *_pair(torch.int64)),
    same_bits('pow_int64', lambda a, b: a**3, *_pair(torch.int64, 4)),
    same_bits('add_int32_int64', torch.add,
              _pair(torch.int32)[0],
              _pair(torch.int64)[1]),
    same_bits('add_uint8', torch.add, _random(256, torch.uint8),
              _random(256, torch.uint8)),
    same_bits('mul_int64_wide', torch.mul, *_pair(torch.int64, 2**31 + 11)),
    same_bits('add_int64_wide', torch.add, *_pair(torch.int64, 2**40)),
    # Division.
    *(
        same_bits(f'{name}_{dtype_name(dtype)}', function,
                  whole(*SHAPE, largest=100, dtype=dtype), _divisor(dtype))
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
        same_bits(f'{name}_{dtype_name(dtype)}', function,
                  whole(*SHAPE, largest=2**20, dtype=dtype), _random(31, dtype))
        for dtype in _SIGNED[:2]
        for name, function in (
            ('shift_left', torch.bitwise_left_shift),
            # Not `>>`, which torch_xla makes a quotient of other operands.
            ('shift_right', torch.bitwise_right_shift),
        )),
    # Overflow.
    *(same_bits(f'add_wraps_{dtype_name(dtype)}', torch.add, _near_end(dtype),
                _random(6, dtype)) for dtype in _SIGNED),
    same_bits('mul_wraps_int32', torch.mul, *_pair(torch.int32, 2**30)),
    same_bits('sum_wraps_int32', lambda a, b: a.sum(0, dtype=torch.int32),
              *_pair(torch.int32, 2**30)),
    same_bits(
        'neg_wraps_int32', torch.neg, lambda g: torch.full(
            SHAPE, torch.iinfo(torch.int32).min, dtype=torch.int32)),
)

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTS = (torch.int32, torch.int64)
_TO_BOOL = (torch.float32, torch.bfloat16, torch.int32, torch.int64)


def _cast(source: torch.dtype,
          target: torch.dtype,
          make: Make,
          suffix: str = '') -> Operation:
  name = f'{dtype_name(source)}_to_{dtype_name(target)}{suffix}'
  return same_bits(name, lambda x: x.to(target), lambda g: make(g).to(source))


def _numbers(g: torch.Generator) -> torch.Tensor:
  return 20 * torch.randn(SHAPE, generator=g, dtype=torch.float64)


def _positive(g: torch.Generator) -> torch.Tensor:
  return _numbers(g).abs()


def _halfway(g: torch.Generator) -> torch.Tensor:
  """Numbers in the middle between two of bfloat16, which go to the even."""
  return 1 + (2 * indices(64, *SHAPE)(g) + 1) / 256


_WIDE = whole(*SHAPE, largest=2**30, dtype=torch.int64)

# Exact, all of them: IEEE 754 says how to round, and torch to truncate.
CASTS = (
    # Between floats.
    *(_cast(source, target, _numbers)
      for source in _FLOATS
      for target in _FLOATS
      if source != target),
    _cast(torch.float32, torch.bfloat16, _halfway, '_halfway'),
    # Beyond what float16 reaches, 65504.
    _cast(torch.float32, torch.float16, lambda g: 3000 * _numbers(g),
          '_overflow'),
    # Between floats and ints.
    *(_cast(source, target, _numbers)
      for source in _FLOATS[:2]
      for target in _INTS),
    *(_cast(source, target, _numbers)
      for source in _INTS
      for target in _FLOATS[:2]),
    _cast(torch.float32, torch.uint8, _positive),
    _cast(torch.uint8, torch.float32, _positive),
    # More digits than a float32 has.
    *(_cast(source, torch.float32, _WIDE, '_rounds') for source in _INTS),
    # Between ints.
    _cast(torch.int32, torch.int64, _WIDE),
    # What is too wide loses its upper bits.
    _cast(torch.int64, torch.int32, lambda g: _WIDE(g) * 8),
    _cast(torch.int32, torch.int8, _WIDE),
    _cast(torch.int32, torch.uint8, _WIDE),
    _cast(torch.uint8, torch.int32, _positive),
    _cast(torch.int8, torch.int64, _numbers),
    # Bools.
    *(_cast(source, torch.bool, whole(*SHAPE, largest=1))
      for source in _TO_BOOL),
    *(_cast(torch.bool, target, mask(*SHAPE)) for target in _TO_BOOL),
)
