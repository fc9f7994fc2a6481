"""V2 shardings of real meshes, judged by each device's place in the mesh."""

from __future__ import annotations

import math

import kinds
from kinds import assert_right
import numpy as np
import placements
import pytest
import torch
from torch_xla import _XLAC
import torch_xla.distributed.spmd as xs
from torch_xla_form import V2

ENVIRONMENT = V2
pytestmark = pytest.mark.usefixtures('mesh')

_PLAIN = list(range(8))
_ORDERS = {
    'plain': _PLAIN,
    'reversed': list(range(7, -1, -1)),
    'columns': [0, 4, 1, 5, 2, 6, 3, 7],
    'pairs': [1, 0, 3, 2, 5, 4, 7, 6],
    'torus': [0, 1, 3, 2, 4, 5, 7, 6],
    'shuffled': [5, 2, 7, 0, 3, 6, 1, 4],
}
_SHAPES = [(8,), (2, 4), (4, 2), (1, 8), (2, 1, 4), (2, 2, 2)]


def _mesh(shape, order='plain'):
  return xs.Mesh(np.array(_ORDERS[order]), shape, tuple('xyz'[:len(shape)]))


def _every_spec(mesh, ranks=(1, 2, 3)):
  return [
      spec for rank in ranks
      for spec in placements.specs(mesh.axis_names, rank)
  ]


def _of_args(args, rank):
  """The placement that V2 arguments give, as an `OpSharding` reads them."""
  dims, reshape_dims, transpose_perm, types = args
  assert list(types) in ([], [xs.ShardingType.REPLICATED])
  assert len(dims) == rank + len(types)
  assert math.prod(dims) == math.prod(reshape_dims) == 8
  order = placements.iota(reshape_dims, transpose_perm)
  return placements.of_tiles(order.reshape(dims), rank)


@pytest.mark.parametrize('shape', _SHAPES, ids=str)
def test_arguments_say_what_the_spec_asks_for(shape):
  """Devices in plain order have them, as on master; others need not."""
  mesh = _mesh(shape)
  for spec in _every_spec(mesh):
    args = mesh._get_op_sharding_args_v2(spec)
    assert _of_args(args, len(spec)) == placements.of_spec(mesh, spec), spec


@pytest.mark.parametrize('order', _ORDERS)
@pytest.mark.parametrize('shape', _SHAPES, ids=str)
def test_marked_tensors_say_what_the_spec_asks_for(shape, order):
  """Whichever version their text is in: never a wrong V2 one."""
  mesh = _mesh(shape, order)
  for spec in _every_spec(mesh, (1, 2)):
    t = torch.zeros([8] * len(spec)).to('xla')
    xs.mark_sharding(t, mesh, spec)
    text = _XLAC._get_xla_sharding_spec(t)
    assert placements.of_text(text,
                              len(spec)) == placements.of_spec(mesh,
                                                               spec), (spec,
                                                                       text)


# Mesh (x: 2, y: 4), every placement of its axes on two dimensions; the examples
# of pytorch/xla#9348 are among them.
@pytest.mark.parametrize(
    'spec, dims, perm, replicated', [
        (('x', None), [2, 1, 4], [0, 1], True),
        ((None, 'x'), [1, 2, 4], [0, 1], True),
        (('y', None), [4, 1, 2], [1, 0], True),
        ((None, 'y'), [1, 4, 2], [1, 0], True),
        (('x', 'y'), [2, 4], [0, 1], False),
        (('y', 'x'), [4, 2], [1, 0], False),
        ((('x', 'y'), None), [8, 1], [0, 1], False),
        ((('y', 'x'), None), [8, 1], [1, 0], False),
        ((None, ('x', 'y')), [1, 8], [0, 1], False),
        ((None, ('y', 'x')), [1, 8], [1, 0], False),
    ],
    ids=str)
def test_two_by_four(spec, dims, perm, replicated):
  types = [xs.ShardingType.REPLICATED] if replicated else []
  assert _mesh(
      (2, 4))._get_op_sharding_args_v2(spec) == (dims, [2, 4], perm, types)


@pytest.mark.parametrize('order', _ORDERS)
def test_devices_hold_what_the_spec_says(order):
  mesh = _mesh((2, 4), order)
  full = torch.arange(64.).reshape(8, 8)
  for spec in placements.specs('xy', 2):
    t = full.to('xla')
    shards = xs.mark_sharding(t, mesh, spec).local_shards
    wanted = placements.of_spec(mesh, spec)
    tiles = {device: at for at, held in wanted.items() for device in held}
    rows, columns = (8 // (1 + max(at[dim] for at in wanted)) for dim in (0, 1))
    assert len(shards) == 8
    for shard in shards:
      i, j = tiles[int(shard.shard_device.split(':')[1])]
      part = full[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]
      assert_right(shard.data, part, 0, about=(spec, shard.shard_device))


def test_indices_are_axes_as_names_are():
  mesh, unnamed = _mesh((2, 4)), xs.Mesh(np.arange(8), (2, 4))
  for named, spec in [(('y', 'x'), (1, 0)),
                      ((('y', 'x'), None), ((1, 0), None))]:
    args = mesh._get_op_sharding_args_v2(named)
    assert mesh._get_op_sharding_args_v2(spec) == args
    assert unnamed._get_op_sharding_args_v2(spec) == args


@pytest.mark.means(kinds.DIFFERS)
@pytest.mark.parametrize(
    'spec, message', [
        (('z', None), 'Axis name z is not defined'),
        ((['x'], None), "'list'"),
        ((1.0, None), "<class 'float'> is not supported"),
    ],
    ids=str)
@pytest.mark.parametrize('order', ['plain', 'shuffled'])
def test_bad_partition_spec(order, spec, message):
  with pytest.raises((ValueError, TypeError), match=message):
    _mesh((2, 4), order)._get_op_sharding_args_v2(spec)
