"""Placements written in the axes of a mesh: every device keeps its tile."""

import doctest
import itertools
import math

import numpy as np
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.sdy import attributes, mesh_axes
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError
from torch_xla.shardy.sharding import partition_spec
from torch_xla.shardy.sharding.text import parse_sharding

_MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (2, 1, 4), (1, 8), (6,), (2, 3),
           (3, 2), (12,), (3, 4), (4, 3), (2, 6), (2, 3, 2), (16,), (4, 4),
           (2, 8), (8, 2)]


def _tiles_of_dims(mesh: attributes.Mesh, dims) -> dict:
  """Device -> tile, by Shardy's definition of axes and sub-axes."""
  sizes = dict(mesh.axes)
  tiles = {}
  devices = mesh.device_ids or range(mesh.num_devices)
  for place, device in enumerate(devices):
    at = dict(zip(sizes, np.unravel_index(place, tuple(sizes.values()))))
    tile = []
    for dim in dims:
      index = 0
      for axis in dim.axes:
        whole = sizes[axis.name]
        size = axis.size or whole
        part = int(at[axis.name]) // (whole // (axis.pre_size * size)) % size
        index = index * size + part
      tile.append(index)
    tiles[device] = tuple(tile)
  return tiles


def _tiles_of_spec(mesh: UserMesh, spec) -> dict:
  """Device -> tile, by the meaning of a partition spec."""
  devices = mesh.device_ids or range(math.prod(mesh.shape))
  tiles = {}
  for place, device in enumerate(devices):
    at = np.unravel_index(place, mesh.shape)
    tile = []
    for axes in spec:
      index = 0
      for axis in axes:
        index = index * mesh.shape[axis] + int(at[axis])
      tile.append(index)
    tiles[device] = tuple(tile)
  return tiles


def _specs(rank: int):
  """Every way to give some of `rank` axes to two or three dimensions."""
  for count in range(rank + 1):
    for axes in itertools.permutations(range(rank), count):
      for cut in range(count + 1):
        yield axes[:cut], (), axes[cut:]
        yield axes[cut:], axes[:cut]


def _orders(n: int):
  """Device orders: plain, reversed, two transposes, and one that is none."""
  yield None
  yield tuple(range(n))[::-1]
  for rows in 2, 3:
    if n % rows == 0:
      yield tuple(np.arange(n).reshape(rows, -1).T.reshape(-1).tolist())
  yield tuple(np.random.default_rng(n).permutation(n).tolist())


@pytest.mark.parametrize(
    'doc', [attributes, mesh_axes], ids=lambda m: m.__name__)
def test_docstrings(doc):
  failed, run = doctest.testmod(
      doc, extraglobs={'parse_sharding': parse_sharding})
  assert run and not failed


@pytest.mark.parametrize('shape', _MESHES, ids=str)
def test_every_spec_over_every_mesh_of_as_many_devices(shape):
  n = math.prod(shape)
  written = 0
  refused = []
  for ids in _orders(n):
    user_mesh = UserMesh.from_devices(shape, None, ids)
    for spec in _specs(len(shape)):
      expected = _tiles_of_spec(user_mesh, spec)
      sharding = partition_spec.sharding_of(shape, user_mesh.device_ids, spec)
      for other in (s for s in _MESHES if math.prod(s) == n):
        mesh = mesh_axes.mesh_of(UserMesh.from_devices(other, None, ids))
        try:
          dims = mesh_axes.dims_of(sharding, mesh, len(spec))
        except InexpressibleError:
          refused.append((shape, other))
          continue
        attributes.check(mesh, dims)
        assert all(d.closed and d.priority is None for d in dims)
        assert _tiles_of_dims(mesh, dims) == expected, (mesh, spec, dims)
        written += 1
      annotation = Annotation.from_spec(user_mesh, spec, None)
      own = mesh_axes.mesh_of(user_mesh)
      dims = mesh_axes.annotated_dims(annotation, own)
      assert [len(d.axes) for d in dims] == [len(axes) for axes in spec]
      assert _tiles_of_dims(own, dims) == expected
  assert written
  # In the same device order powers of two always divide alike.
  assert not refused or n in (6, 12)
  assert not any(a == b for a, b in refused)


@pytest.mark.parametrize(
    'one, other',
    itertools.permutations([(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8)], 2),
    ids=str)
