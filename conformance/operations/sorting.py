"""Sorts, and what is chosen by order."""

from __future__ import annotations

import functools

import torch

from .inputs import distinct, whole
from .operation import operation, Operation
from .tolerance import SAME_BITS

_same_bits = functools.partial(operation, 'sorting', SAME_BITS)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
# Short rows are sorted stably by chance: many sorts insert there.
_LONG = (3, 517)

# Sorts of different numbers, and of equal ones where they are stable.
OPERATIONS: tuple[Operation, ...] = (
    # Sorts.
    _same_bits('sort_dim_0', lambda x: tuple(x.sort(0)), distinct(*_SHAPE)),
    _same_bits('sort_dim_1', lambda x: tuple(x.sort(1)), distinct(*_SHAPE)),
    _same_bits('sort_descending', lambda x: tuple(x.sort(1, descending=True)),
               distinct(*_SHAPE)),
    _same_bits('sort_stable', lambda x: tuple(x.sort(dim=1, stable=True)),
               whole(*_SHAPE, largest=2)),
    _same_bits('sort_stable_long', lambda x: tuple(x.sort(dim=1, stable=True)),
               whole(*_LONG, largest=2)),
    _same_bits('sort_rank_1', lambda x: tuple(x.sort()), distinct(64)),
    _same_bits('sort_uneven_dim_0', lambda x: tuple(x.sort(0)),
               distinct(*_UNEVEN)),
    _same_bits('sort_uneven_dim_1', lambda x: tuple(x.sort(1)),
               distinct(*_UNEVEN)),
    _same_bits('sort_int32', lambda x: tuple(x.sort(1)),
               distinct(*_SHAPE, dtype=torch.int32)),
    _same_bits('sort_int64', lambda x: tuple(x.sort(1)),
               distinct(*_SHAPE, dtype=torch.int64)),
    _same_bits('sort_bfloat16', lambda x: tuple(x.sort(1)),
               distinct(*_SHAPE, dtype=torch.bfloat16)),
    _same_bits('argsort', lambda x: x.argsort(1), distinct(*_SHAPE)),
    # Chosen.
    _same_bits('topk_dim_1', lambda x: tuple(x.topk(5, dim=1)),
               distinct(*_SHAPE)),
    _same_bits('topk_dim_0', lambda x: tuple(x.topk(3, dim=0)),
               distinct(*_SHAPE)),
    _same_bits('topk_smallest',
               lambda x: tuple(x.topk(4, dim=1, largest=False)),
               distinct(*_SHAPE)),
    _same_bits('topk_uneven', lambda x: tuple(x.topk(4, dim=0)),
               distinct(*_UNEVEN)),
    _same_bits('kthvalue', lambda x: tuple(x.kthvalue(3, dim=1)),
               distinct(*_SHAPE)),
)
