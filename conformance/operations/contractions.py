"""Contractions: products of matrices and convolutions, of whole numbers.

Every device computes them exactly.
"""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from .inputs import WHOLE, whole
from .operation import exact, Operation
from ..comparison import dtype_name


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


def _exact(name: str,
           function: Callable[..., torch.Tensor],
           *shapes: tuple[int, ...],
           largest: int = 4,
           dtype: torch.dtype = torch.float32,
           **how: object) -> Operation:
  """An operation of whole numbers, which every device computes exactly."""
  return exact(
      name, functools.partial(function, **how),
      *(whole(*shape, largest=largest, dtype=dtype) for shape in shapes))


_BF16 = torch.bfloat16

CONTRACTIONS = (
    # Products.
    _exact('matmul', torch.matmul, (8, 16), (16, 8)),
    *(_exact(
        f'matmul_{dtype_name(dtype)}',
        torch.matmul, (8, 16), (16, 8),
        dtype=dtype) for dtype in (_BF16, torch.float16, torch.float64)),
    # Beyond the tiles that devices compute in, and no multiple of them.
    _exact('matmul_large', torch.matmul, (131, 517), (517, 259)),
    # Added one by one in 16 bits they stay at 256.
    exact('matmul_long_bfloat16', torch.matmul,
          lambda g: torch.ones(3, 1024, dtype=_BF16),
          lambda g: torch.ones(1024, 5, dtype=_BF16)),
    _exact('matmul_uneven', torch.matmul, (7, 9), (9, 5)),
    _exact('matmul_transposed', lambda a, b: a @ b.T, (8, 16), (24, 16)),
    _exact('matmul_both_transposed', lambda a, b: a.T @ b.T, (16, 8), (24, 16)),
    exact('matmul_of_itself', lambda a: a @ a.T, WHOLE),
    _exact('matmul_chain', lambda a, b, c: a @ b @ c, (8, 16), (16, 8),
           (8, 16)),
    _exact('matmul_batch_by_matrix', torch.matmul, (8, 8, 4), (4, 16)),
    _exact('matmul_batch_broadcast', torch.matmul, (8, 1, 4, 6), (8, 6, 2)),
    _exact('mv', torch.mv, (8, 16), (16,)),
    _exact('dot', torch.dot, (16,), (16,)),
    _exact('outer', torch.outer, (8,), (16,)),
    _exact('bmm', torch.bmm, (8, 8, 4), (8, 4, 8)),
    _exact('bmm_bfloat16', torch.bmm, (8, 8, 4), (8, 4, 8), dtype=_BF16),
    _exact('bmm_uneven', torch.bmm, (3, 5, 7), (3, 7, 2)),
    _exact('addmm', torch.addmm, (8, 8), (8, 16), (16, 8)),
    _exact('addmm_row', torch.addmm, (8,), (8, 16), (16, 8)),
    _exact('baddbmm', torch.baddbmm, (8, 8, 8), (8, 8, 4), (8, 4, 8)),
    # Einsums.
    _exact('einsum_heads', _einsum('bqhd,bkhd->bhqk'), (8, 8, 2, 4),
           (8, 8, 2, 4)),
    _exact('einsum_transposed', _einsum('ij,jk->ki'), (8, 16), (16, 8)),
    _exact('einsum_three', _einsum('ij,jk,kl->il'), (8, 16), (16, 8), (8, 8)),
    _exact('einsum_experts', _einsum('etd,edf->etf'), (8, 8, 4), (8, 4, 16)),
    _exact('tensordot', lambda a, b: torch.tensordot(a, b, ([1, 2], [0, 1])),
           (8, 8, 4), (8, 4, 2)),
    # Layers.
    _exact('linear', F.linear, (8, 16), (24, 16), (24,)),
    _exact('linear_rank_3', F.linear, (8, 8, 4), (16, 4), (16,)),
    _exact('linear_bfloat16', F.linear, (8, 16), (24, 16), (24,), dtype=_BF16),
    _exact('linear_uneven', F.linear, (7, 9), (5, 9), (5,)),
    _exact('bilinear', F.bilinear, (8, 4), (8, 6), (8, 4, 6)),
    _exact('attention', _attention, (8, 8, 4), (8, 8, 4), (8, 8, 4)),
)

_few = functools.partial(_exact, largest=3)
_IMAGE = (8, 8, 6, 6)

CONVOLUTIONS = (
    # Plain.
    _few('conv1d', F.conv1d, (8, 8, 12), (16, 8, 3), (16,)),
    _few('conv2d', F.conv2d, _IMAGE, (16, 8, 3, 3), (16,)),
    _few('conv2d_bfloat16', F.conv2d, _IMAGE, (8, 8, 3, 3), dtype=_BF16),
    _few('conv2d_1x1', F.conv2d, _IMAGE, (16, 8, 1, 1)),
    _few('conv2d_uneven', F.conv2d, (3, 5, 7, 9), (6, 5, 3, 3), (6,)),
    _few('conv3d', F.conv3d, (8, 8, 4, 4, 4), (8, 8, 2, 2, 2)),
    # Of other windows.
    _few('conv1d_padding', F.conv1d, (8, 8, 12), (16, 8, 3), padding=1),
    _few('conv2d_padding', F.conv2d, _IMAGE, (8, 8, 3, 3), padding=(1, 2)),
    _few('conv2d_stride', F.conv2d, _IMAGE, (8, 8, 3, 3), stride=2, padding=1),
    _few('conv2d_dilation', F.conv2d, _IMAGE, (8, 8, 3, 3), dilation=2),
    _few('conv1d_groups', F.conv1d, (8, 8, 12), (16, 4, 3), groups=2),
    _few('conv2d_groups', F.conv2d, _IMAGE, (16, 2, 3, 3), groups=4),
    _few('conv2d_depthwise', F.conv2d, _IMAGE, (8, 1, 3, 3), groups=8),
    # Transposed.
    _few('conv_transpose1d', F.conv_transpose1d, (8, 8, 6), (8, 16, 3)),
    _few('conv_transpose2d', F.conv_transpose2d, (8, 8, 4, 4), (8, 8, 3, 3)),
    _few(
        'conv_transpose2d_stride',
        F.conv_transpose2d, (8, 8, 4, 4), (8, 8, 3, 3),
        stride=2,
        padding=1,
        output_padding=1),
    _few(
        'conv_transpose2d_groups',
        F.conv_transpose2d, (8, 8, 4, 4), (8, 4, 3, 3),
        groups=2),
)