def test_annotation_over_another_mesh(one, other):
  """What `annotated_dims` falls back to keeps tile and priority."""
  user_mesh = UserMesh.from_devices(one, None)
  mesh = mesh_axes.mesh_of(UserMesh.from_devices(other, None))
  for spec in _specs(len(one)):
    priority = tuple(range(len(spec)))
    dims = mesh_axes.annotated_dims(
        Annotation.from_spec(user_mesh, spec, priority), mesh)
    attributes.check(mesh, dims)
    assert _tiles_of_dims(mesh, dims) == _tiles_of_spec(user_mesh, spec)
    # An axis of size 1 that the other mesh lacks leaves nothing to order.
    assert [d.priority for d in dims] == [
        None if axes and not d.axes else p
        for d, axes, p in zip(dims, spec, priority)
    ]
    if 1 not in one:
      assert [d.closed for d in dims] == [bool(axes) for axes in spec]


def test_split_over_an_axis_that_the_mesh_lacks_stays_closed():
  mesh = mesh_axes.mesh_of(UserMesh.from_devices((2, 4), None))
  annotation = Annotation.from_spec(
      UserMesh.from_devices((1, 8), None), ((0,), (1,)), (1, 2))
  first, second = mesh_axes.annotated_dims(annotation, mesh)
  assert first == attributes.DimSharding()
  assert second.closed


def test_a_device_order_of_its_own_is_refused_or_right():
  """A sharding over plain devices in a mesh of permuted ones, and back."""
  n, kept, refused = 8, 0, 0
  for ids in _orders(n):
    for shape in [(8,), (2, 4), (2, 2, 2)]:
      mesh = mesh_axes.mesh_of(UserMesh.from_devices(shape, None, ids))
      for theirs in _orders(n):
        user_mesh = UserMesh.from_devices((2, 4), ('x', 'y'), theirs)
        for spec in _specs(2):
          sharding = partition_spec.sharding_of((2, 4), theirs, spec)
          try:
            dims = mesh_axes.dims_of(sharding, mesh, len(spec))
          except InexpressibleError:
            refused += 1
            continue
          kept += 1
          assert _tiles_of_dims(mesh, dims) == _tiles_of_spec(user_mesh, spec)
  # Both happen: replicated always can be said, a random order never else.
  assert kept > 100 and refused > 100


@pytest.mark.parametrize('text, rank, message', [
    ('{manual}', 2, 'the sharding {manual}'),
    ('{maximal device=3}', 2, 'the sharding {maximal device=3}'),
    ('{unknown}', 2, 'the sharding {unknown}'),
    ('{devices=[2,1,4]<=[8] last_tile_dims={manual}}', 2,
     'last_tile_dims={manual}'),
    ('{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}', 2,
     'last_tile_dims={manual, replicated}'),
    ('{devices=[2,2]<=[4]}', 2, 'over 4 of 8 devices'),
    ('{devices=[2,4]<=[8]}', 3, 'on a tensor of rank 3'),
    ('{devices=[8,1]7,1,2,3,4,5,6,0}', 2, 'over #sdy.mesh<["x"=2, "y"=4]>'),
    ('{{replicated}, {replicated}}', 2, 'the sharding {{replicated}'),
])
def test_what_no_mesh_says(text, rank, message):
  mesh = attributes.Mesh((('x', 2), ('y', 4)))
  with pytest.raises(InexpressibleError) as raised:
    mesh_axes.dims_of(parse_sharding(text), mesh, rank)
  assert message in str(raised.value)


@pytest.mark.parametrize('names, expected', [
    (None, ['axis_0', 'axis_1']),
    (('data', 'model'), ['data', 'model']),
    (('a.b', 'c-d'), ['a.b', 'c-d']),
    (('x', 'x'), ['axis_0', 'axis_1']),
    (('é', 'y'), ['axis_0', 'axis_1']),
    (('a b', 'y'), ['axis_0', 'axis_1']),
    (('a"b', 'y'), ['axis_0', 'axis_1']),
    (('', 'y'), ['axis_0', 'axis_1']),
    (('0', '1'), ['0', '1']),
])
def test_axis_names(names, expected):
  mesh = mesh_axes.mesh_of(UserMesh.from_devices((2, 4), names))
  assert mesh.axes == tuple(zip(expected, (2, 4)))


