"""Elements put in: at indices, where a mask says, into slices."""

from __future__ import annotations

import torch

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import EXACT

_FAMILY = 'scatters'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)


def operations() -> tuple[Operation, ...]:
  """Scatters: what is added has repeated indices, what is set has none."""
  return (*_added(), *_set(), *_masked(), *_into_slices())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, EXACT)


def _rows(count: int, chosen: int, width: int) -> Inputs:
  """A table, rows of it that may come twice, and what to do with them."""
  return lambda g: (inputs.whole(g, count, width),
                    inputs.indices(g, count, chosen),
                    inputs.whole(g, chosen, width))


def _different_rows(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  return (inputs.whole(g, *_SHAPE), inputs.different_indices(g, 8, 4),
          inputs.whole(g, 4, 16))


def _elements(dim: int) -> Inputs:
  """A matrix, for each element an index along `dim`, and elements."""
  return lambda g: (inputs.whole(g, *_SHAPE),
                    inputs.indices(g, _SHAPE[dim], *_SHAPE),
                    inputs.whole(g, *_SHAPE))


def _permuted(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  """A matrix, a permutation along each of its rows, and elements."""
  places = torch.rand(*_SHAPE, generator=g).argsort(1)
  return inputs.whole(g, *_SHAPE), places, inputs.whole(g, *_SHAPE)


def _added() -> tuple[Operation, ...]:
  ints = lambda g: (inputs.whole(g, *_SHAPE, dtype=torch.int64),
                    inputs.indices(g, 16, *_SHAPE),
                    inputs.whole(g, *_SHAPE, dtype=torch.int64))
  pairs = lambda g: (inputs.whole(g, *_SHAPE), inputs.indices(g, 8, 16),
                     inputs.indices(g, 16, 16), inputs.whole(g, 16))
  columns = lambda g: (inputs.whole(g, *_SHAPE), inputs.indices(g, 16, 8),
                       inputs.whole(g, 8, 8))
  return (
      _operation('index_add_dim_0', _rows(8, 16, 16),
                 lambda x, i, y: x.index_add(0, i, y)),
      _operation('index_add_dim_1', columns,
                 lambda x, i, y: x.index_add(1, i, y)),
      _operation('index_add_alpha', _rows(8, 16, 16),
                 lambda x, i, y: x.index_add(0, i, y, alpha=2)),
      _operation('index_add_uneven', _rows(7, 5, 9),
                 lambda x, i, y: x.index_add(0, i, y)),
      _operation('scatter_add_dim_0', _elements(0),
                 lambda x, i, y: x.scatter_add(0, i, y)),
      _operation('scatter_add_dim_1', _elements(1),
                 lambda x, i, y: x.scatter_add(1, i, y)),
      _operation('scatter_add_int64', ints,
                 lambda x, i, y: x.scatter_add(1, i, y)),
      _operation('scatter_reduce_amax', _elements(1),
                 lambda x, i, y: x.scatter_reduce(1, i, y, 'amax')),
      _operation('scatter_reduce_sum', _elements(0),
                 lambda x, i, y: x.scatter_reduce(0, i, y, 'sum')),
      _operation('index_put_accumulate', pairs, lambda x, i, j, y: x.index_put(
          (i, j), y, accumulate=True)),
      _operation('index_put_rows_accumulate', _rows(8, 16, 16),
                 lambda x, i, y: x.index_put((i,), y, accumulate=True)),
  )


def _set() -> tuple[Operation, ...]:
  return (
      _operation('scatter', _permuted, lambda x, i, y: x.scatter(1, i, y)),
      _operation('scatter_number', _permuted,
                 lambda x, i, y: x.scatter(1, i[:, :3], 7.0)),
      _operation('index_put', _different_rows, lambda x, i, y: x.index_put(
          (i,), y)),
      _operation('index_copy', _different_rows,
                 lambda x, i, y: x.index_copy(0, i, y)),
      _operation('index_fill', _different_rows,
                 lambda x, i, y: x.index_fill(0, i, -5.0)),
      _operation('assign_rows', _different_rows, _assign_rows),
  )


def _assign_rows(x: torch.Tensor, rows: torch.Tensor,
                 values: torch.Tensor) -> torch.Tensor:
  x = x.clone()
  x[rows] = values
  return x


def _masked() -> tuple[Operation, ...]:
  return (
      _operation('masked_fill', lambda g:
                 (inputs.whole(g, *_SHAPE), inputs.mask(g, *_SHAPE)),
                 lambda x, m: x.masked_fill(m, -5.0)),
      _operation('masked_fill_row', lambda g:
                 (inputs.whole(g, *_SHAPE), inputs.mask(g, 16)),
                 lambda x, m: x.masked_fill(m, 2.0)),
      _operation(
          'masked_fill_uneven', lambda g:
          (inputs.whole(g, *_UNEVEN), inputs.mask(g, *_UNEVEN)),
          lambda x, m: x.masked_fill(m, -5.0)),
  )


def _into_slices() -> tuple[Operation, ...]:
  return (
      _operation('assign_slice', lambda g:
                 (inputs.whole(g, *_SHAPE), inputs.whole(g, 3, 16)),
                 _assign_slice),
      _operation('assign_step', lambda g:
                 (inputs.whole(g, *_SHAPE), inputs.whole(g, 8, 8)),
                 _assign_step),
      _operation('fill_column', lambda g: (inputs.whole(g, *_SHAPE),),
                 _fill_column),
      _operation('add_to_slice', lambda g:
                 (inputs.whole(g, *_UNEVEN), inputs.whole(g, 7, 4)),
                 _add_to_slice),
      _operation('slice_scatter', lambda g:
                 (inputs.whole(g, *_SHAPE), inputs.whole(g, 8, 5)),
                 lambda x, y: x.slice_scatter(y, 1, 2, 7)),
      _operation('select_scatter', lambda g:
                 (inputs.whole(g, *_SHAPE), inputs.whole(g, 16)),
                 lambda x, y: x.select_scatter(y, 0, 3)),
      _operation('diagonal_scatter', lambda g:
                 (inputs.whole(g, 8, 8), inputs.whole(g, 8)),
                 torch.diagonal_scatter),
  )


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
