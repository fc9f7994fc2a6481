"""Cumulative functions: each element of a dimension with those before it."""

from __future__ import annotations

import functools

import torch

from .inputs import distinct, whole
from .operation import operation, Operation
from .tolerance import EXACT, SAME_BITS

_exact = functools.partial(operation, 'scans', EXACT)
_same_bits = functools.partial(operation, 'scans', SAME_BITS)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)


def _powers(g: torch.Generator) -> torch.Tensor:
  return 2.0**whole(*_SHAPE, largest=1)(g)


# Along each dimension: split ones need what other devices have.
OPERATIONS: tuple[Operation, ...] = (
    _exact('cumsum_dim_0', lambda x: x.cumsum(0), whole(*_SHAPE)),
    _exact('cumsum_dim_1', lambda x: x.cumsum(1), whole(*_SHAPE)),
    _exact('cumsum_uneven_dim_0', lambda x: x.cumsum(0), whole(*_UNEVEN)),
    _exact('cumsum_uneven_dim_1', lambda x: x.cumsum(1), whole(*_UNEVEN)),
    _exact('cumsum_rank_1', lambda x: x.cumsum(0), whole(16)),
    _exact('cumsum_int64', lambda x: x.cumsum(1),
           whole(*_SHAPE, dtype=torch.int64)),
    _exact('cumsum_bfloat16', lambda x: x.cumsum(0),
           whole(*_SHAPE, dtype=torch.bfloat16)),
    _exact('cumprod_dim_0', lambda x: x.cumprod(0), _powers),
    _exact('cumprod_dim_1', lambda x: x.cumprod(1), _powers),
    _same_bits('cummax', lambda x: tuple(x.cummax(1)), distinct(*_SHAPE)),
    _exact('diff', lambda x: x.diff(dim=1), whole(*_SHAPE)),
)