@pytest.mark.parametrize('shape, spec, priority, expected', [
    ((2, 4), ((0,), (1,)), None, '[{"axis_0"}, {"axis_1"}]'),
    ((2, 4), ((0,), ()), (3, None), '[{"axis_0"}p3, {}]'),
    ((2, 4), ((0,), ()), (None, 2), '[{"axis_0"}, {?}p2]'),
    ((2, 4), ((), ()), (0, 1), '[{?}p0, {?}p1]'),
    ((2, 4), ((1, 0),), (0,), '[{"axis_1", "axis_0"}p0]'),
    ((2, 4), (), (), '[]'),
    ((1, 8), ((0,), (1,)), (1, 2), '[{"axis_0"}p1, {"axis_1"}p2]'),
])
def test_priorities_and_open_dimensions(shape, spec, priority, expected):
  mesh = UserMesh.from_devices(shape, None)
  own = mesh_axes.mesh_of(mesh)
  dims = mesh_axes.annotated_dims(
      Annotation.from_spec(mesh, spec, priority), own)
  assert attributes.text(own, dims) == f'<@mesh, {expected}>'


@pytest.mark.parametrize('placements, axes', [
    ((), (8,)),
    (('{replicated}',), (8,)),
    (('{devices=[8,1]<=[8]}',), (8,)),
    (('{devices=[2,4]<=[8]}',), (2, 4)),
    (('{devices=[4,2]<=[2,4]T(1,0)}',), (2, 4)),
    (('{devices=[2,1,4]<=[8] last_tile_dim_replicate}',), (2, 4)),
    (('{devices=[2,4]<=[8]}', '{devices=[4,2]<=[8]}'), (2, 2, 2)),
    (('{devices=[2,4]<=[8]}', '{devices=[8,1]<=[8]}', '{replicated}'), (2, 4)),
    # Whole rows of the second dimension, in the order of no axis before it.
    (('{devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}',),
     (2, 2, 2)),
    (('{devices=[2,4]<=[8]}', '{devices=[2,4]0,1,2,3,4,5,6,7}'), (2, 4)),
])  # yapf: disable
def test_mesh_of_placements(placements, axes):
  """The mesh has as few axes as do, over plain devices."""
  parsed = tuple(map(parse_sharding, placements))
  mesh = mesh_axes.mesh_of_placements(parsed, 8)
  assert mesh == attributes.Mesh(
      tuple((f'axis_{i}', size) for i, size in enumerate(axes)))
  for placement in parsed:
    dims = mesh_axes.dims_of(placement, mesh, 2)
    attributes.check(mesh, dims)


def test_mesh_of_placements_over_devices_in_an_odd_order():
  """The one that tells most of the order counts, not the first."""
  user_mesh = UserMesh.from_devices((2, 4), None, (7, 1, 2, 3, 4, 5, 6, 0))
  given = {
      spec: partition_spec.sharding_of((2, 4), user_mesh.device_ids, spec)
      for spec in (((0,), ()), ((0,), (1,)), ((1,), ()))
  }
  assert given[(0,), ()].v1_reason
  mesh = mesh_axes.mesh_of_placements(given.values(), 8)
  for spec, placement in given.items():
    dims = mesh_axes.dims_of(placement, mesh, 2)
    assert _tiles_of_dims(mesh, dims) == _tiles_of_spec(user_mesh, spec)


@pytest.mark.parametrize('placements', [
    ('{devices=[2,6]<=[12]}', '{devices=[3,4]<=[12]}'),
    ('{devices=[12,1]<=[12]}', '{devices=[12,1]11,0,2,1,3,4,5,6,7,8,9,10}'),
    ('{devices=[2,2]<=[4]}',),
    ('{manual}', '{devices=[2,1,6]<=[12] last_tile_dims={manual}}'),
])
def test_placements_that_no_mesh_gives(placements):
  """2 and 3 cut each other; two orders; other devices; a manual subgroup.

  What has no tiles is left to `dims_of` to refuse.
  """
  parsed = [parse_sharding(text) for text in placements]
  with pytest.raises(InexpressibleError):
    mesh = mesh_axes.mesh_of_placements(parsed, 12)
    for placement in parsed:
      mesh_axes.dims_of(placement, mesh, 2)
