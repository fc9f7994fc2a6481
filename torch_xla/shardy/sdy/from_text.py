"""Reads a sharding in Shardy's text back: what a backend tells of a tensor.

  >>> mesh = '#sdy.mesh<["x"=2, "y"=4]>'
  >>> str(placement_of_text('#sdy.sharding<@mesh, [{"y"}, {}]>',
  ...                       {'mesh': mesh}, 2))
  '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
"""

from __future__ import annotations

from collections.abc import Mapping
import itertools
import math
import re
from typing import Optional

import numpy as np

from ..sharding.hlo_sharding import HloSharding, REPLICATED, ShardingType
from ..sharding.partition_spec import sharding_of
from .attributes import Mesh, SdyError, SubAxis

_AXIS = re.compile(r'"((?:[^"\\]|\\.)*)"(?::\((\d+)\)(\d+))?')
_SHARDING = re.compile(
    r'(?:#sdy\.sharding)?<(@[\w.\-]+|mesh<.*?>), '
    r'\[([^\]]*)\](?:, replicated=\{[^}]*\})?(?:, unreduced=\{([^}]*)\})?>\Z',
    re.DOTALL)


def placement_of_text(text: str, meshes: Mapping[str, str],
                      rank: int) -> HloSharding:
  """The placement that `#sdy.sharding<..>` gives a tensor of `rank`.

  Args:
    meshes: `#sdy.mesh<..>` by name.
  """
  match = _SHARDING.match(text)
  if match is None:
    raise SdyError(f'{text[:120]!r} is no sharding in Shardy\'s terms')
  name, listed, unreduced = match.groups()
  if not name.startswith('@'):
    mesh = mesh_of_text(name)
  elif name[1:] in meshes:
    mesh = mesh_of_text(meshes[name[1:]])
  else:
    raise SdyError(f'{text[:120]!r} is over the mesh {name}, which is not '
                   'there')
  dims = [_axes(dim) for dim in re.findall(r'\{(.*?)\}', listed)]
  if len(dims) != rank:
    raise SdyError(f'{text[:120]!r} on a tensor of rank {rank}')
  if not unreduced:
    return _placement(dims, mesh)
  # As if it were split along one more dimension, which then is a subgroup.
  split = _placement([*dims, _axes(unreduced)], mesh)
  if split.tiles is None:
    return split
  return HloSharding.tiled(
      split.tiles, (ShardingType.UNREDUCED, *split.subgroup_types)).canonical()


def _axes(text: str) -> tuple[SubAxis, ...]:
  return tuple(
      SubAxis(match[1], int(match[2] or 1),
              int(match[3]) if match[3] else None)
      for match in _AXIS.finditer(text))


def mesh_of_text(text: str) -> Mesh:
  """Reads a mesh from its text in Shardy's terms."""
  match = re.match(r'(?:#sdy\.)?mesh<\[(.*?)\](?:, device_ids=\[([\d, ]*)\])?>',
                   text)
  if match is None:
    raise SdyError(f'{text[:120]!r} is no mesh in Shardy\'s terms')
  axes = re.findall(r'"((?:[^"\\]|\\.)*)"=(\d+)', match[1])
  ids = match[2] and tuple(map(int, match[2].split(',')))
  return Mesh(tuple((name, int(size)) for name, size in axes), ids or None)


def _placement(dims: list[tuple[SubAxis, ...]], mesh: Mesh) -> HloSharding:
  if mesh.num_devices == 1 or not any(dims):
    return REPLICATED
  # Each axis cut into the parts that the dimensions take of it.
  cuts: dict[str, set[int]] = {name: {1, size} for name, size in mesh.axes}
  sizes = dict(mesh.axes)
  for axis in (axis for dim in dims for axis in dim):
    if axis.name not in sizes:
      raise SdyError(f'axis {axis} is not one of {mesh}')
    end = axis.pre_size * (axis.size or sizes[axis.name])
    if sizes[axis.name] % end:
      raise SdyError(f'{axis} is no part of an axis of size '
                     f'{sizes[axis.name]}')
    cuts[axis.name] |= {axis.pre_size, end}
  parts: list[int] = []
  place: dict[tuple[str, int], int] = {}  # By axis and pre-size.
  for name, _ in mesh.axes:
    ordered = sorted(cuts[name])
    for pre_size, end in itertools.pairwise(ordered):
      if end % pre_size:
        raise SdyError(f'the sub-axes of {name!r} cut each other')
      place[name, pre_size] = len(parts)
      parts.append(end // pre_size)
  spec: list[Optional[tuple[int, ...]]] = []
  for dim in dims:
    axis_parts: list[int] = []
    for axis in dim:
      size, pre_size = axis.size or sizes[axis.name], axis.pre_size
      end = pre_size * size
      while pre_size < end:
        part = place[axis.name, pre_size]
        axis_parts.append(part)
        pre_size *= parts[part]
    spec.append(tuple(axis_parts) or None)
  ids = None if mesh.device_ids is None else np.array(mesh.device_ids)
  return sharding_of(parts or [math.prod(sizes.values())], ids, tuple(spec))
