"""Cumulative functions: each element of a dimension with those before it."""

from __future__ import annotations

import torch

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import EXACT, SAME_BITS, Tolerance

_FAMILY = 'scans'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)


def operations() -> tuple[Operation, ...]:
  """Scans along each dimension; a split one needs other devices' data."""
  whole, uneven = _whole(*_SHAPE), _whole(*_UNEVEN)
  powers = lambda g: (2.0**inputs.whole(g, *_SHAPE, largest=1),)
  return (
      _operation('cumsum_dim_0', whole, lambda x: x.cumsum(0), EXACT),
      _operation('cumsum_dim_1', whole, lambda x: x.cumsum(1), EXACT),
      _operation('cumsum_uneven_dim_0', uneven, lambda x: x.cumsum(0), EXACT),
      _operation('cumsum_uneven_dim_1', uneven, lambda x: x.cumsum(1), EXACT),
      _operation('cumsum_rank_1', _whole(16), lambda x: x.cumsum(0), EXACT),
      _operation('cumsum_int64', _whole(*_SHAPE, dtype=torch.int64),
                 lambda x: x.cumsum(1), EXACT),
      _operation('cumsum_bfloat16', _whole(*_SHAPE, dtype=torch.bfloat16),
                 lambda x: x.cumsum(0), EXACT),
      _operation('cumprod_dim_0', powers, lambda x: x.cumprod(0), EXACT),
      _operation('cumprod_dim_1', powers, lambda x: x.cumprod(1), EXACT),
      _operation('cummax', lambda g: (inputs.distinct(g, *_SHAPE),),
                 lambda x: tuple(x.cummax(1)), SAME_BITS),
      _operation('diff', whole, lambda x: x.diff(dim=1), EXACT),
  )


def _operation(name: str, make: Inputs, call: Call,
               tolerance: Tolerance) -> Operation:
  return Operation(name, _FAMILY, make, call, tolerance)


def _whole(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.whole(g, *shape, dtype=dtype),)
