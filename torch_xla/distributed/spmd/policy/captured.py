"""The policy that a model has now, read off its tensors.

What was said of a tensor counts, priorities included; where the mode keeps no
marks, the partition spec that it is placed by. What nobody marked is REPLICATED
by default, however the compiler split it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import itertools
import math
from typing import Any, Optional

import numpy as np
import torch
import torch_xla
from torch_xla.shardy.annotate.annotation import (Annotation, user_mesh,
                                                  UserMesh)
from torch_xla.shardy.bind import binder
from torch_xla.shardy.layers import folded
from torch_xla.shardy.sharding.hlo_sharding import HloSharding, ShardingType
from torch_xla.shardy.sharding.text import parse_sharding

from .. import xla_sharding
from .patterns import literal, PolicyError
from .rules import Rule, Spec, uneven

Owned = tuple[tuple[str, ...], torch.Tensor]


def mesh_of(owned: Iterable[Owned]) -> xla_sharding.Mesh:
  """The mesh that a model's tensors are marked over, or else the process's.

  The global mesh if it is among them, then the finest. Axes without names are
  called axis_0, axis_1, ...
  """
  said = [binder.annotation_of(_plain(t)) for _, t in owned]
  marked = {a.mesh for a in said if a is not None}
  known = binder.meshes.ordered()
  mesh = next((m for m in known if m in marked), None) or next(
      iter((*marked, *known)), None)
  if mesh is None:
    raise PolicyError(
        'the model is on no mesh: nothing of it is marked that is known, and '
        'no global mesh is set. Marks are known with XLA_USE_SHARDY=1; '
        'otherwise call xs.set_global_mesh(mesh)')
  ids = np.arange(math.prod(
      mesh.shape)) if mesh.device_ids is None else (np.asarray(mesh.device_ids))
  return xla_sharding.Mesh(
      ids, mesh.shape,
      tuple(mesh.axis_name(axis) for axis in range(len(mesh.shape))))


def rules_of(owned: Iterable[Owned],
             mesh: xla_sharding.Mesh) -> tuple[Rule, ...]:
  """The rules for what is split or has priorities; like layers share one.

  Raises:
    PolicyError: a tensor is split as no partition spec over the mesh splits.
  """
  over = user_mesh(mesh)
  claims = {
      literal(names[0]): _statement(names[0], _plain(t), over)
      for names, t in owned
  }
  return tuple(
      Rule(pattern, *what)
      for pattern, what in folded(claims).items()
      if what is not None)


def placement_of(t: torch.Tensor) -> Optional[HloSharding]:
  """How a tensor's data is placed; None if nobody said."""
  text = torch_xla._XLAC._get_xla_sharding_spec(_plain(t))
  return parse_sharding(text) if text else None


def _plain(t: torch.Tensor) -> torch.Tensor:
  return xla_sharding.unwrap_sharded_tensor(t)


def _statement(name: str, t: torch.Tensor,
               over: UserMesh) -> Optional[tuple[Spec, Any, bool, Any]]:
  """What a rule says after its pattern; None for what is whole everywhere."""
  if t.device.type != 'xla':
    raise PolicyError(f"{name} is on {t.device}: move the model, and mark it")
  annotation = binder.annotation_of(t)
  if annotation is not None and annotation.mesh == over:
    spec: Optional[Sequence[Sequence[int]]] = annotation.partition_spec
  else:
    placed = (
        annotation.sharding if annotation is not None else None if
        torch_xla.shardy.current_mode().value == 'shardy' else placement_of(t))
    if placed is None:
      return None
    spec = next(specs_of(placed, t.dim(), over), None)
    if spec is None:
      raise PolicyError(
          f'{name} is split {placed}, as no partition spec over the mesh '
          f'{dict(zip(over.axis_names or (), over.shape))} says: capture it '
          'over its own mesh, mesh=')
  priority, propagate = (None,
                         None) if annotation is None else (annotation.priority,
                                                           annotation.propagate)
  if not any(spec) and priority is None and propagate is None:
    return None
  named = tuple(tuple(over.axis_name(a) for a in axes) for axes in spec)
  sizes = {over.axis_name(a): size for a, size in enumerate(over.shape)}
  return (named, priority, bool(uneven(tuple(t.shape), named,
                                       sizes)), propagate)


def specs_of(placed: HloSharding, rank: int,
             over: UserMesh) -> Iterator[tuple[tuple[int, ...], ...]]:
  """The partition specs over a mesh, by index, that place a tensor so."""
  if placed.type is ShardingType.REPLICATED:
    yield ((),) * rank
  elif placed.type is ShardingType.OTHER and placed.rank == rank:
    tiles = placed.tiles.dims[:rank]
    for spec in _splits(tiles, [a for a, n in enumerate(over.shape) if n > 1],
                        over.shape):
      if Annotation.from_spec(over, spec, None).sharding == placed:
        yield spec


def _splits(tiles: Sequence[int], free: Sequence[int],
            sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
  """The axes for each dimension that give as many tiles as it has."""
  if not tiles:
    yield ()
    return
  for count in range(len(free) + 1):
    for axes in itertools.permutations(free, count):
      if math.prod(sizes[a] for a in axes) == tiles[0]:
        rest = [a for a in free if a not in axes]
        for others in _splits(tiles[1:], rest, sizes):
          yield (axes, *others)
