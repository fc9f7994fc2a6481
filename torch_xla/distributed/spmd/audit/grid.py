"""Which devices hold which tile of a tensor, as rows of cells to draw."""

from __future__ import annotations

from collections.abc import Iterable
import math
from typing import NamedTuple, Optional

from torch_xla.shardy.sharding.hlo_sharding import ShardingType
from torch_xla.shardy.sharding.text import parse_sharding

# A larger grid is not drawn: nobody reads it.
MOST_TILES = 1024


class Grid(NamedTuple):
  """The tiles of a tensor: dimension 0 downwards, all others to the right.

  A tensor of one dimension is one row.

  Attributes:
    tiles: along each dimension.
    rows: of each tile the devices that hold it, ascending.
  """
  tiles: tuple[int, ...]
  rows: tuple[tuple[tuple[int, ...], ...], ...]


def grid_of(sharding: str, devices: Iterable[int]) -> Optional[Grid]:
  """The grid of a sharding's text; None if it is too large, or says no devices.

  Args:
    devices: all devices, for a replicated tensor.
  """
  parsed = parse_sharding(sharding)
  if parsed.type == ShardingType.REPLICATED:
    return Grid((), ((tuple(sorted(devices)),),))
  if parsed.type == ShardingType.MAXIMAL:
    return Grid((), (((parsed.device,),),))
  if parsed.type != ShardingType.OTHER:
    return None
  dims = tuple(parsed.tiles.dims[:parsed.rank])
  count = math.prod(dims)
  if count > MOST_TILES:
    return None
  held = parsed.tiles.to_array().reshape(count, -1)
  cells = [tuple(sorted(row)) for row in held.tolist()]
  across = count // dims[0] if len(dims) > 1 else count
  return Grid(
      dims,
      tuple(tuple(cells[i:i + across]) for i in range(0, len(cells), across)))


def ranges(devices: Iterable[int]) -> str:
  """Ascending ids, runs of three or more shortened: '0-3, 8, 9'."""
  runs: list[list[int]] = []
  for device in devices:
    if runs and device == runs[-1][-1] + 1:
      runs[-1].append(device)
    else:
      runs.append([device])
  return ', '.join(
      f'{run[0]}-{run[-1]}' if len(run) > 2 else ', '.join(map(str, run))
      for run in runs)
