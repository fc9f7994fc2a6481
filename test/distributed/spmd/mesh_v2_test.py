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


def test_enumeration_is_complete():
  assert len(set(specs('xy', 2))) == len(list(specs('xy', 2))) == 11
  assert {(('x', 'y'), None), ('y', 'x'),
          (None, ('y', 'x'))} < set(specs('xy', 2))


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
@pytest.mark.parametrize('shape', [
    (8,),
    (2, 4),
    (4, 2),
    (1, 8),
    pytest.param((2, 1, 4), marks=pytest.mark.nightly),
    pytest.param((2, 2, 2), marks=pytest.mark.nightly),
])
def test_every_partition_spec(shape, order):
  mesh = mesh_of(shape, order)
  for rank in (1, 2, 3):
    for spec in specs(mesh.axis_names, rank):
      check(mesh, spec)


# Mesh (x: 2, y: 4), every placement of its axes on two dimensions; the examples
# of pytorch/xla#9348 are among them. With the arguments of upstream's master.
@pytest.mark.parametrize('spec, text, devices, args', [
    ((None, None), '{replicated}', None, ([1, 1, 8], [0, 1], 1)),
    (('x', None), '{devices=[2,1,4]<=[8] last_tile_dim_replicate}',
     [[[0, 1, 2, 3]], [[4, 5, 6, 7]]], ([2, 1, 4], [0, 1], 1)),
    ((None, 'x'), '{devices=[1,2,4]<=[8] last_tile_dim_replicate}',
     [[[0, 1, 2, 3], [4, 5, 6, 7]]], ([1, 2, 4], [0, 1], 1)),
    (('y', None), '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
     [[[0, 4]], [[1, 5]], [[2, 6]], [[3, 7]]], ([4, 1, 2], [1, 0], 1)),
    ((None, 'y'), '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
     [[[0, 4], [1, 5], [2, 6], [3, 7]]], ([1, 4, 2], [1, 0], 1)),
    (('x', 'y'), '{devices=[2,4]<=[8]}', [[0, 1, 2, 3], [4, 5, 6, 7]],
     ([2, 4], [0, 1], 0)),
    (('y', 'x'), '{devices=[4,2]<=[2,4]T(1,0)}', [[0, 4], [1, 5], [2, 6],
                                                  [3, 7]], ([4, 2], [1, 0], 0)),
    ((('x', 'y'), None), '{devices=[8,1]<=[8]}', [[0], [1], [2], [3], [4], [5],
                                                  [6], [7]],
     ([8, 1], [0, 1], 0)),
    ((('y', 'x'), None), '{devices=[8,1]<=[2,4]T(1,0)}',
     [[0], [4], [1], [5], [2], [6], [3], [7]], ([8, 1], [1, 0], 0)),
    ((None, ('x', 'y')), '{devices=[1,8]<=[8]}', [[0, 1, 2, 3, 4, 5, 6, 7]],
     ([1, 8], [0, 1], 0)),
    ((None,
      ('y', 'x')), '{devices=[1,8]<=[2,4]T(1,0)}', [[0, 4, 1, 5, 2, 6, 3, 7]],
     ([1, 8], [1, 0], 0)),
])
def test_two_by_four(spec, text, devices, args):
  mesh = mesh_of((2, 4))
  assert check(mesh, spec) == text
  if devices is not None:
    tiles = mesh.get_hlo_sharding(spec).to_v1().tiles
    assert tiles.to_array().tolist() == devices
  dims, perm, replicated = args
  types = [xs.ShardingType.REPLICATED] * replicated
  assert mesh._get_op_sharding_args_v2(spec) == (dims, [2, 4], perm, types)


def test_z_and_xy():
  mesh = mesh_of((2, 2, 2))
  assert check(mesh, ('z', ('x', 'y'))) == '{devices=[2,4]<=[4,2]T(1,0)}'
  assert v1_text(mesh, ('z', ('x', 'y'))) == '{devices=[2,4]0,2,4,6,1,3,5,7}'
  # As on master: not merged yet.
  assert mesh._get_op_sharding_args_v2(
      ('z', ('x', 'y'))) == ([2, 4], [2, 2, 2], [2, 0, 1], [])


def texts_of(mesh, spec):
  """The sharding, its V1 form, and what XLA holds for such a tensor."""
  sharding = mesh.get_hlo_sharding(spec)
  return str(sharding), str(sharding.to_v1()), v1_text(mesh, spec)


