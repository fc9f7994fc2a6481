"""Elements moved: shapes and orders, taken out by indices, put in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .inputs import (different_indices, DISTINCT, distinct, DISTINCT_UNEVEN,
                     indices, mask, SHAPE, UNEVEN, WHOLE, whole, WHOLE_UNEVEN,
                     Inputs)
from .operation import exact, same_bits
from ..comparison import dtype_name

_BATCH, _LARGE = distinct(8, 8, 4), distinct(131, 517)


def _pad(*size: int, **how: object) -> Callable[[torch.Tensor], torch.Tensor]:
  return lambda x: F.pad(x, size, **how)


# Reshapes, transposes, joins, splits, paddings, triangles, windows.
SHAPES = (
    # Reshapes.
    same_bits('reshape_merged', lambda x: x.reshape(64, 4), _BATCH),
    same_bits('reshape_split', lambda x: x.reshape(2, 4, 16), DISTINCT),
    same_bits('reshape_across', lambda x: x.reshape(32, 4), DISTINCT),
    same_bits('reshape_uneven', lambda x: x.reshape(9, 7), DISTINCT_UNEVEN),
    same_bits('flatten', torch.flatten, _BATCH),
    same_bits('transpose_large', lambda x: x.T.contiguous(), _LARGE),
    same_bits('unsqueeze', lambda x: x.unsqueeze(1), DISTINCT),
    same_bits('squeeze', lambda x: x.squeeze(1), distinct(8, 1, 16)),
    same_bits('expand', lambda x: x.expand(3, 8, 16), distinct(8, 1)),
    same_bits('repeat', lambda x: x.repeat(2, 3), DISTINCT),
    same_bits('repeat_interleave', lambda x: x.repeat_interleave(3, dim=0),
              DISTINCT),
    same_bits('tile_uneven', lambda x: x.tile(3, 1), DISTINCT_UNEVEN),
    *(same_bits(f'reshape_{dtype_name(dtype)}', lambda x: x.reshape(16, 8),
                distinct(*SHAPE, dtype=dtype))
      for dtype in (torch.bfloat16, torch.int64)),
    same_bits('reshape_bool', lambda x: x.reshape(16, 8), mask(*SHAPE)),
    # Orders.
    same_bits('transpose', lambda x: x.T, DISTINCT),
    same_bits('transpose_uneven', lambda x: x.T, DISTINCT_UNEVEN),
    same_bits('transpose_reshape', lambda x: x.T.reshape(8, 16), DISTINCT),
    same_bits('permute', lambda x: x.permute(2, 0, 1), _BATCH),
    same_bits('movedim', lambda x: x.movedim(0, 2), distinct(8, 8, 4, 2)),
    same_bits('flip_dim_0', lambda x: x.flip(0), DISTINCT),
    same_bits('flip_both', lambda x: x.flip(0, 1), DISTINCT),
    same_bits('flip_uneven', lambda x: x.flip(0), DISTINCT_UNEVEN),
    same_bits('roll', lambda x: x.roll(3, 0), DISTINCT),
    same_bits('roll_both', lambda x: x.roll((1, -5), (0, 1)), DISTINCT),
    same_bits('roll_uneven', lambda x: x.roll(2, 1), DISTINCT_UNEVEN),
    same_bits('rot90', torch.rot90, DISTINCT),
    same_bits('pixel_shuffle', lambda x: F.pixel_shuffle(x, 2),
              distinct(8, 8, 3, 3)),
    # Joined.
    same_bits('cat_dim_0', lambda a, b: torch.cat((a, b)), DISTINCT, DISTINCT),
    same_bits('cat_dim_1', lambda a, b: torch.cat((a, b), 1), DISTINCT,
              distinct(8, 8)),
    same_bits('cat_uneven', lambda a, b: torch.cat((a, b)), DISTINCT_UNEVEN,
              distinct(5, 9)),
    same_bits('cat_of_dtypes', lambda a, b: torch.cat((a, b), 1), WHOLE,
              whole(8, 8, dtype=torch.int32)),
    same_bits('stack_dim_0', lambda a, b: torch.stack((a, b)), DISTINCT,
              DISTINCT),
    same_bits('stack_dim_2', lambda a, b: torch.stack((a, b), 2), DISTINCT,
              DISTINCT),
    # Split.
    same_bits('split', lambda x: x.split((3, 5)), DISTINCT),
    same_bits('chunk', lambda x: x.chunk(3, 1), DISTINCT),
    same_bits('unbind', lambda x: x.unbind(0)[::3], DISTINCT),
    # Padded.
    same_bits('pad_zeros', _pad(1, 2, 3, 0), DISTINCT),
    same_bits('pad_number', _pad(2, 0, 1, 1, value=-7.0), DISTINCT),
    same_bits('pad_negative', _pad(-2, 1, 0, -3), DISTINCT),
    same_bits('pad_uneven', _pad(0, 0, 1, 4), DISTINCT_UNEVEN),
    same_bits('pad_reflect', _pad(2, 3, mode='reflect'), distinct(8, 8, 6)),
    same_bits('pad_replicate', _pad(1, 4, mode='replicate'), distinct(8, 8, 6)),
    same_bits('pad_circular', _pad(2, 2, mode='circular'), distinct(8, 8, 6)),
    same_bits('pad_reflect_2d', _pad(1, 2, 2, 1, mode='reflect'),
              distinct(8, 8, 4, 4)),
    # Masked.
    same_bits('tril', torch.tril, DISTINCT),
    same_bits('triu_above', lambda x: x.triu(2), DISTINCT),
    same_bits('tril_uneven', lambda x: x.tril(-1), DISTINCT_UNEVEN),
    same_bits('diagonal', torch.diagonal, DISTINCT),
    # Not of the first two dimensions, for which torch_xla takes the last two.
    same_bits('diagonal_offset', lambda x: x.diagonal(1, 1, 2), _BATCH),
    same_bits('diag_embed', torch.diag_embed, distinct(8, 8)),
    same_bits('trace', torch.trace, distinct(8, 8)),
)

_SOME_ROWS: Inputs = (DISTINCT, indices(8, 16))
_TABLE: Inputs = (indices(16, 8, 8), distinct(16, 8))

# Slices with steps and from the end, gathers, embeddings.
INDEXING = (
    # Slices.
    same_bits('slice', lambda x: x[2:7], DISTINCT),
    same_bits('slice_dim_1', lambda x: x[:, 3:], DISTINCT),
    same_bits('slice_from_end', lambda x: x[-3:, :-5], DISTINCT),
    same_bits('slice_step', lambda x: x[1::3, ::2], DISTINCT),
    same_bits('slice_uneven', lambda x: x[1:6:2], DISTINCT_UNEVEN),
    same_bits('select_row', lambda x: x[5], DISTINCT),
    same_bits('select_column', lambda x: x[:, -2], DISTINCT),
    same_bits('select_element', lambda x: x[3, 7], DISTINCT),
    same_bits('narrow', lambda x: x.narrow(1, 5, 6), DISTINCT),
    same_bits('ellipsis_and_none', lambda x: x[..., None, 1:3], _BATCH),
    # By indices.
    same_bits('index_select_dim_0', lambda x, i: x.index_select(0, i),
              *_SOME_ROWS),
    same_bits('index_select_dim_1', lambda x, i: x.index_select(1, i), DISTINCT,
              indices(16, 8)),
    same_bits('index_select_int32', lambda x, i: x.index_select(0, i), DISTINCT,
              lambda g: indices(8, 16)(g).int()),
    same_bits('index_select_uneven', lambda x, i: x.index_select(0, i),
              DISTINCT_UNEVEN, indices(7, 5)),
    same_bits('index_rows', lambda x, i: x[i], *_SOME_ROWS),
    same_bits('index_columns', lambda x, i: x[:, i], DISTINCT, indices(16, 8)),
    same_bits('index_elements', lambda x, i, j: x[i, j], DISTINCT,
              indices(8, 8), indices(16, 8)),
    same_bits('index_negative', lambda x, i: x[i], DISTINCT,
              lambda g: indices(8, 16)(g) - 4),
    same_bits('index_of_matrix', lambda x, i: x[i], DISTINCT, indices(8, 8, 4)),
    same_bits('take', torch.take, DISTINCT, indices(128, 8, 4)),
    # Gathers.
    same_bits('gather_dim_0', lambda x, i: x.gather(0, i), DISTINCT,
              indices(8, *SHAPE)),
    same_bits('gather_dim_1', lambda x, i: x.gather(1, i), DISTINCT,
              indices(16, *SHAPE)),
    same_bits('gather_uneven', lambda x, i: x.gather(1, i), DISTINCT_UNEVEN,
              indices(9, 7, 3)),
    same_bits('gather_rank_3', lambda x, i: x.gather(1, i), _BATCH,
              indices(8, 8, 8, 4)),
    same_bits('take_along_dim', lambda x, i: torch.take_along_dim(x, i, 1),
              DISTINCT, indices(16, 8, 4)),
    # Tables.
    same_bits('embedding', F.embedding, *_TABLE),
    same_bits('embedding_rank_1', F.embedding, indices(16, 8), distinct(16, 8)),
    same_bits('embedding_uneven', F.embedding, indices(11, 7, 3),
              distinct(11, 5)),
    same_bits('embedding_bfloat16', F.embedding, indices(16, 8, 8),
              distinct(16, 8, dtype=torch.bfloat16)),
    same_bits('one_hot', lambda i: F.one_hot(i, 16), indices(16, 8, 8)),
)

_DIFFERENT_ROWS: Inputs = (WHOLE, different_indices(8, 4), whole(4, 16))
# A permutation for each of a matrix's rows.
_PERMUTED: Inputs = (WHOLE,
                     lambda g: torch.rand(*SHAPE, generator=g).argsort(1),
                     WHOLE)


def _rows(count: int, chosen: int, width: int) -> Inputs:
  """A table, rows of it that may come twice, and what to do with them."""
  return whole(count, width), indices(count, chosen), whole(chosen, width)


def _elements(dim: int) -> Inputs:
  """A matrix, for each element an index along `dim`, and elements."""
  return WHOLE, indices(SHAPE[dim], *SHAPE), WHOLE


def _assign(index: Any) -> Callable[..., torch.Tensor]:

  def call(x: torch.Tensor, y: object) -> torch.Tensor:
    x = x.clone()
    x[index] = y
    return x

  return call


def _add_to_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[:, 2:6] += y
  return x


# Indices that come more than once are added; what is set comes once.
SCATTERS = (
    # Added.
    exact('index_add_dim_0', lambda x, i, y: x.index_add(0, i, y),
          *_rows(8, 16, 16)),
    exact('index_add_dim_1', lambda x, i, y: x.index_add(1, i, y), WHOLE,
          indices(16, 8), whole(8, 8)),
    exact('index_add_alpha', lambda x, i, y: x.index_add(0, i, y, alpha=2),
          *_rows(8, 16, 16)),
    exact('index_add_uneven', lambda x, i, y: x.index_add(0, i, y),
          *_rows(7, 5, 9)),
    exact('scatter_add_dim_0', lambda x, i, y: x.scatter_add(0, i, y),
          *_elements(0)),
    exact('scatter_add_dim_1', lambda x, i, y: x.scatter_add(1, i, y),
          *_elements(1)),
    exact('scatter_add_int64', lambda x, i, y: x.scatter_add(1, i, y),
          whole(*SHAPE, dtype=torch.int64), indices(16, *SHAPE),
          whole(*SHAPE, dtype=torch.int64)),
    exact('scatter_reduce_amax',
          lambda x, i, y: x.scatter_reduce(1, i, y, 'amax'), *_elements(1)),
    exact('scatter_reduce_sum',
          lambda x, i, y: x.scatter_reduce(0, i, y, 'sum'), *_elements(0)),
    exact('index_put_accumulate', lambda x, i, j, y: x.index_put(
        (i, j), y, accumulate=True), WHOLE, indices(8, 16), indices(16, 16),
          whole(16)),
    exact('index_put_rows_accumulate', lambda x, i, y: x.index_put(
        (i,), y, accumulate=True), *_rows(8, 16, 16)),
    # Set.
    exact('scatter', lambda x, i, y: x.scatter(1, i, y), *_PERMUTED),
    exact('scatter_number', lambda x, i, y: x.scatter(1, i[:, :3], 7.0),
          *_PERMUTED),
    exact('index_put', lambda x, i, y: x.index_put((i,), y), *_DIFFERENT_ROWS),
    exact('index_copy', lambda x, i, y: x.index_copy(0, i, y),
          *_DIFFERENT_ROWS),
    exact('index_fill', lambda x, i, y: x.index_fill(0, i, -5.0),
          *_DIFFERENT_ROWS),
    exact('assign_rows', lambda x, rows, y: _assign(rows)(x, y),
          *_DIFFERENT_ROWS),
    # Masked.
    exact('masked_fill', lambda x, m: x.masked_fill(m, -5.0), WHOLE,
          mask(*SHAPE)),
    exact('masked_fill_row', lambda x, m: x.masked_fill(m, 2.0), WHOLE,
          mask(16)),
    exact('masked_fill_uneven', lambda x, m: x.masked_fill(m, -5.0),
          WHOLE_UNEVEN, mask(*UNEVEN)),
    # Into slices.
    exact('assign_slice', _assign(slice(2, 5)), WHOLE, whole(3, 16)),
    exact('assign_step', _assign((slice(None), slice(None, None, 2))), WHOLE,
          whole(8, 8)),
    exact('fill_column', lambda x: _assign((slice(None), 3))(x, 9.0), WHOLE),
    exact('add_to_slice', _add_to_slice, WHOLE_UNEVEN, whole(7, 4)),
    exact('slice_scatter', lambda x, y: x.slice_scatter(y, 1, 2, 7), WHOLE,
          whole(8, 5)),
    exact('select_scatter', lambda x, y: x.select_scatter(y, 0, 3), WHOLE,
          whole(16)),
    exact('diagonal_scatter', torch.diagonal_scatter, whole(8, 8), whole(8)),
)
