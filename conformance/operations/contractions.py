"""Products of matrices, batches of them, and other contractions."""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from . import dtypes
from .inputs import whole
from .operation import operation, Operation
from .tolerance import EXACT

_exact = functools.partial(operation, 'contractions', EXACT)


def _einsum(text: str) -> Callable[..., torch.Tensor]:
  return lambda *tensors: torch.einsum(text, *tensors)


def _attention(query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor) -> torch.Tensor:
  """Computes causal attention to the largest scores alone.

  Softmax would give weights that a device may round to bfloat16.
  """
  scores = query @ key.transpose(1, 2)
  causal = torch.ones(8, 8, dtype=torch.bool, device=query.device).tril()
  scores = scores.masked_fill(~causal, float('-inf'))
  weights = (scores == scores.amax(2, keepdim=True)).to(value.dtype)
  return weights @ value


# Contractions of whole numbers, which every device computes exactly.
OPERATIONS: tuple[Operation, ...] = (
    # Products.
    _exact('matmul', torch.matmul, whole(8, 16), whole(16, 8)),
    *(_exact(f'matmul_{dtypes.name(dtype)}', torch.matmul,
             whole(8, 16, dtype=dtype), whole(16, 8, dtype=dtype))
      for dtype in (torch.bfloat16, torch.float16, torch.float64)),
    # Beyond the tiles that devices compute in, and no multiple of them.
    _exact('matmul_large', torch.matmul, whole(131, 517), whole(517, 259)),
    # Added one by one in 16 bits they stay at 256.
    _exact('matmul_long_bfloat16', torch.matmul,
           lambda g: torch.ones(3, 1024, dtype=torch.bfloat16),
           lambda g: torch.ones(1024, 5, dtype=torch.bfloat16)),
    _exact('matmul_uneven', torch.matmul, whole(7, 9), whole(9, 5)),
    _exact('matmul_transposed', lambda a, b: a @ b.T, whole(8, 16),
           whole(24, 16)),
    _exact('matmul_both_transposed', lambda a, b: a.T @ b.T, whole(16, 8),
           whole(24, 16)),
    _exact('matmul_of_itself', lambda a: a @ a.T, whole(8, 16)),
    _exact('matmul_chain', lambda a, b, c: a @ b @ c, whole(8, 16),
           whole(16, 8), whole(8, 16)),
    _exact('matmul_batch_by_matrix', torch.matmul, whole(8, 8, 4), whole(4,
                                                                         16)),
    _exact('matmul_batch_broadcast', torch.matmul, whole(8, 1, 4, 6),
           whole(8, 6, 2)),
    _exact('mv', torch.mv, whole(8, 16), whole(16)),
    _exact('dot', torch.dot, whole(16), whole(16)),
    _exact('outer', torch.outer, whole(8), whole(16)),
    _exact('bmm', torch.bmm, whole(8, 8, 4), whole(8, 4, 8)),
    _exact('bmm_bfloat16', torch.bmm, whole(8, 8, 4, dtype=torch.bfloat16),
           whole(8, 4, 8, dtype=torch.bfloat16)),
    _exact('bmm_uneven', torch.bmm, whole(3, 5, 7), whole(3, 7, 2)),
    _exact('addmm', torch.addmm, whole(8, 8), whole(8, 16), whole(16, 8)),
    _exact('addmm_row', torch.addmm, whole(8), whole(8, 16), whole(16, 8)),
    _exact('baddbmm', torch.baddbmm, whole(8, 8, 8), whole(8, 8, 4),
           whole(8, 4, 8)),
    # Einsums.
    _exact('einsum_heads', _einsum('bqhd,bkhd->bhqk'), whole(8, 8, 2, 4),
           whole(8, 8, 2, 4)),
    _exact('einsum_transposed', _einsum('ij,jk->ki'), whole(8, 16),
           whole(16, 8)),
    _exact('einsum_three', _einsum('ij,jk,kl->il'), whole(8, 16), whole(16, 8),
           whole(8, 8)),
    _exact('einsum_experts', _einsum('etd,edf->etf'), whole(8, 8, 4),
           whole(8, 4, 16)),
    _exact('tensordot', lambda a, b: torch.tensordot(a, b, ([1, 2], [0, 1])),
           whole(8, 8, 4), whole(8, 4, 2)),
    # Layers.
    _exact('linear', F.linear, whole(8, 16), whole(24, 16), whole(24)),
    _exact('linear_rank_3', F.linear, whole(8, 8, 4), whole(16, 4), whole(16)),
    _exact('linear_bfloat16', F.linear, whole(8, 16, dtype=torch.bfloat16),
           whole(24, 16, dtype=torch.bfloat16), whole(24,
                                                      dtype=torch.bfloat16)),
    _exact('linear_uneven', F.linear, whole(7, 9), whole(5, 9), whole(5)),
    _exact('bilinear', F.bilinear, whole(8, 4), whole(8, 6), whole(8, 4, 6)),
    _exact('attention', _attention, whole(8, 8, 4), whole(8, 8, 4),
           whole(8, 8, 4)),
)