@pytest.mark.environment()
def test_reversed_axes_of_sixteen_devices(monkeypatch):
  monkeypatch.setenv('CPU_NUM_DEVICES', '16')  # Until the runtime starts.
  assert xr.global_runtime_device_count() == 16
  devices = '0,8,4,12,1,9,5,13,2,10,6,14,3,11,7,15'
  partial = '0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15'
  for shape, spec, v1, v2 in (
      ((2, 2, 4), ('z', 'y', 'x'), f'{{devices=[4,2,2]{devices}}}',
       '{devices=[4,2,2]<=[2,2,4]T(2,1,0)}'),
      ((2, 2, 4), ('z', None),
       f'{{devices=[4,1,4]{partial} last_tile_dim_replicate}}',
       '{devices=[4,1,4]<=[4,4]T(1,0) last_tile_dim_replicate}'),
      ((2, 2, 2, 2), ('z', 'w', ('y', 'x')), f'{{devices=[2,2,4]{devices}}}',
       '{devices=[2,2,4]<=[2,2,4]T(2,1,0)}'),
  ):
    mesh = xs.Mesh(np.arange(16), shape, tuple('xyzw'[:len(shape)]))
    assert texts_of(mesh, spec) == (v2, v1, v1)


@pytest.mark.environment()
def test_one_device(monkeypatch):
  monkeypatch.setenv('CPU_NUM_DEVICES', '1')  # Until the runtime starts.
  assert xr.global_runtime_device_count() == 1
  for shape, spec in (((1, 1, 1), ('z', 'y', 'x')), ((1, 1, 1), ('z', None)),
                      ((1, 1, 1, 1), ('z', 'w', ('y', 'x')))):
    mesh = xs.Mesh(np.arange(1), shape, tuple('xyzw'[:len(shape)]))
    assert set(texts_of(mesh, spec)) == {'{replicated}'}


# Permuted meshes: with a V2 form that is not that of the plain order, with one
# for the replica groups only, and with none.
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


def test_hybrid_mesh_of_two_slices():
  # Devices that are not listed by coordinates, as upstream's own test has them.
  at = {(0, 0): (2, 4), (1, 0): (1, 7), (0, 1): (0, 6), (1, 1): (3, 5)}
  attributes = [
      slice_of([(*coords, 0)], devices[index], index)[0]
      for index in range(2)
      for coords, devices in at.items()
  ]
  mesh = hybrid_mesh(attributes, (2, 2), (2, 1), ('data', 'model'))
  placed = mesh.get_logical_mesh()
  assert sorted(placed[:2].ravel()) == [0, 1, 2, 3]
  text = ','.join(map(str, placed.ravel()))
  assert text != '0,1,2,3,4,5,6,7'
  assert check(mesh, ('data', 'model')) == f'{{devices=[4,2]{text}}}'
  assert check(mesh, (('data', 'model'), None)) == f'{{devices=[8,1]{text}}}'


def test_indices_are_axes_as_names_are():
  mesh = mesh_of((2, 4), 'columns')
  unnamed = xs.Mesh(_ORDERS['columns'], (2, 4))
  for named, spec in [(('y', 'x'), (1, 0)),
                      ((('y', 'x'), None), ((1, 0), None)),
                      (('x', ('y',)), ('x', 1))]:
    sharding = mesh.get_hlo_sharding(named)
    assert mesh.get_hlo_sharding(spec) == sharding
    indices = tuple(0 if entry == 'x' else entry for entry in spec)
    assert unnamed.get_hlo_sharding(indices) == sharding
    assert unnamed._get_op_sharding_args_v2(
        indices) == mesh._get_op_sharding_args_v2(named)


def test_scalar():
  mesh = mesh_of((2, 4))
  assert str(mesh.get_hlo_sharding(())) == '{replicated}' == v1_text(mesh, ())
  assert mesh._get_op_sharding_args_v2(
      ()) == ([8], [2, 4], [0, 1], [xs.ShardingType.REPLICATED])


def test_subgroup_types_are_those_of_the_package():
  types = mesh_of((2, 4))._get_op_sharding_args_v2(('x', None))[3]
  assert [type(t) for t in types] == [xs.ShardingType]


def test_arguments_are_not_shared():
  # A caller may change the lists that it gets.
  mesh = mesh_of((2, 4))
  mesh._get_op_sharding_args_v2(('x', None))[0].clear()
  assert mesh._get_op_sharding_args_v2(('x', None))[0] == [2, 1, 4]


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
@pytest.mark.parametrize('order', ['plain', 'shuffled'])
def test_bad_partition_spec(order, spec, error, message):
  mesh = mesh_of((2, 4), order)
  with pytest.raises(error, match=message):
    mesh.get_hlo_sharding(spec)
  with pytest.raises(error, match=message):
    mesh._get_op_sharding_args_v2(spec)


def test_no_iota_says_why():
  with pytest.raises(NoIotaError, match='no reshaped and transposed iota'):
    mesh_of((8,), 'reversed')._get_op_sharding_args_v2(('x',))


def test_v1_path_is_untouched():
  # The official arguments, which _XLAC takes, list every device as ever.
  mesh = mesh_of((2, 4), 'torus')
  tiles, groups, replicas, kind = mesh._get_op_sharding_args(('x', 'y'))
  assert tiles == [[0, 1, 3, 2], [4, 5, 7, 6]]
  assert (groups, replicas, kind) == ([], [], int(xs.ShardingType.TILED))
