"""Reductions of one dimension, or of all."""

from __future__ import annotations

import functools

import torch

from . import dtypes
from .inputs import distinct, mask, normal, whole
from .operation import operation, Operation
from .tolerance import APPROXIMATED, COMPOUND, EXACT, SAME_BITS

_approximated = functools.partial(operation, 'reductions', APPROXIMATED)
_compound = functools.partial(operation, 'reductions', COMPOUND)
_exact = functools.partial(operation, 'reductions', EXACT)
_same_bits = functools.partial(operation, 'reductions', SAME_BITS)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)


def _powers(g: torch.Generator) -> torch.Tensor:
  """Powers of two: their products are exact."""
  return 2.0**whole(*_SHAPE, largest=2)(g)


def _rare(g: torch.Generator) -> torch.Tensor:
  return torch.rand(*_SHAPE, generator=g) < 0.1


def _common(g: torch.Generator) -> torch.Tensor:
  return torch.rand(*_UNEVEN, generator=g) < 0.9


# Sums, extremes and their places, products, norms, moments, of bools.
OPERATIONS: tuple[Operation, ...] = (
    # Sums.
    _exact('sum', torch.sum, whole(*_SHAPE)),
    _exact('sum_dim_0', lambda x: x.sum(0), whole(*_SHAPE)),
    _exact('sum_dim_1', lambda x: x.sum(1), whole(*_SHAPE)),
    _exact('sum_large', lambda x: x.sum(1), whole(131, 517)),
    # Added one by one in 16 bits they stay at 256.
    _exact('sum_long_bfloat16', torch.sum,
           lambda g: torch.ones(4096, dtype=torch.bfloat16)),
    _exact('sum_keepdim', lambda x: x.sum(1, keepdim=True), whole(*_SHAPE)),
    _exact('sum_two_dims', lambda x: x.sum((0, 2)), whole(8, 8, 4)),
    _exact('sum_rank_1', torch.sum, whole(16)),
    _exact('sum_uneven_dim_0', lambda x: x.sum(0), whole(*_UNEVEN)),
    _exact('sum_uneven_dim_1', lambda x: x.sum(1), whole(*_UNEVEN)),
    _exact('sum_uneven', torch.sum, whole(*_UNEVEN)),
    *(_exact(f'sum_{dtypes.name(dtype)}', lambda x: x.sum(1),
             whole(*_SHAPE, dtype=dtype))
      for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int32,
                    torch.int64)),
    _exact('sum_bool', lambda x: x.sum(0), mask(*_SHAPE)),
    _exact('sum_to_int64', lambda x: x.sum(1, dtype=torch.int64),
           whole(*_SHAPE, dtype=torch.int32)),
    _exact('mean', torch.mean, whole(*_SHAPE)),
    _exact('mean_dim_0', lambda x: x.mean(0), whole(*_SHAPE)),
    _approximated('mean_uneven', lambda x: x.mean(0), whole(*_UNEVEN)),
    _exact('prod', torch.prod, _powers),
    _exact('prod_dim_1', lambda x: x.prod(1), _powers),
    # Extremes.
    _same_bits('amax', lambda x: x.amax(1), distinct(*_SHAPE)),
    _same_bits('amin', lambda x: x.amin(0), distinct(*_SHAPE)),
    _same_bits('max_all', torch.max, distinct(*_SHAPE)),
    _same_bits('min_int32', torch.min, distinct(*_SHAPE, dtype=torch.int32)),
    # All numbers below zero: what pads a shard must not be the largest.
    _same_bits('amax_of_negative_uneven', lambda x: x.amax(0),
               lambda g: distinct(*_UNEVEN)(g) - 100),
    _same_bits('amin_of_positive_uneven', lambda x: x.amin(1),
               lambda g: distinct(*_UNEVEN)(g) + 100),
    _same_bits('max_with_indices', lambda x: tuple(x.max(1)),
               distinct(*_SHAPE)),
    _same_bits('min_with_indices', lambda x: tuple(x.min(0)),
               distinct(*_SHAPE)),
    _same_bits('argmax', torch.argmax, distinct(*_SHAPE)),
    _same_bits('argmax_dim_0', lambda x: x.argmax(0), distinct(*_SHAPE)),
    _same_bits('argmax_dim_1', lambda x: x.argmax(1), distinct(*_SHAPE)),
    _same_bits('argmin_uneven', lambda x: x.argmin(1), distinct(*_UNEVEN)),
    _same_bits('argmax_bfloat16', lambda x: x.argmax(1),
               distinct(*_SHAPE, dtype=torch.bfloat16)),
    # Of bools.
    _same_bits('any', lambda x: x.any(1), _rare),
    _same_bits('any_all_dims', torch.any, _rare),
    _same_bits('all', lambda x: x.all(1), _common),
    _same_bits('all_dim_0', lambda x: x.all(0), _common),
    # Not count_nonzero, which gives torch_xla's users bools.
    _same_bits('count', lambda x: (x != 0).sum(0), _rare),
    # Moments.
    _compound('var', lambda x: x.var(1), normal(*_SHAPE)),
    _compound('var_population', lambda x: x.var(0, correction=0),
              normal(*_SHAPE)),
    _compound('std', lambda x: x.std(0), normal(*_SHAPE)),
    _compound('var_mean', lambda x: tuple(torch.var_mean(x, dim=1)),
              normal(*_SHAPE)),
    _compound('var_uneven', lambda x: x.var(0), normal(*_UNEVEN)),
    _approximated('logsumexp', lambda x: x.logsumexp(1), normal(*_SHAPE)),
    # Of which no exponential is finite.
    _approximated('logsumexp_of_large', lambda x: x.logsumexp(0),
                  lambda g: normal(*_SHAPE)(g) + 200),
    _approximated('logsumexp_uneven', lambda x: x.logsumexp(0),
                  normal(*_UNEVEN)),
    # Norms.
    _approximated('norm', torch.linalg.vector_norm, whole(*_SHAPE)),
    _approximated('norm_1', lambda x: torch.linalg.vector_norm(x, 1, dim=1),
                  whole(*_SHAPE)),
    _approximated('norm_inf',
                  lambda x: torch.linalg.vector_norm(x, torch.inf, dim=0),
                  whole(*_SHAPE)),
)
