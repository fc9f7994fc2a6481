"""Elements put in: at indices, where a mask says, into slices."""

from __future__ import annotations

import functools

import torch

from .inputs import different_indices, indices, mask, whole, Inputs
from .operation import operation, Operation
from .tolerance import EXACT

_exact = functools.partial(operation, 'scatters', EXACT)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_MATRIX = whole(*_SHAPE)
_DIFFERENT_ROWS: Inputs = (_MATRIX, different_indices(8, 4), whole(4, 16))
# A permutation for each of a matrix's rows.
_PERMUTED: Inputs = (_MATRIX,
                     lambda g: torch.rand(*_SHAPE, generator=g).argsort(1),
                     _MATRIX)


def _rows(count: int, chosen: int, width: int) -> Inputs:
  """A table, rows of it that may come twice, and what to do with them."""
  return whole(count, width), indices(count, chosen), whole(chosen, width)


def _elements(dim: int) -> Inputs:
  """A matrix, for each element an index along `dim`, and elements."""
  return _MATRIX, indices(_SHAPE[dim], *_SHAPE), _MATRIX


def _assign_rows(x: torch.Tensor, rows: torch.Tensor,
                 values: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[rows] = values
  return x


def _assign_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[2:5] = y
  return x


def _assign_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[:, ::2] = y
  return x


def _fill_column(x: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[:, 3] = 9.0
  return x


def _add_to_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[:, 2:6] += y
  return x


# Indices that come more than once are added; what is set comes once.
OPERATIONS: tuple[Operation, ...] = (
    # Added.
    _exact('index_add_dim_0', lambda x, i, y: x.index_add(0, i, y),
           *_rows(8, 16, 16)),
    _exact('index_add_dim_1', lambda x, i, y: x.index_add(1, i, y), _MATRIX,
           indices(16, 8), whole(8, 8)),
    _exact('index_add_alpha', lambda x, i, y: x.index_add(0, i, y, alpha=2),
           *_rows(8, 16, 16)),
    _exact('index_add_uneven', lambda x, i, y: x.index_add(0, i, y),
           *_rows(7, 5, 9)),
    _exact('scatter_add_dim_0', lambda x, i, y: x.scatter_add(0, i, y),
           *_elements(0)),
    _exact('scatter_add_dim_1', lambda x, i, y: x.scatter_add(1, i, y),
           *_elements(1)),
    _exact('scatter_add_int64', lambda x, i, y: x.scatter_add(1, i, y),
           whole(*_SHAPE, dtype=torch.int64), indices(16, *_SHAPE),
           whole(*_SHAPE, dtype=torch.int64)),
    _exact('scatter_reduce_amax',
           lambda x, i, y: x.scatter_reduce(1, i, y, 'amax'), *_elements(1)),
    _exact('scatter_reduce_sum',
           lambda x, i, y: x.scatter_reduce(0, i, y, 'sum'), *_elements(0)),
    _exact('index_put_accumulate', lambda x, i, j, y: x.index_put(
        (i, j), y, accumulate=True), _MATRIX, indices(8, 16), indices(16, 16),
           whole(16)),
    _exact('index_put_rows_accumulate', lambda x, i, y: x.index_put(
        (i,), y, accumulate=True), *_rows(8, 16, 16)),
    # Set.
    _exact('scatter', lambda x, i, y: x.scatter(1, i, y), *_PERMUTED),
    _exact('scatter_number', lambda x, i, y: x.scatter(1, i[:, :3], 7.0),
           *_PERMUTED),
    _exact('index_put', lambda x, i, y: x.index_put((i,), y), *_DIFFERENT_ROWS),
    _exact('index_copy', lambda x, i, y: x.index_copy(0, i, y),
           *_DIFFERENT_ROWS),
    _exact('index_fill', lambda x, i, y: x.index_fill(0, i, -5.0),
           *_DIFFERENT_ROWS),
    _exact('assign_rows', _assign_rows, *_DIFFERENT_ROWS),
    # Masked.
    _exact('masked_fill', lambda x, m: x.masked_fill(m, -5.0), _MATRIX,
           mask(*_SHAPE)),
    _exact('masked_fill_row', lambda x, m: x.masked_fill(m, 2.0), _MATRIX,
           mask(16)),
    _exact('masked_fill_uneven', lambda x, m: x.masked_fill(m, -5.0),
           whole(*_UNEVEN), mask(*_UNEVEN)),
    # Into slices.
    _exact('assign_slice', _assign_slice, _MATRIX, whole(3, 16)),
    _exact('assign_step', _assign_step, _MATRIX, whole(8, 8)),
    _exact('fill_column', _fill_column, _MATRIX),
    _exact('add_to_slice', _add_to_slice, whole(*_UNEVEN), whole(7, 4)),
    _exact('slice_scatter', lambda x, y: x.slice_scatter(y, 1, 2, 7), _MATRIX,
           whole(8, 5)),
    _exact('select_scatter', lambda x, y: x.select_scatter(y, 0, 3), _MATRIX,
           whole(16)),
    _exact('diagonal_scatter', torch.diagonal_scatter, whole(8, 8), whole(8)),
)
