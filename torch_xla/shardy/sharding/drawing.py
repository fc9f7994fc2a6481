"""Shardings as the grid of devices that `visualize_sharding` draws.

`torch_xla.distributed.spmd.debugging` reads one way of writing a sharding: V1,
for tensors of two dimensions. Every other sharding is put in that form here,
and the drawing stays upstream's:

  >>> drawable('{devices=[2,2]<=[2,2]T(1,0)}')
  '{devices=[2,2]0,2,1,3}'

The grid is that of the first two dimensions, as upstream announces it, so a
cell lists each device that holds something of that row and column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import math
import re
from typing import Union

import numpy as np

from .hlo_sharding import ShardingType
from .text import parse_sharding
from .tile_assignment import ShardingError

_INTEGERS = r'\s*\d+\s*(?:,\s*\d+\s*)*'
_V1 = re.compile(rf'[^\[]*\{{devices=\[({_INTEGERS})\]({_INTEGERS})'
                 r'( last_tile_dim_replicate)?\}')
_DIMS = re.compile(r'\s*\{\s*devices\s*=\s*\[([\d,\s]+)\]')


class NoGridError(ShardingError):
  """A sharding that does not say which devices hold which part of a tensor."""


def drawable(text: str) -> str:
  """The sharding as `visualize_sharding` reads it, right for every sharding.

  Text that upstream reads right, and its empty text of a tensor without a
  sharding, comes back as it is: V1, two tensor dimensions or more of which just
  the first two are split. Any device ids will do there, as upstream has it.

  A tensor of one dimension is a row. Devices that replicate a cell, form a
  manual subgroup of it or split further dimensions are listed together.

  Args:
    text: XLA's sharding text, V1 or V2, or the empty text.

  Raises:
    NoGridError: `{manual}`, `{unknown}`, `{unreduced}`, or a tuple.
    ShardingTextError, UnsupportedShardingError, TileAssignmentError: as for
      `parse_sharding`.
  """
  if not text or _upstream_reads(text):
    return text
  sharding = parse_sharding(text)
  if sharding.type == ShardingType.REPLICATED:
    # Device tiles that all hold everything: the list of them was normalised
    # away, and need not be that of the runtime's devices.
    dims = _DIMS.match(text)
    if dims is None:
      return '{replicated}'
    return _v1_text(np.arange(math.prod(_integers(dims[1])))[None, None])
  if sharding.type == ShardingType.MAXIMAL:
    return f'{{devices=[1,1]{sharding.device}}}'
  if sharding.type == ShardingType.TUPLE:
    raise NoGridError(
        f'{text} shards {len(sharding.elements)} tensors: visualize the '
        'sharding of one of them')
  if sharding.tiles is None:
    raise NoGridError(
        f'{text} does not say which devices hold which part of the tensor')
  rows, columns = (1, 1, *sharding.tiles.dims[:sharding.rank][:2])[-2:]
  devices = sharding.tiles.to_array().reshape(rows, columns, -1)
  grouped = bool(sharding.subgroup_types) or devices.shape[2] > 1
  return _v1_text(devices if grouped else devices[..., 0])


def console_width(cells: Iterable[Union[int, Sequence[int]]], columns: int,
                  device_kind: str, max_width: int, lines: bool) -> int:
  """The width to draw in: `max_width`, or more if ids would not fit.

  A table that is too wide is squeezed until its columns are equally narrow, and
  what is longer than a column is cut off, so that ids end as `1…` or vanish.

  Args:
    cells: the device ids of each cell.
    columns: the number of columns.
    device_kind: what stands before the ids in each cell.
    max_width: the width that was asked for, in characters.
    lines: whether lines are drawn between the cells.
  """
  words = [word for cell in cells for word in str(cell).split()]
  margins = 2 + lines  # A space on either side.
  longest = max(map(len, words), default=0)
  if columns * (longest + margins) + lines <= max_width:
    return max_width
  longest = max(longest, len(device_kind))
  return columns * (longest + margins) + lines


def _integers(text: str) -> list[int]:
  return [int(number) for number in text.split(',')]


def _v1_text(devices: np.ndarray) -> str:
  """V1 text of devices in [rows, columns] or [rows, columns, replicas]."""
  replicate = ' last_tile_dim_replicate' if devices.ndim == 3 else ''
  dims = ','.join(map(str, devices.shape))
  listed = ','.join(map(str, devices.reshape(-1).tolist()))
  return f'{{devices=[{dims}]{listed}{replicate}}}'


def _upstream_reads(text: str) -> bool:
  """Tests whether upstream's `visualize_sharding` draws `text` right.

  It divides the devices by the second dim and by the last, taken for that of
  the replicas, so others have to be 1; it checks nothing.
  """
  if text == '{replicated}':
    return True
  match = _V1.fullmatch(text)
  if match is None:
    return False
  dims, devices = _integers(match[1]), _integers(match[2])
  tensor_dims = dims[:-1] if match[3] else dims
  return (len(tensor_dims) >= 2 and math.prod(tensor_dims[2:]) == 1 and
          math.prod(dims) == len(devices) == len(set(devices)))
