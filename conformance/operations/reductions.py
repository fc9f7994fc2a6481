"""Reductions, cumulative functions, and what is chosen by order."""

from __future__ import annotations

import torch

from .inputs import (DISTINCT, distinct, DISTINCT_UNEVEN, mask, NORMAL,
                     NORMAL_UNEVEN, SHAPE, UNEVEN, WHOLE, whole, WHOLE_UNEVEN)
from .operation import approximated, compound, exact, same_bits
from ..comparison import dtype_name


def _powers(g: torch.Generator) -> torch.Tensor:
  """Powers of two: their products are exact."""
  return 2.0**whole(*SHAPE, largest=2)(g)


def _rare(g: torch.Generator) -> torch.Tensor:
  return torch.rand(*SHAPE, generator=g) < 0.1


def _common(g: torch.Generator) -> torch.Tensor:
  return torch.rand(*UNEVEN, generator=g) < 0.9


# Sums, extremes and their places, products, norms, moments, of bools.
REDUCTIONS = (
    # Sums.
    exact('sum', torch.sum, WHOLE),
    exact('sum_dim_0', lambda x: x.sum(0), WHOLE),
    exact('sum_dim_1', lambda x: x.sum(1), WHOLE),
    exact('sum_large', lambda x: x.sum(1), whole(131, 517)),
    # Added one by one in 16 bits they stay at 256.
    exact('sum_long_bfloat16', torch.sum,
          lambda g: torch.ones(4096, dtype=torch.bfloat16)),
    exact('sum_keepdim', lambda x: x.sum(1, keepdim=True), WHOLE),
    exact('sum_two_dims', lambda x: x.sum((0, 2)), whole(8, 8, 4)),
    exact('sum_rank_1', torch.sum, whole(16)),
    exact('sum_uneven_dim_0', lambda x: x.sum(0), WHOLE_UNEVEN),
    exact('sum_uneven_dim_1', lambda x: x.sum(1), WHOLE_UNEVEN),
    exact('sum_uneven', torch.sum, WHOLE_UNEVEN),
    *(exact(f'sum_{dtype_name(dtype)}', lambda x: x.sum(1),
            whole(*SHAPE, dtype=dtype))
      for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int32,
                    torch.int64)),
    exact('sum_bool', lambda x: x.sum(0), mask(*SHAPE)),
    exact('sum_to_int64', lambda x: x.sum(1, dtype=torch.int64),
          whole(*SHAPE, dtype=torch.int32)),
    exact('mean', torch.mean, WHOLE),
    exact('mean_dim_0', lambda x: x.mean(0), WHOLE),
    approximated('mean_uneven', lambda x: x.mean(0), WHOLE_UNEVEN),
    exact('prod', torch.prod, _powers),
    exact('prod_dim_1', lambda x: x.prod(1), _powers),
    # Extremes.
    same_bits('amax', lambda x: x.amax(1), DISTINCT),
    same_bits('amin', lambda x: x.amin(0), DISTINCT),
    same_bits('max_all', torch.max, DISTINCT),
    same_bits('min_int32', torch.min, distinct(*SHAPE, dtype=torch.int32)),
    # All numbers below zero: what pads a shard must not be the largest.
    same_bits('amax_of_negative_uneven', lambda x: x.amax(0),
              lambda g: DISTINCT_UNEVEN(g) - 100),
    same_bits('amin_of_positive_uneven', lambda x: x.amin(1),
              lambda g: DISTINCT_UNEVEN(g) + 100),
    same_bits('max_with_indices', lambda x: x.max(1), DISTINCT),
    same_bits('min_with_indices', lambda x: x.min(0), DISTINCT),
    same_bits('argmax', torch.argmax, DISTINCT),
    same_bits('argmax_dim_0', lambda x: x.argmax(0), DISTINCT),
    same_bits('argmax_dim_1', lambda x: x.argmax(1), DISTINCT),
    same_bits('argmin_uneven', lambda x: x.argmin(1), DISTINCT_UNEVEN),
    same_bits('argmax_bfloat16', lambda x: x.argmax(1),
              distinct(*SHAPE, dtype=torch.bfloat16)),
    # Of bools.
    same_bits('any', lambda x: x.any(1), _rare),
    same_bits('any_all_dims', torch.any, _rare),
    same_bits('all', lambda x: x.all(1), _common),
    same_bits('all_dim_0', lambda x: x.all(0), _common),
    # Not count_nonzero, which gives torch_xla's users bools.
    same_bits('count', lambda x: (x != 0).sum(0), _rare),
    # Moments.
    compound('var', lambda x: x.var(1), NORMAL),
    compound('var_population', lambda x: x.var(0, correction=0), NORMAL),
    compound('std', lambda x: x.std(0), NORMAL),
    compound('var_mean', lambda x: torch.var_mean(x, dim=1), NORMAL),
    compound('var_uneven', lambda x: x.var(0), NORMAL_UNEVEN),
    approximated('logsumexp', lambda x: x.logsumexp(1), NORMAL),
    # Of which no exponential is finite.
    approximated('logsumexp_of_large', lambda x: x.logsumexp(0),
                 lambda g: NORMAL(g) + 200),
    approximated('logsumexp_uneven', lambda x: x.logsumexp(0), NORMAL_UNEVEN),
    # Norms.
    approximated('norm', torch.linalg.vector_norm, WHOLE),
    approximated('norm_1', lambda x: torch.linalg.vector_norm(x, 1, dim=1),
                 WHOLE),
    approximated('norm_inf',
                 lambda x: torch.linalg.vector_norm(x, torch.inf, dim=0),
                 WHOLE),
)


