"""Drawings of V2 shardings: those of the same placement in V1."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import placements
import pytest
import torch
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd import debugging
from torch_xla_form import V2

pytest.importorskip('rich', reason='upstream draws with rich')

ENVIRONMENT = V2
pytestmark = pytest.mark.usefixtures('mesh')

_REPLICATE = ' last_tile_dim_replicate'


def _drawn(draw, *arguments) -> str:
  """What is printed below the first line, which repeats the text."""
  with contextlib.redirect_stdout(io.StringIO()) as output:
    draw(*arguments, use_color=False)
  return output.getvalue().split('\n', 1)[1]


def _listed(dims, reshape_dims, perm, suffix) -> str:
  devices = placements.iota(reshape_dims, perm).tolist()
  return (f'{{devices=[{",".join(map(str, dims))}]'
          f'{",".join(map(str, devices))}{suffix}}}')


@pytest.mark.parametrize(
    'dims, reshape_dims, perm, suffix', [
        ((2, 4), [8], None, ''),
        ((4, 2), [2, 4], [1, 0], ''),
        ((8, 1), [2, 2, 2], [2, 0, 1], ''),
        ((1, 8), [4, 2], [1, 0], ''),
        ((2, 1, 4), [8], None, _REPLICATE),
        ((1, 4, 2), [2, 4], [1, 0], _REPLICATE),
        ((4, 4), [2, 8], [1, 0], ''),
        ((2, 8), [4, 2, 2], [2, 0, 1], ''),
        ((8, 1, 2), [4, 2, 2], [0, 2, 1], _REPLICATE),
    ],
    ids=str)
def test_v2_text_is_drawn_as_its_v1(dims, reshape_dims, perm, suffix):
  permuted = f'T({",".join(map(str, perm))})' if perm else ''
  v2 = (f'{{devices=[{",".join(map(str, dims))}]'
        f'<=[{",".join(map(str, reshape_dims))}]{permuted}{suffix}}}')
  drawn = _drawn(debugging.visualize_sharding, v2)
  assert '│' in drawn
  v1 = _listed(dims, reshape_dims, perm, suffix)
  assert drawn == _drawn(debugging.visualize_sharding, v1)


@pytest.mark.parametrize(
    'order', [
        list(range(8)), [7, 6, 5, 4, 3, 2, 1, 0], [0, 4, 1, 5, 2, 6, 3, 7],
        [0, 1, 3, 2, 4, 5, 7, 6]
    ],
    ids=str)
@pytest.mark.parametrize(
    'spec', [('x', 'y'), ('y', 'x'), (('y', 'x'), None), (None, ('x', 'y')),
             ('x', None), (None, 'y')],
    ids=str)
def test_tensors(order, spec):
  """Drawn as the list of devices that the mesh and the spec ask for."""
  mesh = xs.Mesh(np.array(order), (2, 4), ('x', 'y'))
  t = torch.zeros(8, 8).to('xla')
  wrapped = xs.mark_sharding(t, mesh, spec)
  wanted = placements.of_spec(mesh, spec)
  tiles = [1 + max(at[dim] for at in wanted) for dim in (0, 1)]
  copies = len(wanted[0, 0])
  # XLA sorts the devices that hold the same.
  devices = [d for at in sorted(wanted) for d in sorted(wanted[at])]
  v1 = (f'{{devices=[{",".join(map(str, tiles + [copies] * (copies > 1)))}]'
        f'{",".join(map(str, devices))}{_REPLICATE if copies > 1 else ""}}}')
  drawn = _drawn(debugging.visualize_sharding, v1)
  for tensor in (t, wrapped):
    assert _drawn(debugging.visualize_tensor_sharding, tensor) == drawn
