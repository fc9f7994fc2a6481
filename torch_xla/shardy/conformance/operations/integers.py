"""Arithmetic of integers: division, negative remainders, shifts, overflow."""

from __future__ import annotations

import torch

from . import dtypes
from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import SAME_BITS

_FAMILY = 'integers'
_SHAPE = (8, 16)
_SIGNED = (torch.int32, torch.int64, torch.int16, torch.int8)


def operations() -> tuple[Operation, ...]:
  """Operations in int32, int64 and a few narrower dtypes, all exact."""
  return (*_arithmetic(), *_division(), *_shifts(), *_overflow())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, SAME_BITS)


def _pair(dtype: torch.dtype, largest: int = 9) -> Inputs:
  return lambda g: (inputs.whole(g, *_SHAPE, largest=largest, dtype=dtype),
                    inputs.whole(g, *_SHAPE, largest=largest, dtype=dtype))


def _dividend_and_divisor(dtype: torch.dtype) -> Inputs:
  """Pairs of integers of both signs; no divisor is zero."""

  def make(g: torch.Generator) -> tuple[torch.Tensor, ...]:
    divisor = inputs.whole(g, *_SHAPE, largest=7, dtype=dtype)
    return (inputs.whole(g, *_SHAPE, largest=100,
                         dtype=dtype), torch.where(divisor == 0, 3, divisor))

  return make


def _arithmetic() -> tuple[Operation, ...]:
  by_dtype = ((f'{name}_{dtypes.name(dtype)}', dtype, function)
              for dtype in _SIGNED
              for name, function in (('add', torch.add), ('mul', torch.mul)))
  return (
      *(_operation(name, _pair(dtype), function)
        for name, dtype, function in by_dtype),
      _operation('sub_int32', _pair(torch.int32), torch.sub),
      _operation('maximum_int64', _pair(torch.int64), torch.maximum),
      _operation('abs_int32', _pair(torch.int32), lambda a, b: a.abs()),
      _operation('neg_int64', _pair(torch.int64), lambda a, b: -b),
      _operation('sign_int32', _pair(torch.int32), lambda a, b: a.sign()),
      _operation('clamp_int64', _pair(torch.int64),
                 lambda a, b: a.clamp(-3, 5)),
      _operation('pow_int64', _pair(torch.int64, 4), lambda a, b: a**3),
      _operation('add_int32_int64', lambda g:
                 (_pair(torch.int32)(g)[0], _pair(torch.int64)
                  (g)[1]), torch.add),
      _operation('add_uint8', _unsigned, torch.add),
      _operation('mul_int64_wide', _pair(torch.int64, 2**31 + 11), torch.mul),
      _operation('add_int64_wide', _pair(torch.int64, 2**40), torch.add),
  )


def _unsigned(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  return tuple(
      torch.randint(256, _SHAPE, generator=g).to(torch.uint8) for _ in range(2))


def _division() -> tuple[Operation, ...]:
  divided = {dtype: _dividend_and_divisor(dtype) for dtype in _SIGNED[:2]}
  return tuple(
      _operation(f'{name}_{dtypes.name(dtype)}', make, function)
      for dtype, make in divided.items()
      for name, function in (
          ('floor_divide', torch.floor_divide),
          ('divide_trunc', lambda a, b: torch.div(a, b, rounding_mode='trunc')),
          # Of the divisor's sign, and of the dividend's.
          ('remainder', torch.remainder),
          ('fmod', torch.fmod),
      ))


def _shifts() -> tuple[Operation, ...]:
  places = lambda dtype: lambda g: (
      inputs.whole(g, *_SHAPE, largest=2**20, dtype=dtype),
      torch.randint(31, _SHAPE, generator=g).to(dtype))
  return tuple(
      _operation(f'{name}_{dtypes.name(dtype)}', places(dtype), function)
      for dtype in _SIGNED[:2]
      for name, function in (
          ('shift_left', torch.bitwise_left_shift),
          # Not `>>`, which torch_xla makes a quotient of other operands.
          ('shift_right', torch.bitwise_right_shift),
      ))


def _overflow() -> tuple[Operation, ...]:
  near_end = lambda dtype: lambda g: (torch.iinfo(dtype).max - torch.randint(
      3, _SHAPE, generator=g).to(dtype), torch.randint(6, _SHAPE, generator=g).
                                      to(dtype))
  return (
      *(_operation(f'add_wraps_{dtypes.name(dtype)}', near_end(dtype),
                   torch.add) for dtype in _SIGNED),
      _operation('mul_wraps_int32', _pair(torch.int32, 2**30), torch.mul),
      _operation('sum_wraps_int32', _pair(torch.int32, 2**30),
                 lambda a, b: a.sum(0, dtype=torch.int32)),
      _operation(
          'neg_wraps_int32', lambda g: (torch.full(
              _SHAPE, torch.iinfo(torch.int32).min, dtype=torch.int32),),
          torch.neg),
  )
