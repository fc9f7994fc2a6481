"""What becomes of a dimension, or of all, when it is reduced."""

from __future__ import annotations

import torch

from . import dtypes
from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import APPROXIMATED, COMPOUND, EXACT, SAME_BITS, Tolerance

_FAMILY = 'reductions'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)


def operations() -> tuple[Operation, ...]:
  """Sums, extremes and their places, norms, moments, reductions of bools."""
  return (*_sums(), *_extremes(), *_of_bools(), *_moments(), *_norms())


def _operation(name: str, make: Inputs, call: Call,
               tolerance: Tolerance) -> Operation:
  return Operation(name, _FAMILY, make, call, tolerance)


def _whole(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.whole(g, *shape, dtype=dtype),)


def _ones(*shape: int) -> Inputs:
  return lambda g: (torch.ones(shape, dtype=torch.bfloat16),)


def _normal(*shape: int) -> Inputs:
  return lambda g: (inputs.normal(g, *shape),)


def _distinct(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.distinct(g, *shape, dtype=dtype),)


def _sums() -> tuple[Operation, ...]:
  # Powers of two: their products are exact.
  powers = lambda g: (2.0**inputs.whole(g, *_SHAPE, largest=2),)
  return (
      _operation('sum', _whole(*_SHAPE), torch.sum, EXACT),
      _operation('sum_dim_0', _whole(*_SHAPE), lambda x: x.sum(0), EXACT),
      _operation('sum_dim_1', _whole(*_SHAPE), lambda x: x.sum(1), EXACT),
      _operation('sum_large', _whole(131, 517), lambda x: x.sum(1), EXACT),
      # Added one by one in 16 bits they stay at 256.
      _operation('sum_long_bfloat16', _ones(4096), torch.sum, EXACT),
      _operation('sum_keepdim', _whole(*_SHAPE),
                 lambda x: x.sum(1, keepdim=True), EXACT),
      _operation('sum_two_dims', _whole(8, 8, 4), lambda x: x.sum((0, 2)),
                 EXACT),
      _operation('sum_rank_1', _whole(16), torch.sum, EXACT),
      _operation('sum_uneven_dim_0', _whole(*_UNEVEN), lambda x: x.sum(0),
                 EXACT),
      _operation('sum_uneven_dim_1', _whole(*_UNEVEN), lambda x: x.sum(1),
                 EXACT),
      _operation('sum_uneven', _whole(*_UNEVEN), torch.sum, EXACT),
      *(_operation(f'sum_{dtypes.name(dtype)}', _whole(*_SHAPE, dtype=dtype),
                   lambda x: x.sum(1), EXACT)
        for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int32,
                      torch.int64)),
      _operation('sum_bool', lambda g: (inputs.mask(g, *_SHAPE),),
                 lambda x: x.sum(0), EXACT),
      _operation('sum_to_int64', _whole(*_SHAPE, dtype=torch.int32),
                 lambda x: x.sum(1, dtype=torch.int64), EXACT),
      _operation('mean', _whole(*_SHAPE), torch.mean, EXACT),
      _operation('mean_dim_0', _whole(*_SHAPE), lambda x: x.mean(0), EXACT),
      _operation('mean_uneven', _whole(*_UNEVEN), lambda x: x.mean(0),
                 APPROXIMATED),
      _operation('prod', powers, torch.prod, EXACT),
      _operation('prod_dim_1', powers, lambda x: x.prod(1), EXACT),
  )


def _extremes() -> tuple[Operation, ...]:
  return (
      _operation('amax', _distinct(*_SHAPE), lambda x: x.amax(1), SAME_BITS),
      _operation('amin', _distinct(*_SHAPE), lambda x: x.amin(0), SAME_BITS),
      _operation('max_all', _distinct(*_SHAPE), torch.max, SAME_BITS),
      _operation('min_int32', _distinct(*_SHAPE, dtype=torch.int32), torch.min,
                 SAME_BITS),
      # All numbers below zero: what pads a shard must not be the largest.
      _operation('amax_of_negative_uneven', lambda g:
                 (inputs.distinct(g, *_UNEVEN) - 100,), lambda x: x.amax(0),
                 SAME_BITS),
      _operation('amin_of_positive_uneven', lambda g:
                 (inputs.distinct(g, *_UNEVEN) + 100,), lambda x: x.amin(1),
                 SAME_BITS),
      _operation('max_with_indices', _distinct(*_SHAPE),
                 lambda x: tuple(x.max(1)), SAME_BITS),
      _operation('min_with_indices', _distinct(*_SHAPE),
                 lambda x: tuple(x.min(0)), SAME_BITS),
      _operation('argmax', _distinct(*_SHAPE), torch.argmax, SAME_BITS),
      _operation('argmax_dim_0', _distinct(*_SHAPE), lambda x: x.argmax(0),
                 SAME_BITS),
      _operation('argmax_dim_1', _distinct(*_SHAPE), lambda x: x.argmax(1),
                 SAME_BITS),
      _operation('argmin_uneven', _distinct(*_UNEVEN), lambda x: x.argmin(1),
                 SAME_BITS),
      _operation('argmax_bfloat16', _distinct(*_SHAPE, dtype=torch.bfloat16),
                 lambda x: x.argmax(1), SAME_BITS),
  )


def _of_bools() -> tuple[Operation, ...]:
  rare = lambda g: (torch.rand(*_SHAPE, generator=g) < 0.1,)
  common = lambda g: (torch.rand(*_UNEVEN, generator=g) < 0.9,)
  return (
      _operation('any', rare, lambda x: x.any(1), SAME_BITS),
      _operation('any_all_dims', rare, torch.any, SAME_BITS),
      _operation('all', common, lambda x: x.all(1), SAME_BITS),
      _operation('all_dim_0', common, lambda x: x.all(0), SAME_BITS),
      # Not count_nonzero, which gives torch_xla's users bools.
      _operation('count', rare, lambda x: (x != 0).sum(0), SAME_BITS),
  )


def _moments() -> tuple[Operation, ...]:
  return (
      _operation('var', _normal(*_SHAPE), lambda x: x.var(1), COMPOUND),
      _operation('var_population', _normal(*_SHAPE),
                 lambda x: x.var(0, correction=0), COMPOUND),
      _operation('std', _normal(*_SHAPE), lambda x: x.std(0), COMPOUND),
      _operation('var_mean', _normal(*_SHAPE),
                 lambda x: tuple(torch.var_mean(x, dim=1)), COMPOUND),
      _operation('var_uneven', _normal(*_UNEVEN), lambda x: x.var(0), COMPOUND),
      _operation('logsumexp', _normal(*_SHAPE), lambda x: x.logsumexp(1),
                 APPROXIMATED),
      # Of which no exponential is finite.
      _operation('logsumexp_of_large', lambda g:
                 (inputs.normal(g, *_SHAPE) + 200,), lambda x: x.logsumexp(0),
                 APPROXIMATED),
      _operation('logsumexp_uneven', _normal(*_UNEVEN),
                 lambda x: x.logsumexp(0), APPROXIMATED),
  )


def _norms() -> tuple[Operation, ...]:
  return (
      _operation('norm', _whole(*_SHAPE), torch.linalg.vector_norm,
                 APPROXIMATED),
      _operation('norm_1', _whole(*_SHAPE),
                 lambda x: torch.linalg.vector_norm(x, 1, dim=1), APPROXIMATED),
      _operation('norm_inf', _whole(*_SHAPE),
                 lambda x: torch.linalg.vector_norm(x, torch.inf, dim=0),
                 APPROXIMATED),
  )
