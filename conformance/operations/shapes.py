"""Changes of shape and order: what is there is moved, nothing is computed."""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from . import dtypes
from .inputs import distinct, mask, whole
from .operation import operation, Operation
from .tolerance import SAME_BITS

_same_bits = functools.partial(operation, 'shapes', SAME_BITS)
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_BATCH = (8, 8, 4)


def _pad(*size: int, **how: object) -> Callable[[torch.Tensor], torch.Tensor]:
  return lambda x: F.pad(x, size, **how)


# Reshapes, transposes, joins, splits, paddings, triangles, windows.
OPERATIONS: tuple[Operation, ...] = (
    # Reshapes.
    _same_bits('reshape_merged', lambda x: x.reshape(64, 4), distinct(*_BATCH)),
    _same_bits('reshape_split', lambda x: x.reshape(2, 4, 16),
               distinct(*_SHAPE)),
    _same_bits('reshape_across', lambda x: x.reshape(32, 4), distinct(*_SHAPE)),
    _same_bits('reshape_uneven', lambda x: x.reshape(9, 7), distinct(*_UNEVEN)),
    _same_bits('flatten', torch.flatten, distinct(*_BATCH)),
    _same_bits('transpose_large', lambda x: x.T.contiguous(),
               distinct(131, 517)),
    _same_bits('unsqueeze', lambda x: x.unsqueeze(1), distinct(*_SHAPE)),
    _same_bits('squeeze', lambda x: x.squeeze(1), distinct(8, 1, 16)),
    _same_bits('expand', lambda x: x.expand(3, 8, 16), distinct(8, 1)),
    _same_bits('repeat', lambda x: x.repeat(2, 3), distinct(*_SHAPE)),
    _same_bits('repeat_interleave', lambda x: x.repeat_interleave(3, dim=0),
               distinct(*_SHAPE)),
    _same_bits('tile_uneven', lambda x: x.tile(3, 1), distinct(*_UNEVEN)),
    *(_same_bits(f'reshape_{dtypes.name(dtype)}', lambda x: x.reshape(16, 8),
                 distinct(*_SHAPE, dtype=dtype))
      for dtype in (torch.bfloat16, torch.int64)),
    _same_bits('reshape_bool', lambda x: x.reshape(16, 8), mask(*_SHAPE)),
    # Orders.
    _same_bits('transpose', lambda x: x.T, distinct(*_SHAPE)),
    _same_bits('transpose_uneven', lambda x: x.T, distinct(*_UNEVEN)),
    _same_bits('transpose_reshape', lambda x: x.T.reshape(8, 16),
               distinct(*_SHAPE)),
    _same_bits('permute', lambda x: x.permute(2, 0, 1), distinct(*_BATCH)),
    _same_bits('movedim', lambda x: x.movedim(0, 2), distinct(8, 8, 4, 2)),
    _same_bits('flip_dim_0', lambda x: x.flip(0), distinct(*_SHAPE)),
    _same_bits('flip_both', lambda x: x.flip(0, 1), distinct(*_SHAPE)),
    _same_bits('flip_uneven', lambda x: x.flip(0), distinct(*_UNEVEN)),
    _same_bits('roll', lambda x: x.roll(3, 0), distinct(*_SHAPE)),
    _same_bits('roll_both', lambda x: x.roll((1, -5), (0, 1)),
               distinct(*_SHAPE)),
    _same_bits('roll_uneven', lambda x: x.roll(2, 1), distinct(*_UNEVEN)),
    _same_bits('rot90', torch.rot90, distinct(*_SHAPE)),
    _same_bits('pixel_shuffle', lambda x: F.pixel_shuffle(x, 2),
               distinct(8, 8, 3, 3)),
    # Joined.
    _same_bits('cat_dim_0', lambda a, b: torch.cat((a, b)), distinct(*_SHAPE),
               distinct(*_SHAPE)),
    _same_bits('cat_dim_1', lambda a, b: torch.cat((a, b), 1),
               distinct(*_SHAPE), distinct(8, 8)),
    _same_bits('cat_uneven', lambda a, b: torch.cat((a, b)), distinct(*_UNEVEN),
               distinct(5, 9)),
    _same_bits('cat_of_dtypes', lambda a, b: torch.cat((a, b), 1), whole(8, 16),
               whole(8, 8, dtype=torch.int32)),
    _same_bits('stack_dim_0', lambda a, b: torch.stack((a, b)),
               distinct(*_SHAPE), distinct(*_SHAPE)),
    _same_bits('stack_dim_2', lambda a, b: torch.stack((a, b), 2),
               distinct(*_SHAPE), distinct(*_SHAPE)),
    # Split.
    _same_bits('split', lambda x: x.split((3, 5)), distinct(*_SHAPE)),
    _same_bits('chunk', lambda x: x.chunk(3, 1), distinct(*_SHAPE)),
    _same_bits('unbind', lambda x: x.unbind(0)[::3], distinct(*_SHAPE)),
    # Padded.
    _same_bits('pad_zeros', _pad(1, 2, 3, 0), distinct(*_SHAPE)),
    _same_bits('pad_number', _pad(2, 0, 1, 1, value=-7.0), distinct(*_SHAPE)),
    _same_bits('pad_negative', _pad(-2, 1, 0, -3), distinct(*_SHAPE)),
    _same_bits('pad_uneven', _pad(0, 0, 1, 4), distinct(*_UNEVEN)),
    _same_bits('pad_reflect', _pad(2, 3, mode='reflect'), distinct(8, 8, 6)),
    _same_bits('pad_replicate', _pad(1, 4, mode='replicate'), distinct(8, 8,
                                                                       6)),
    _same_bits('pad_circular', _pad(2, 2, mode='circular'), distinct(8, 8, 6)),
    _same_bits('pad_reflect_2d', _pad(1, 2, 2, 1, mode='reflect'),
               distinct(8, 8, 4, 4)),
    # Masked.
    _same_bits('tril', torch.tril, distinct(*_SHAPE)),
    _same_bits('triu_above', lambda x: x.triu(2), distinct(*_SHAPE)),
    _same_bits('tril_uneven', lambda x: x.tril(-1), distinct(*_UNEVEN)),
    _same_bits('diagonal', torch.diagonal, distinct(*_SHAPE)),
    # Not of the first two dimensions, for which torch_xla takes the last two.
    _same_bits('diagonal_offset', lambda x: x.diagonal(1, 1, 2),
               distinct(8, 8, 4)),
    _same_bits('diag_embed', torch.diag_embed, distinct(8, 8)),
    _same_bits('trace', torch.trace, distinct(8, 8)),
)
