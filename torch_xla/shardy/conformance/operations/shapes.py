"""Changes of shape and order: what is there is moved, nothing is computed."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import dtypes
from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import SAME_BITS

_FAMILY = 'shapes'
_SHAPE = (8, 16)
_UNEVEN = (7, 9)
_BATCH = (8, 8, 4)


def operations() -> tuple[Operation, ...]:
  """Reshapes, transposes, joins, splits, paddings, triangles, windows."""
  return (*_reshapes(), *_orders(), *_joined(), *_split(), *_padded(),
          *_masked())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, SAME_BITS)


def _one(*shape: int, dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: (inputs.distinct(g, *shape, dtype=dtype),)


def _two(first: tuple[int, ...], second: tuple[int, ...]) -> Inputs:
  return lambda g: (inputs.distinct(g, *first), inputs.distinct(g, *second))


def _reshapes() -> tuple[Operation, ...]:
  return (
      _operation('reshape_merged', _one(*_BATCH), lambda x: x.reshape(64, 4)),
      _operation('reshape_split', _one(*_SHAPE), lambda x: x.reshape(2, 4, 16)),
      _operation('reshape_across', _one(*_SHAPE), lambda x: x.reshape(32, 4)),
      _operation('reshape_uneven', _one(*_UNEVEN), lambda x: x.reshape(9, 7)),
      _operation('flatten', _one(*_BATCH), torch.flatten),
      _operation('transpose_large', _one(131, 517), lambda x: x.T.contiguous()),
      _operation('unsqueeze', _one(*_SHAPE), lambda x: x.unsqueeze(1)),
      _operation('squeeze', _one(8, 1, 16), lambda x: x.squeeze(1)),
      _operation('expand', _one(8, 1), lambda x: x.expand(3, 8, 16)),
      _operation('repeat', _one(*_SHAPE), lambda x: x.repeat(2, 3)),
      _operation('repeat_interleave', _one(*_SHAPE),
                 lambda x: x.repeat_interleave(3, dim=0)),
      _operation('tile_uneven', _one(*_UNEVEN), lambda x: x.tile(3, 1)),
      *(_operation(f'reshape_{dtypes.name(dtype)}', _one(*_SHAPE, dtype=dtype),
                   lambda x: x.reshape(16, 8))
        for dtype in (torch.bfloat16, torch.int64)),
      _operation('reshape_bool', lambda g: (inputs.mask(g, *_SHAPE),),
                 lambda x: x.reshape(16, 8)),
  )


def _orders() -> tuple[Operation, ...]:
  return (
      _operation('transpose', _one(*_SHAPE), lambda x: x.T),
      _operation('transpose_uneven', _one(*_UNEVEN), lambda x: x.T),
      _operation('transpose_reshape', _one(*_SHAPE),
                 lambda x: x.T.reshape(8, 16)),
      _operation('permute', _one(*_BATCH), lambda x: x.permute(2, 0, 1)),
      _operation('movedim', _one(8, 8, 4, 2), lambda x: x.movedim(0, 2)),
      _operation('flip_dim_0', _one(*_SHAPE), lambda x: x.flip(0)),
      _operation('flip_both', _one(*_SHAPE), lambda x: x.flip(0, 1)),
      _operation('flip_uneven', _one(*_UNEVEN), lambda x: x.flip(0)),
      _operation('roll', _one(*_SHAPE), lambda x: x.roll(3, 0)),
      _operation('roll_both', _one(*_SHAPE), lambda x: x.roll((1, -5), (0, 1))),
      _operation('roll_uneven', _one(*_UNEVEN), lambda x: x.roll(2, 1)),
      _operation('rot90', _one(*_SHAPE), torch.rot90),
      _operation('pixel_shuffle', _one(8, 8, 3, 3),
                 lambda x: F.pixel_shuffle(x, 2)),
  )


def _joined() -> tuple[Operation, ...]:
  return (
      _operation('cat_dim_0', _two(_SHAPE, _SHAPE), lambda a, b: torch.cat(
          (a, b))),
      _operation('cat_dim_1', _two(_SHAPE, (8, 8)), lambda a, b: torch.cat(
          (a, b), 1)),
      _operation('cat_uneven', _two(_UNEVEN, (5, 9)), lambda a, b: torch.cat(
          (a, b))),
      _operation(
          'cat_of_dtypes', lambda g:
          (inputs.whole(g, 8, 16), inputs.whole(g, 8, 8, dtype=torch.int32)),
          lambda a, b: torch.cat((a, b), 1)),
      _operation('stack_dim_0', _two(_SHAPE, _SHAPE), lambda a, b: torch.stack(
          (a, b))),
      _operation('stack_dim_2', _two(_SHAPE, _SHAPE), lambda a, b: torch.stack(
          (a, b), 2)),
  )


def _split() -> tuple[Operation, ...]:
  return (
      _operation('split', _one(*_SHAPE), lambda x: x.split((3, 5))),
      _operation('chunk', _one(*_SHAPE), lambda x: x.chunk(3, 1)),
      _operation('unbind', _one(*_SHAPE), lambda x: x.unbind(0)[::3]),
  )


def _padded() -> tuple[Operation, ...]:
  pad = lambda *size, **how: lambda x: F.pad(x, size, **how)
  return (
      _operation('pad_zeros', _one(*_SHAPE), pad(1, 2, 3, 0)),
      _operation('pad_number', _one(*_SHAPE), pad(2, 0, 1, 1, value=-7.0)),
      _operation('pad_negative', _one(*_SHAPE), pad(-2, 1, 0, -3)),
      _operation('pad_uneven', _one(*_UNEVEN), pad(0, 0, 1, 4)),
      _operation('pad_reflect', _one(8, 8, 6), pad(2, 3, mode='reflect')),
      _operation('pad_replicate', _one(8, 8, 6), pad(1, 4, mode='replicate')),
      _operation('pad_circular', _one(8, 8, 6), pad(2, 2, mode='circular')),
      _operation('pad_reflect_2d', _one(8, 8, 4, 4),
                 pad(1, 2, 2, 1, mode='reflect')),
  )


def _masked() -> tuple[Operation, ...]:
  return (
      _operation('tril', _one(*_SHAPE), torch.tril),
      _operation('triu_above', _one(*_SHAPE), lambda x: x.triu(2)),
      _operation('tril_uneven', _one(*_UNEVEN), lambda x: x.tril(-1)),
      _operation('diagonal', _one(*_SHAPE), torch.diagonal),
      # Not of the first two dimensions, for which torch_xla takes the last two.
      _operation('diagonal_offset', _one(8, 8, 4),
                 lambda x: x.diagonal(1, 1, 2)),
      _operation('diag_embed', _one(8, 8), torch.diag_embed),
      _operation('trace', _one(8, 8), torch.trace),
  )
