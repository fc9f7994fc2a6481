"""V2 shardings of real meshes, judged by XLA's own V1 and by real shards.

Each placement is checked against what the official path makes of it (the text
of a marked tensor) and against the coordinates of each device in the mesh.
"""

import itertools
from unittest import mock

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.sharding.hlo_sharding import HloSharding
from torch_xla.shardy.sharding.partition_spec import (NoIotaError,
                                                      PartitionSpecError)
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.sharding.tile_assignment import IotaTileAssignment

ENVIRONMENT = environments.DEVICES

_ORDERS = {
    'plain': list(range(8)),
    'reversed': list(range(7, -1, -1)),
    'columns': [0, 4, 1, 5, 2, 6, 3, 7],
    'pairs': [1, 0, 3, 2, 5, 4, 7, 6],
    'torus': [0, 1, 3, 2, 4, 5, 7, 6],
    'shuffled': [5, 2, 7, 0, 3, 6, 1, 4],
}


@pytest.fixture(autouse=True, scope='module')
def spmd():
  xr.use_spmd()


def mesh_of(shape, order='plain'):
  return xs.Mesh(_ORDERS[order], shape, tuple('xyzw'[:len(shape)]))


def specs(names, rank):
  """Every partition spec, tuples of axes in every order included."""
  for size in range(len(names) + 1):
    for axes in itertools.permutations(names, size):
      for bounds in itertools.combinations_with_replacement(
          range(size + 1), rank - 1):
        parts = [axes[a:b] for a, b in itertools.pairwise((0, *bounds, size))]
        yield tuple(
            part if len(part) > 1 else part[0] if part else None
            for part in parts)


def v1_text(mesh, spec):
  """What XLA holds for a tensor that the official path marked."""
  t = torch.zeros([8] * len(spec)).to('xla')
  xs.mark_sharding(t, mesh, spec)
  return torch_xla._XLAC._get_xla_sharding_spec(t)


def tiles_by_device(mesh, spec):
  """The index of each device's tile, from its place in the mesh."""
  tiles = {}
  for place, device in np.ndenumerate(mesh.get_logical_mesh()):
    tile = []
    for entry in spec:
      names = entry if isinstance(entry, tuple) else (entry,) if entry else ()
      index = 0
      for name in names:
        axis = mesh.axis_names.index(name)
        index = index * mesh.mesh_shape[axis] + place[axis]
      tile.append(index)
    tiles[int(device)] = tuple(tile)
  return tiles


def tiles_in(sharding, rank, devices):
  """The index of each device's tile, from the expanded device list."""
  if sharding.tiles is None:
    assert str(sharding) == '{replicated}'
    return {device: (0,) * rank for device in range(devices)}
  array = sharding.to_v1().tiles.to_array()
  return {int(device): index[:rank] for index, device in np.ndenumerate(array)}


def check(mesh, spec):
  """Checks the sharding and the V2 arguments of one partition spec."""
  sharding = mesh.get_hlo_sharding(spec)
  theirs = v1_text(mesh, spec)
  assert str(sharding.to_v1()) == theirs
  assert sharding == parse_sharding(theirs)
  wanted = tiles_by_device(mesh, spec)
  assert tiles_in(sharding, len(spec), mesh.size()) == wanted
  if sharding.v1_reason is None:
    assert sharding.tiles is None or '<=' in str(sharding)
    dims, reshape_dims, perm, types = mesh._get_op_sharding_args_v2(spec)
    tiles = IotaTileAssignment(tuple(dims), tuple(reshape_dims), tuple(perm))
    assert HloSharding.tiled(tiles, types) == sharding
    assert len(dims) == len(spec) + len(types)
    array = tiles.to_array()
    assert {int(d): i[:len(spec)] for i, d in np.ndenumerate(array)} == wanted
  else:
    with pytest.raises(NoIotaError):
      mesh._get_op_sharding_args_v2(spec)
  return str(sharding)


@pytest.mark.parametrize('order', _ORDERS)
def test_every_partition_spec(order):
  mesh = mesh_of((2, 4), order)
  for rank in (1, 2, 3):
    for spec in specs(mesh.axis_names, rank):
      check(mesh, spec)


# Mesh (x: 2, y: 4), every placement of its axes on two dimensions; the examples
# of pytorch/xla#9348 are among them. With the arguments of upstream's master.
@pytest.mark.parametrize('shape, order, spec, text', [
    ((2, 4), 'columns', ('x', 'y'), '{devices=[2,4]<=[2,4]T(1,0)}'),
    ((2, 4), 'columns', ('y', 'x'), '{devices=[4,2]<=[4,2]T(1,0)}'),
    ((4, 2), 'columns', ('x', 'y'), '{devices=[4,2]<=[2,4]T(1,0)}'),
    ((4, 2), 'columns', ('y', 'x'), '{devices=[2,4]<=[8]}'),
    ((4, 2), 'pairs',
     ('x', None), '{devices=[4,1,2]<=[8] last_tile_dim_replicate}'),
    ((4, 2), 'pairs', ('x', 'y'), '{devices=[4,2]1,0,3,2,5,4,7,6}'),
    ((2, 4), 'reversed', ('x', 'y'), '{devices=[2,4]7,6,5,4,3,2,1,0}'),
    ((2, 4), 'reversed', (None, None), '{replicated}'),
    ((2, 4), 'torus',
     ('x', None), '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'),
    ((2, 4), 'torus', ('x', 'y'), '{devices=[2,4]0,1,3,2,4,5,7,6}'),
])
def test_device_ids_count(shape, order, spec, text):
  assert check(mesh_of(shape, order), spec) == text


