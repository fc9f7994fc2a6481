"""Products of matrices, batches of them, and other contractions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import dtypes
from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import EXACT

_FAMILY = 'contractions'


def operations() -> tuple[Operation, ...]:
  """Contractions of whole numbers, which every device computes exactly."""
  return (*_products(), *_einsums(), *_layers())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, EXACT)


def _whole(*shapes: tuple[int, ...],
           dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: tuple(
      inputs.whole(g, *shape, dtype=dtype) for shape in shapes)


def _products() -> tuple[Operation, ...]:
  even = ((8, 16), (16, 8))
  return (
      _operation('matmul', _whole(*even), torch.matmul),
      *(_operation(f'matmul_{dtypes.name(dtype)}', _whole(*even, dtype=dtype),
                   torch.matmul)
        for dtype in (torch.bfloat16, torch.float16, torch.float64)),
      # Beyond the tiles that devices compute in, and no multiple of them.
      _operation('matmul_large', _whole((131, 517), (517, 259)), torch.matmul),
      # Added one by one in 16 bits they stay at 256.
      _operation(
          'matmul_long_bfloat16', lambda g:
          (torch.ones(3, 1024, dtype=torch.bfloat16),
           torch.ones(1024, 5, dtype=torch.bfloat16)), torch.matmul),
      _operation('matmul_uneven', _whole((7, 9), (9, 5)), torch.matmul),
      _operation('matmul_transposed', _whole((8, 16), (24, 16)),
                 lambda a, b: a @ b.T),
      _operation('matmul_both_transposed', _whole((16, 8), (24, 16)),
                 lambda a, b: a.T @ b.T),
      _operation('matmul_of_itself', _whole((8, 16)), lambda a: a @ a.T),
      _operation('matmul_chain', _whole((8, 16), (16, 8), (8, 16)),
                 lambda a, b, c: a @ b @ c),
      _operation('matmul_batch_by_matrix', _whole((8, 8, 4), (4, 16)),
                 torch.matmul),
      _operation('matmul_batch_broadcast', _whole((8, 1, 4, 6), (8, 6, 2)),
                 torch.matmul),
      _operation('mv', _whole((8, 16), (16,)), torch.mv),
      _operation('dot', _whole((16,), (16,)), torch.dot),
      _operation('outer', _whole((8,), (16,)), torch.outer),
      _operation('bmm', _whole((8, 8, 4), (8, 4, 8)), torch.bmm),
      _operation('bmm_bfloat16',
                 _whole((8, 8, 4), (8, 4, 8), dtype=torch.bfloat16), torch.bmm),
      _operation('bmm_uneven', _whole((3, 5, 7), (3, 7, 2)), torch.bmm),
      _operation('addmm', _whole((8, 8), (8, 16), (16, 8)), torch.addmm),
      _operation('addmm_row', _whole((8,), (8, 16), (16, 8)), torch.addmm),
      _operation('baddbmm', _whole((8, 8, 8), (8, 8, 4), (8, 4, 8)),
                 torch.baddbmm),
  )


def _einsums() -> tuple[Operation, ...]:
  einsum = lambda text: lambda *tensors: torch.einsum(text, *tensors)
  return (
      _operation('einsum_heads', _whole((8, 8, 2, 4), (8, 8, 2, 4)),
                 einsum('bqhd,bkhd->bhqk')),
      _operation('einsum_transposed', _whole((8, 16), (16, 8)),
                 einsum('ij,jk->ki')),
      _operation('einsum_three', _whole((8, 16), (16, 8), (8, 8)),
                 einsum('ij,jk,kl->il')),
      _operation('einsum_experts', _whole((8, 8, 4), (8, 4, 16)),
                 einsum('etd,edf->etf')),
      _operation('tensordot', _whole((8, 8, 4), (8, 4, 2)),
                 lambda a, b: torch.tensordot(a, b, ([1, 2], [0, 1]))),
  )


def _layers() -> tuple[Operation, ...]:
  return (
      _operation('linear', _whole((8, 16), (24, 16), (24,)), F.linear),
      _operation('linear_rank_3', _whole((8, 8, 4), (16, 4), (16,)), F.linear),
      _operation('linear_bfloat16',
                 _whole((8, 16), (24, 16), (24,), dtype=torch.bfloat16),
                 F.linear),
      _operation('linear_uneven', _whole((7, 9), (5, 9), (5,)), F.linear),
      _operation('bilinear', _whole((8, 4), (8, 6), (8, 4, 6)), F.bilinear),
      _operation('attention', _whole((8, 8, 4), (8, 8, 4), (8, 8, 4)),
                 _attention),
  )


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
