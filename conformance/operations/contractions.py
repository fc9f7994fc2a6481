"""Contractions: products of matrices and convolutions, of whole numbers.

Every device computes them exactly.
"""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from .inputs import WHOLE, whole, WHOLE_UNEVEN
from .operation import exact
from .tolerance import dtype_name


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
CONTRACTIONS = (
    # Products.
    exact('matmul', torch.matmul, WHOLE, whole(16, 8)),
    *(exact(f'matmul_{dtype_name(dtype)}', torch.matmul,
            whole(8, 16, dtype=dtype), whole(16, 8, dtype=dtype))
      for dtype in (torch.bfloat16, torch.float16, torch.float64)),
    # Beyond the tiles that devices compute in, and no multiple of them.
    exact('matmul_large', torch.matmul, whole(131, 517), whole(517, 259)),
    # Added one by one in 16 bits they stay at 256.
    exact('matmul_long_bfloat16', torch.matmul,
          lambda g: torch.ones(3, 1024, dtype=torch.bfloat16),
          lambda g: torch.ones(1024, 5, dtype=torch.bfloat16)),
    exact('matmul_uneven', torch.matmul, WHOLE_UNEVEN, whole(9, 5)),
    exact('matmul_transposed', lambda a, b: a @ b.T, WHOLE, whole(24, 16)),
    exact('matmul_both_transposed', lambda a, b: a.T @ b.T, whole(16, 8),
          whole(24, 16)),
    exact('matmul_of_itself', lambda a: a @ a.T, WHOLE),
    exact('matmul_chain', lambda a, b, c: a @ b @ c, WHOLE, whole(16, 8),
          WHOLE),
    exact('matmul_batch_by_matrix', torch.matmul, whole(8, 8, 4), whole(4, 16)),
    exact('matmul_batch_broadcast', torch.matmul, whole(8, 1, 4, 6),
          whole(8, 6, 2)),
    exact('mv', torch.mv, WHOLE, whole(16)),
    exact('dot', torch.dot, whole(16), whole(16)),
    exact('outer', torch.outer, whole(8), whole(16)),
    exact('bmm', torch.bmm, whole(8, 8, 4), whole(8, 4, 8)),
    exact('bmm_bfloat16', torch.bmm, whole(8, 8, 4, dtype=torch.bfloat16),
          whole(8, 4, 8, dtype=torch.bfloat16)),
    exact('bmm_uneven', torch.bmm, whole(3, 5, 7), whole(3, 7, 2)),
    exact('addmm', torch.addmm, whole(8, 8), WHOLE, whole(16, 8)),
    exact('addmm_row', torch.addmm, whole(8), WHOLE, whole(16, 8)),
    exact('baddbmm', torch.baddbmm, whole(8, 8, 8), whole(8, 8, 4),
          whole(8, 4, 8)),
    # Einsums.
    exact('einsum_heads', _einsum('bqhd,bkhd->bhqk'), whole(8, 8, 2, 4),
          whole(8, 8, 2, 4)),
    exact('einsum_transposed', _einsum('ij,jk->ki'), WHOLE, whole(16, 8)),
    exact('einsum_three', _einsum('ij,jk,kl->il'), WHOLE, whole(16, 8),
          whole(8, 8)),
    exact('einsum_experts', _einsum('etd,edf->etf'), whole(8, 8, 4),
          whole(8, 4, 16)),
    exact('tensordot', lambda a, b: torch.tensordot(a, b, ([1, 2], [0, 1])),
          whole(8, 8, 4), whole(8, 4, 2)),
    # Layers.
    exact('linear', F.linear, WHOLE, whole(24, 16), whole(24)),
    exact('linear_rank_3', F.linear, whole(8, 8, 4), whole(16, 4), whole(16)),
    exact('linear_bfloat16', F.linear, whole(8, 16, dtype=torch.bfloat16),
          whole(24, 16, dtype=torch.bfloat16), whole(24, dtype=torch.bfloat16)),
    exact('linear_uneven', F.linear, WHOLE_UNEVEN, whole(5, 9), whole(5)),
    exact('bilinear', F.bilinear, whole(8, 4), whole(8, 6), whole(8, 4, 6)),
    exact('attention', _attention, whole(8, 8, 4), whole(8, 8, 4),
          whole(8, 8, 4)),
)

_few = functools.partial(whole, largest=3)
_IMAGE = _few(8, 8, 6, 6)

# Convolutions of whole numbers, which every device computes exactly.
CONVOLUTIONS = (
    # Plain.
    exact('conv1d', F.conv1d, _few(8, 8, 12), _few(16, 8, 3), _few(16)),
    exact('conv2d', F.conv2d, _IMAGE, _few(16, 8, 3, 3), _few(16)),
    exact('conv2d_bfloat16', F.conv2d, _few(8, 8, 6, 6, dtype=torch.bfloat16),
          _few(8, 8, 3, 3, dtype=torch.bfloat16)),
    exact('conv2d_1x1', F.conv2d, _IMAGE, _few(16, 8, 1, 1)),
    exact('conv2d_uneven', F.conv2d, _few(3, 5, 7, 9), _few(6, 5, 3, 3),
          _few(6)),
    exact('conv3d', F.conv3d, _few(8, 8, 4, 4, 4), _few(8, 8, 2, 2, 2)),
    # Of other windows.
    exact('conv1d_padding', lambda x, w: F.conv1d(x, w, padding=1),
          _few(8, 8, 12), _few(16, 8, 3)),
    exact('conv2d_padding', lambda x, w: F.conv2d(x, w, padding=(1, 2)), _IMAGE,
          _few(8, 8, 3, 3)),
    exact('conv2d_stride', lambda x, w: F.conv2d(x, w, stride=2, padding=1),
          _IMAGE, _few(8, 8, 3, 3)),
    exact('conv2d_dilation', lambda x, w: F.conv2d(x, w, dilation=2), _IMAGE,
          _few(8, 8, 3, 3)),
    exact('conv1d_groups', lambda x, w: F.conv1d(x, w, groups=2),
          _few(8, 8, 12), _few(16, 4, 3)),
    exact('conv2d_groups', lambda x, w: F.conv2d(x, w, groups=4), _IMAGE,
          _few(16, 2, 3, 3)),
    exact('conv2d_depthwise', lambda x, w: F.conv2d(x, w, groups=8), _IMAGE,
          _few(8, 1, 3, 3)),
    # Transposed.
    exact('conv_transpose1d', F.conv_transpose1d, _few(8, 8, 6), _few(8, 16,
                                                                      3)),
    exact('conv_transpose2d', F.conv_transpose2d, _few(8, 8, 4, 4),
          _few(8, 8, 3, 3)),
    exact(
        'conv_transpose2d_stride', lambda x, w: F.conv_transpose2d(
            x, w, stride=2, padding=1, output_padding=1), _few(8, 8, 4, 4),
        _few(8, 8, 3, 3)),
    exact('conv_transpose2d_groups',
          lambda x, w: F.conv_transpose2d(x, w, groups=2), _few(8, 8, 4, 4),
          _few(8, 4, 3, 3)),
)
