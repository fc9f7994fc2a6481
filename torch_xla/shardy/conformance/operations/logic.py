"""Comparisons, and logical and bitwise functions."""

from __future__ import annotations

import torch

from . import dtypes
from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import SAME_BITS

_FAMILY = 'logic'
_SHAPE = (8, 16)
_COMPARISONS = (('eq', torch.eq), ('ne', torch.ne), ('lt', torch.lt),
                ('le', torch.le), ('gt', torch.gt), ('ge', torch.ge))
_LOGICAL = (('logical_and', torch.logical_and),
            ('logical_or', torch.logical_or), ('logical_xor',
                                               torch.logical_xor))
_BITWISE = (('bitwise_and', torch.bitwise_and),
            ('bitwise_or', torch.bitwise_or), ('bitwise_xor',
                                               torch.bitwise_xor))


def operations() -> tuple[Operation, ...]:
  """Operations on floats, ints and bools, none of which rounds."""
  return (
      *(_operation(name, _whole_pair(torch.float32), function)
        for name, function in _COMPARISONS),
      *(_operation(f'lt_{dtypes.name(dtype)}', _whole_pair(dtype), torch.lt)
        for dtype in (torch.bfloat16, torch.int32, torch.int64)),
      _operation('eq_bool', _masks, torch.eq),
      _operation('gt_number', _whole_pair(torch.float32), lambda a, b:
                 (a > 1) == (b > -1)),
      _operation('lt_uneven', lambda g:
                 (inputs.whole(g, 7, 9), inputs.whole(g, 7, 9)), torch.lt),
      *(_operation(name, _masks, function) for name, function in _LOGICAL),
      _operation('logical_not', _masks, lambda a, b: torch.logical_not(a)),
      _operation('logical_and_float32', _whole_pair(torch.float32),
                 torch.logical_and),
      *(_operation(name, _ints, function) for name, function in _BITWISE),
      _operation('bitwise_not', _ints, lambda a, b: torch.bitwise_not(a)),
      _operation('bitwise_not_bool', _masks, lambda a, b: ~a & b),
      _operation('where', lambda g: (inputs.mask(g, *_SHAPE), *_normals(g)),
                 torch.where),
      _operation('where_row', lambda g: (inputs.mask(g, 16), *_normals(g)),
                 torch.where),
      _operation('where_number', lambda g:
                 (inputs.mask(g, *_SHAPE), inputs.normal(g, *_SHAPE)),
                 lambda mask, a: torch.where(mask, a, -1.0)),
      _operation('where_bool', lambda g: (inputs.mask(g, *_SHAPE), *_masks(g)),
                 torch.where),
  )


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, SAME_BITS)


def _whole_pair(dtype: torch.dtype) -> Inputs:
  return lambda g: (inputs.whole(g, *_SHAPE, largest=3, dtype=dtype),
                    inputs.whole(g, *_SHAPE, largest=3, dtype=dtype))


def _masks(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  return inputs.mask(g, *_SHAPE), inputs.mask(g, *_SHAPE)


def _normals(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  return inputs.normal(g, *_SHAPE), inputs.normal(g, *_SHAPE)


def _ints(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  return tuple(
      inputs.whole(g, *_SHAPE, largest=2**30, dtype=torch.int32)
      for _ in range(2))
