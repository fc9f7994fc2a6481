"""Sorts, and what is chosen by order."""

from __future__ import annotations

import torch

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import SAME_BITS

_FAMILY = 'sorting'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
# Short rows are sorted stably by chance: many sorts insert there.
_LONG = (3, 517)


def operations() -> tuple[Operation, ...]:
  """Sorts of different numbers, and of equal ones where they are stable."""
  return (*_sorts(), *_chosen())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, SAME_BITS)


def _distinct(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.distinct(g, *shape, dtype=dtype),)


def _sorts() -> tuple[Operation, ...]:
  ties = lambda g: (inputs.whole(g, *_SHAPE, largest=2),)
  long_ties = lambda g: (inputs.whole(g, *_LONG, largest=2),)
  return (
      _operation('sort_dim_0', _distinct(*_SHAPE), lambda x: tuple(x.sort(0))),
      _operation('sort_dim_1', _distinct(*_SHAPE), lambda x: tuple(x.sort(1))),
      _operation('sort_descending', _distinct(*_SHAPE),
                 lambda x: tuple(x.sort(1, descending=True))),
      _operation('sort_stable', ties,
                 lambda x: tuple(x.sort(dim=1, stable=True))),
      _operation('sort_stable_long', long_ties,
                 lambda x: tuple(x.sort(dim=1, stable=True))),
      _operation('sort_rank_1', _distinct(64), lambda x: tuple(x.sort())),
      _operation('sort_uneven_dim_0', _distinct(*_UNEVEN),
                 lambda x: tuple(x.sort(0))),
      _operation('sort_uneven_dim_1', _distinct(*_UNEVEN),
                 lambda x: tuple(x.sort(1))),
      _operation('sort_int32', _distinct(*_SHAPE, dtype=torch.int32),
                 lambda x: tuple(x.sort(1))),
      _operation('sort_int64', _distinct(*_SHAPE, dtype=torch.int64),
                 lambda x: tuple(x.sort(1))),
      _operation('sort_bfloat16', _distinct(*_SHAPE, dtype=torch.bfloat16),
                 lambda x: tuple(x.sort(1))),
      _operation('argsort', _distinct(*_SHAPE), lambda x: x.argsort(1)),
  )


def _chosen() -> tuple[Operation, ...]:
  return (
      _operation('topk_dim_1', _distinct(*_SHAPE),
                 lambda x: tuple(x.topk(5, dim=1))),
      _operation('topk_dim_0', _distinct(*_SHAPE),
                 lambda x: tuple(x.topk(3, dim=0))),
      _operation('topk_smallest', _distinct(*_SHAPE),
                 lambda x: tuple(x.topk(4, dim=1, largest=False))),
      _operation('topk_uneven', _distinct(*_UNEVEN),
                 lambda x: tuple(x.topk(4, dim=0))),
      _operation('kthvalue', _distinct(*_SHAPE),
                 lambda x: tuple(x.kthvalue(3, dim=1))),
  )