def _small_powers(g: torch.Generator) -> torch.Tensor:
  return 2.0**whole(*SHAPE, largest=1)(g)


# Along each dimension: split ones need what other devices have.
SCANS = (
    exact('cumsum_dim_0', lambda x: x.cumsum(0), WHOLE),
    exact('cumsum_dim_1', lambda x: x.cumsum(1), WHOLE),
    exact('cumsum_uneven_dim_0', lambda x: x.cumsum(0), WHOLE_UNEVEN),
    exact('cumsum_uneven_dim_1', lambda x: x.cumsum(1), WHOLE_UNEVEN),
    exact('cumsum_rank_1', lambda x: x.cumsum(0), whole(16)),
    exact('cumsum_int64', lambda x: x.cumsum(1),
          whole(*SHAPE, dtype=torch.int64)),
    exact('cumsum_bfloat16', lambda x: x.cumsum(0),
          whole(*SHAPE, dtype=torch.bfloat16)),
    exact('cumprod_dim_0', lambda x: x.cumprod(0), _small_powers),
    exact('cumprod_dim_1', lambda x: x.cumprod(1), _small_powers),
    same_bits('cummax', lambda x: x.cummax(1), DISTINCT),
    exact('diff', lambda x: x.diff(dim=1), WHOLE),
)

# Short rows are sorted stably by chance: many sorts insert there.
_LONG = (3, 517)

# Sorts of different numbers, and of equal ones where they are stable.
SORTING = (
    # Sorts.
    same_bits('sort_dim_0', lambda x: x.sort(0), DISTINCT),
    same_bits('sort_dim_1', lambda x: x.sort(1), DISTINCT),
    same_bits('sort_descending', lambda x: x.sort(1, descending=True),
              DISTINCT),
    same_bits('sort_stable', lambda x: x.sort(dim=1, stable=True),
              whole(*SHAPE, largest=2)),
    same_bits('sort_stable_long', lambda x: x.sort(dim=1, stable=True),
              whole(*_LONG, largest=2)),
    same_bits('sort_rank_1', lambda x: x.sort(), distinct(64)),
    same_bits('sort_uneven_dim_0', lambda x: x.sort(0), DISTINCT_UNEVEN),
    same_bits('sort_uneven_dim_1', lambda x: x.sort(1), DISTINCT_UNEVEN),
    same_bits('sort_int32', lambda x: x.sort(1),
              distinct(*SHAPE, dtype=torch.int32)),
    same_bits('sort_int64', lambda x: x.sort(1),
              distinct(*SHAPE, dtype=torch.int64)),
    same_bits('sort_bfloat16', lambda x: x.sort(1),
              distinct(*SHAPE, dtype=torch.bfloat16)),
    same_bits('argsort', lambda x: x.argsort(1), DISTINCT),
    # Chosen.
    same_bits('topk_dim_1', lambda x: x.topk(5, dim=1), DISTINCT),
    same_bits('topk_dim_0', lambda x: x.topk(3, dim=0), DISTINCT),
    same_bits('topk_smallest', lambda x: x.topk(4, dim=1, largest=False),
              DISTINCT),
    same_bits('topk_uneven', lambda x: x.topk(4, dim=0), DISTINCT_UNEVEN),
    same_bits('kthvalue', lambda x: x.kthvalue(3, dim=1), DISTINCT),
)
