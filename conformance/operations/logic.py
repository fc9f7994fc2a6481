"""Comparisons, and logical and bitwise functions."""

from __future__ import annotations

import functools

import torch

from . import dtypes
from .inputs import mask, normal, whole, Inputs
from .operation import operation, Operation
from .tolerance import SAME_BITS

_same_bits = functools.partial(operation, 'logic', SAME_BITS)
_SHAPE = (8, 16)
_COMPARISONS = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
_LOGICAL = (torch.logical_and, torch.logical_or, torch.logical_xor)
_BITWISE = (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor)
_MASK, _NORMAL = mask(*_SHAPE), normal(*_SHAPE)
_MASKS: Inputs = (_MASK, _MASK)
_INTS: Inputs = (whole(*_SHAPE, largest=2**30, dtype=torch.int32),) * 2


def _whole_pair(dtype: torch.dtype = torch.float32) -> Inputs:
  return (whole(*_SHAPE, largest=3, dtype=dtype),) * 2


# Operations on floats, ints and bools; none of them rounds.
OPERATIONS: tuple[Operation, ...] = (
    *(_same_bits(function.__name__, function, *_whole_pair())
      for function in _COMPARISONS),
    *(_same_bits(f'lt_{dtypes.name(dtype)}', torch.lt, *_whole_pair(dtype))
      for dtype in (torch.bfloat16, torch.int32, torch.int64)),
    _same_bits('eq_bool', torch.eq, *_MASKS),
    _same_bits('gt_number', lambda a, b: (a > 1) == (b > -1), *_whole_pair()),
    _same_bits('lt_uneven', torch.lt, whole(7, 9), whole(7, 9)),
    *(_same_bits(function.__name__, function, *_MASKS)
      for function in _LOGICAL),
    _same_bits('logical_not', lambda a, b: torch.logical_not(a), *_MASKS),
    _same_bits('logical_and_float32', torch.logical_and, *_whole_pair()),
    *(_same_bits(function.__name__, function, *_INTS) for function in _BITWISE),
    _same_bits('bitwise_not', lambda a, b: torch.bitwise_not(a), *_INTS),
    _same_bits('bitwise_not_bool', lambda a, b: ~a & b, *_MASKS),
    _same_bits('where', torch.where, _MASK, _NORMAL, _NORMAL),
    _same_bits('where_row', torch.where, mask(16), _NORMAL, _NORMAL),
    _same_bits('where_number', lambda mask, a: torch.where(mask, a, -1.0),
               _MASK, _NORMAL),
    _same_bits('where_bool', torch.where, _MASK, *_MASKS),
)
