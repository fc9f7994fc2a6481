"""Elements taken out: by slices, by indices, by tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import SAME_BITS

_FAMILY = 'indexing'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)


def operations() -> tuple[Operation, ...]:
  """Slices with steps and from the end, gathers and embeddings."""
  return (*_slices(), *_by_indices(), *_gathers(), *_tables())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, SAME_BITS)


def _one(*shape: int) -> Inputs:
  return lambda g: (inputs.distinct(g, *shape),)


def _slices() -> tuple[Operation, ...]:
  return (
      _operation('slice', _one(*_SHAPE), lambda x: x[2:7]),
      _operation('slice_dim_1', _one(*_SHAPE), lambda x: x[:, 3:]),
      _operation('slice_from_end', _one(*_SHAPE), lambda x: x[-3:, :-5]),
      _operation('slice_step', _one(*_SHAPE), lambda x: x[1::3, ::2]),
      _operation('slice_uneven', _one(*_UNEVEN), lambda x: x[1:6:2]),
      _operation('select_row', _one(*_SHAPE), lambda x: x[5]),
      _operation('select_column', _one(*_SHAPE), lambda x: x[:, -2]),
      _operation('select_element', _one(*_SHAPE), lambda x: x[3, 7]),
      _operation('narrow', _one(*_SHAPE), lambda x: x.narrow(1, 5, 6)),
      _operation('ellipsis_and_none', _one(8, 8, 4),
                 lambda x: x[..., None, 1:3]),
  )


def _by_indices() -> tuple[Operation, ...]:
  rows = lambda g: (inputs.distinct(g, *_SHAPE), inputs.indices(g, 8, 16))
  columns = lambda g: (inputs.distinct(g, *_SHAPE), inputs.indices(g, 16, 8))
  elements = lambda g: (inputs.distinct(g, *_SHAPE), inputs.indices(g, 8, 8),
                        inputs.indices(g, 16, 8))
  int32 = lambda g: (inputs.distinct(g, *_SHAPE), inputs.indices(g, 8, 16).int(
  ))
  uneven = lambda g: (inputs.distinct(g, *_UNEVEN), inputs.indices(g, 7, 5))
  negative = lambda g: (inputs.distinct(g, *_SHAPE), inputs.indices(g, 8, 16) -
                        4)
  return (
      _operation('index_select_dim_0', rows, lambda x, i: x.index_select(0, i)),
      _operation('index_select_dim_1', columns,
                 lambda x, i: x.index_select(1, i)),
      _operation('index_select_int32', int32,
                 lambda x, i: x.index_select(0, i)),
      _operation('index_select_uneven', uneven,
                 lambda x, i: x.index_select(0, i)),
      _operation('index_rows', rows, lambda x, i: x[i]),
      _operation('index_columns', columns, lambda x, i: x[:, i]),
      _operation('index_elements', elements, lambda x, i, j: x[i, j]),
      _operation('index_negative', negative, lambda x, i: x[i]),
      _operation(
          'index_of_matrix', lambda g:
          (inputs.distinct(g, *_SHAPE), inputs.indices(g, 8, 8, 4)),
          lambda x, i: x[i]),
      _operation(
          'take', lambda g:
          (inputs.distinct(g, *_SHAPE), inputs.indices(g, 128, 8, 4)),
          torch.take),
  )


def _gathers() -> tuple[Operation, ...]:
  return (
      _operation(
          'gather_dim_0', lambda g:
          (inputs.distinct(g, *_SHAPE), inputs.indices(g, 8, *_SHAPE)),
          lambda x, i: x.gather(0, i)),
      _operation(
          'gather_dim_1', lambda g:
          (inputs.distinct(g, *_SHAPE), inputs.indices(g, 16, *_SHAPE)),
          lambda x, i: x.gather(1, i)),
      _operation(
          'gather_uneven', lambda g:
          (inputs.distinct(g, *_UNEVEN), inputs.indices(g, 9, 7, 3)),
          lambda x, i: x.gather(1, i)),
      _operation(
          'gather_rank_3', lambda g:
          (inputs.distinct(g, 8, 8, 4), inputs.indices(g, 8, 8, 8, 4)),
          lambda x, i: x.gather(1, i)),
      _operation(
          'take_along_dim', lambda g:
          (inputs.distinct(g, *_SHAPE), inputs.indices(g, 16, 8, 4)),
          lambda x, i: torch.take_along_dim(x, i, 1)),
  )


def _tables() -> tuple[Operation, ...]:
  table = lambda g: (inputs.indices(g, 16, 8, 8), inputs.distinct(g, 16, 8))
  return (
      _operation('embedding', table, F.embedding),
      _operation(
          'embedding_rank_1', lambda g:
          (inputs.indices(g, 16, 8), inputs.distinct(g, 16, 8)), F.embedding),
      _operation(
          'embedding_uneven', lambda g:
          (inputs.indices(g, 11, 7, 3), inputs.distinct(g, 11, 5)),
          F.embedding),
      _operation(
          'embedding_bfloat16', lambda g:
          (inputs.indices(g, 16, 8, 8),
           inputs.distinct(g, 16, 8, dtype=torch.bfloat16)), F.embedding),
      _operation('one_hot', lambda g: (inputs.indices(g, 16, 8, 8),),
                 lambda i: F.one_hot(i, 16)),
  )
