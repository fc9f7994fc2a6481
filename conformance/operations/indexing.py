"""Elements taken out: by slices, by indices, by tables."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from .inputs import distinct, indices, Inputs
from .operation import operation, Operation
from .tolerance import SAME_BITS

_same_bits = functools.partial(operation, 'indexing', SAME_BITS)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_MATRIX = distinct(*_SHAPE)
_ROWS: Inputs = (_MATRIX, indices(8, 16))
_TABLE: Inputs = (indices(16, 8, 8), distinct(16, 8))

# Slices with steps and from the end, gathers, embeddings.
OPERATIONS: tuple[Operation, ...] = (
    # Slices.
    _same_bits('slice', lambda x: x[2:7], _MATRIX),
    _same_bits('slice_dim_1', lambda x: x[:, 3:], _MATRIX),
    _same_bits('slice_from_end', lambda x: x[-3:, :-5], _MATRIX),
    _same_bits('slice_step', lambda x: x[1::3, ::2], _MATRIX),
    _same_bits('slice_uneven', lambda x: x[1:6:2], distinct(*_UNEVEN)),
    _same_bits('select_row', lambda x: x[5], _MATRIX),
    _same_bits('select_column', lambda x: x[:, -2], _MATRIX),
    _same_bits('select_element', lambda x: x[3, 7], _MATRIX),
    _same_bits('narrow', lambda x: x.narrow(1, 5, 6), _MATRIX),
    _same_bits('ellipsis_and_none', lambda x: x[..., None, 1:3],
               distinct(8, 8, 4)),
    # By indices.
    _same_bits('index_select_dim_0', lambda x, i: x.index_select(0, i), *_ROWS),
    _same_bits('index_select_dim_1', lambda x, i: x.index_select(1, i), _MATRIX,
               indices(16, 8)),
    _same_bits('index_select_int32', lambda x, i: x.index_select(0, i), _MATRIX,
               lambda g: indices(8, 16)(g).int()),
    _same_bits('index_select_uneven', lambda x, i: x.index_select(0, i),
               distinct(*_UNEVEN), indices(7, 5)),
    _same_bits('index_rows', lambda x, i: x[i], *_ROWS),
    _same_bits('index_columns', lambda x, i: x[:, i], _MATRIX, indices(16, 8)),
    _same_bits('index_elements', lambda x, i, j: x[i, j], _MATRIX,
               indices(8, 8), indices(16, 8)),
    _same_bits('index_negative', lambda x, i: x[i], _MATRIX,
               lambda g: indices(8, 16)(g) - 4),
    _same_bits('index_of_matrix', lambda x, i: x[i], _MATRIX, indices(8, 8, 4)),
    _same_bits('take', torch.take, _MATRIX, indices(128, 8, 4)),
    # Gathers.
    _same_bits('gather_dim_0', lambda x, i: x.gather(0, i), _MATRIX,
               indices(8, *_SHAPE)),
    _same_bits('gather_dim_1', lambda x, i: x.gather(1, i), _MATRIX,
               indices(16, *_SHAPE)),
    _same_bits('gather_uneven', lambda x, i: x.gather(1, i), distinct(*_UNEVEN),
               indices(9, 7, 3)),
    _same_bits('gather_rank_3', lambda x, i: x.gather(1, i), distinct(8, 8, 4),
               indices(8, 8, 8, 4)),
    _same_bits('take_along_dim', lambda x, i: torch.take_along_dim(x, i, 1),
               _MATRIX, indices(16, 8, 4)),
    # Tables.
    _same_bits('embedding', F.embedding, *_TABLE),
    _same_bits('embedding_rank_1', F.embedding, indices(16, 8), distinct(16,
                                                                         8)),
    _same_bits('embedding_uneven', F.embedding, indices(11, 7, 3),
               distinct(11, 5)),
    _same_bits('embedding_bfloat16', F.embedding, indices(16, 8, 8),
               distinct(16, 8, dtype=torch.bfloat16)),
    _same_bits('one_hot', lambda i: F.one_hot(i, 16), indices(16, 8, 8)),
)
