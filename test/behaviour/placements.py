"""What a sharding's text says, in V1 or V2, and what a partition spec means.

A placement names for each tile, by its index, the devices that hold it: the
same whichever text said it.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import torch_xla.distributed.spmd as xs

Placement = dict[tuple[int, ...], frozenset[int]]
Spec = tuple[str | tuple[str, ...] | None, ...]

_TILED = re.compile(
    r'\{devices=\[([\d,]+)\]'
    r'(?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))'
    r'( last_tile_dim_replicate| last_tile_dims=\{replicated\})?'
    r'\}$')


def of_text(text: str, rank: int, devices: int = 8) -> Placement:
  """The placement of a tensor of that rank, as XLA's text has it."""
  if text in ('', '{replicated}'):
    return {(0,) * rank: frozenset(range(devices))}
  match = _TILED.match(text)
  assert match, f'no tiled sharding: {text}'
  dims, reshape, perm, listed, replicated = match.groups()
  if listed:
    order = np.array(_numbers(listed))
  else:
    order = iota(_numbers(reshape), _numbers(perm) if perm else None)
  tiles = order.reshape(_numbers(dims))
  assert tiles.ndim == rank + bool(replicated), text
  return of_tiles(tiles, rank)


def iota(reshape_dims: list[int], transpose_perm: list[int] | None):
  """The order of devices that V2 arguments give."""
  devices = np.arange(math.prod(reshape_dims)).reshape(reshape_dims)
  return devices.transpose(transpose_perm).reshape(-1)


def of_tiles(tiles: np.ndarray, rank: int) -> Placement:
  """The placement of a tile assignment, of which `rank` dimensions are tiles'.
  """
  placement = {}
  for index, device in np.ndenumerate(tiles):
    placement.setdefault(index[:rank], set()).add(int(device))
  return {index: frozenset(devices) for index, devices in placement.items()}


def of_spec(mesh: xs.Mesh, spec: Spec) -> Placement:
  """What a partition spec asks for, by each device's place in the mesh."""
  placement = {}
  for place, device in np.ndenumerate(mesh.get_logical_mesh()):
    tile = []
    for entry in spec:
      names = entry if isinstance(entry, tuple) else (entry,) if entry else ()
      index = 0
      for name in names:
        axis = mesh.axis_names.index(name)
        index = index * mesh.mesh_shape[axis] + place[axis]
      tile.append(index)
    placement.setdefault(tuple(tile), set()).add(int(device))
  return {index: frozenset(devices) for index, devices in placement.items()}


def specs(names: str, rank: int):
  """Every partition spec, tuples of axes in every order included."""
  for size in range(len(names) + 1):
    for axes in itertools.permutations(names, size):
      for bounds in itertools.combinations_with_replacement(
          range(size + 1), rank - 1):
        parts = [axes[a:b] for a, b in itertools.pairwise((0, *bounds, size))]
        yield tuple(
            part if len(part) > 1 else part[0] if part else None
            for part in parts)


def _numbers(text: str) -> list[int]:
  return [int(number) for number in text.split(',')]