def slice_of(coords, first, index=None):
  """The attributes of a TPU slice whose devices stand at `coords`, in order."""
  extra = {} if index is None else {'slice_index': index}
  return [{
      'name': f'TPU:{first + i}',
      'coords': list(at),
      'core_on_chip': 0,
      **extra
  } for i, at in enumerate(coords)]


def hybrid_mesh(attributes, ici, dcn=None, names=None):
  with mock.patch.object(
      xr, 'global_runtime_device_attributes', return_value=attributes):
    with mock.patch('torch_xla.core.xla_model.xla_device_hw') as hardware:
      hardware.return_value = 'TPU'
      return xs.HybridMesh(
          ici_mesh_shape=ici,
          dcn_mesh_shape=dcn,
          axis_names=names or tuple('xyzw'[:len(ici)]))


_SQUARE = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
_RING = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
_CUBE = list(itertools.product(range(2), repeat=3))
_BOARD = [(x, y, 0) for y in range(2) for x in range(4)]


@pytest.mark.parametrize('attributes, ici, dcn, placed, has_v2', [
    (slice_of(_BOARD, 0), (2, 4), None, '[[0, 1, 2, 3], [4, 5, 6, 7]]', True),
    (slice_of(_BOARD, 0),
     (4, 2), None, '[[0, 4], [1, 5], [2, 6], [3, 7]]', True),
    (slice_of(_CUBE, 0), (2, 4), None, '[[0, 2, 4, 6], [1, 3, 5, 7]]', True),
    (slice_of(_CUBE, 0),
     (2, 2, 2), None, '[[[0, 4], [2, 6]], [[1, 5], [3, 7]]]', True),
    (slice_of(_SQUARE, 0, 0) + slice_of(_SQUARE, 4, 1), (2, 2),
     (1, 2), '[[0, 1, 4, 5], [2, 3, 6, 7]]', True),
    (slice_of(_RING, 0, 0) + slice_of(_RING, 4, 1), (2, 2),
     (2, 1), '[[0, 1], [3, 2], [4, 5], [7, 6]]', False),
    (slice_of(_RING, 0, 0) + slice_of(_SQUARE, 4, 1), (2, 2),
     (1, 2), '[[0, 1, 4, 5], [3, 2, 6, 7]]', False),
])
def test_hybrid_mesh(attributes, ici, dcn, placed, has_v2):
  mesh = hybrid_mesh(attributes, ici, dcn)
  assert str(mesh.get_logical_mesh().tolist()) == placed
  texts = [
      check(mesh, spec)
      for rank in (1, 2)
      for spec in specs(mesh.axis_names, rank)
  ]
  listed = [text for text in texts if '=' in text and '<=' not in text]
  assert bool(listed) != has_v2
  # Some placements have a V2 form all the same.
  assert any('<=' in text for text in texts)


def test_scalar():
  mesh = mesh_of((2, 4))
  assert str(mesh.get_hlo_sharding(())) == '{replicated}' == v1_text(mesh, ())
  assert mesh._get_op_sharding_args_v2(
      ()) == ([8], [2, 4], [0, 1], [xs.ShardingType.REPLICATED])


@pytest.mark.parametrize('spec, error, message', [
    (('x', 'x'), PartitionSpecError, 'names a mesh axis twice'),
    ((('x', 'y'), 'y'), PartitionSpecError, 'names a mesh axis twice'),
    ((0, 'x'), PartitionSpecError, 'names a mesh axis twice'),
    ((2, None), PartitionSpecError, 'axis 2 of a mesh with 2 axes'),
    ((-1, None), PartitionSpecError, 'axis -1 of a mesh with 2 axes'),
    (('z', None), ValueError, 'Axis name z is not defined'),
    ((['x'], None), ValueError, "<class 'list'> is not supported"),
    ((1.0, None), ValueError, "<class 'float'> is not supported"),
])
def test_bad_partition_spec(spec, error, message):
  mesh = mesh_of((2, 4))
  with pytest.raises(error, match=message):
    mesh.get_hlo_sharding(spec)
  with pytest.raises(error, match=message):
    mesh._get_op_sharding_args_v2(spec)


def test_v1_path_is_untouched():
  # The official arguments, which _XLAC takes, list every device as ever.
  mesh = mesh_of((2, 4), 'torus')
  tiles, groups, replicas, kind = mesh._get_op_sharding_args(('x', 'y'))
  assert tiles == [[0, 1, 3, 2], [4, 5, 7, 6]]
  assert (groups, replicas, kind) == ([], [], int(xs.ShardingType.TILED))
