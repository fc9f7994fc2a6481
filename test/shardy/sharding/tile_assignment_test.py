"""Iota tile assignments, judged by numpy, brute force and XLA."""

import itertools
import math

from hypothesis import given, strategies as st
import numpy as np
from properties import examples
import pytest
from torch_xla.shardy.sharding.tile_assignment import (DeviceList,
                                                       IotaTileAssignment,
                                                       TileAssignmentError)


def from_array(devices, dims=None):
  """The V2 form of a V1 device list."""
  return DeviceList.from_devices(
      devices,
      np.shape(devices) if dims is None else dims).iota


@st.composite
def iotas(draw, max_axes=6):
  """Dims, reshape dims and permutation of an iota, not canonical."""
  sizes = st.sampled_from([1, 2, 2, 3, 4, 5])
  reshape_dims = draw(st.lists(sizes, min_size=1, max_size=max_axes))
  perm = draw(st.permutations(range(len(reshape_dims))))
  order = draw(st.permutations([reshape_dims[p] for p in perm]))
  cuts = draw(st.sets(st.integers(1, max(1, len(order) - 1))))
  bounds = [0, *sorted(c for c in cuts if c < len(order)), len(order)]
  dims = [math.prod(order[a:b]) for a, b in itertools.pairwise(bounds)]
  return dims, reshape_dims, perm


def expand(dims, reshape_dims, perm):
  devices = np.arange(math.prod(dims)).reshape(reshape_dims)
  return devices.transpose(perm).reshape(dims)


def factorizations(n):
  """All ordered ways to write n as a product of factors above 1."""
  if n == 1:
    yield ()
  for first in range(2, n + 1):
    if n % first == 0:
      for rest in factorizations(n // first):
        yield (first, *rest)


def all_iotas(n):
  """Every device order that is a reshaped and transposed iota."""
  orders = set()
  for reshape_dims in factorizations(n):
    for perm in itertools.permutations(range(len(reshape_dims))):
      devices = np.arange(n).reshape(reshape_dims).transpose(perm)
      orders.add(tuple(devices.reshape(-1).tolist()))
  return orders


# The examples in the comments of XLA's tile_assignment.cc.
@pytest.mark.parametrize('reshape_dims, perm, text', [
    ((3, 4, 5), (0, 1, 2), '[60]<=[60]'),
    ((3, 4, 5), (2, 1, 0), '[60]<=[3,4,5]T(2,1,0)'),
    ((3, 4, 5), (1, 2, 0), '[60]<=[3,20]T(1,0)'),
    ((3, 4, 5), (1, 0, 2), '[60]<=[3,4,5]T(1,0,2)'),
    ((3, 4, 5), (2, 0, 1), '[60]<=[12,5]T(1,0)'),
    ((1, 3, 1, 4, 1, 5), (4, 3, 2, 5, 1, 0), '[60]<=[3,20]T(1,0)'),
    ((12, 1, 5), (0, 1, 2), '[60]<=[60]'),
])
def test_canonical_form(reshape_dims, perm, text):
  assert str(IotaTileAssignment((60,), reshape_dims, perm)) == text


@pytest.mark.parametrize('tiles, text', [
    (IotaTileAssignment((8,)), '[8]<=[8]'),
    (IotaTileAssignment((1, 1)), '[1,1]<=[1]'),
    (IotaTileAssignment((4, 2), (2, 4), (1, 0)), '[4,2]<=[2,4]T(1,0)'),
    (IotaTileAssignment((2, 4), (8,)), '[2,4]<=[8]'),
    (IotaTileAssignment((2, 2, 4), (2, 2, 4),
                        (2, 1, 0)), '[2,2,4]<=[2,2,4]T(2,1,0)'),
    (DeviceList.from_devices([3, 2, 1, 0], (2, 2)), '[2,2]3,2,1,0'),
])
def test_str(tiles, text):
  assert str(tiles) == text


@examples(400)
@given(iotas())
def test_prints_what_xla_prints(xla, iota):
  dims, reshape_dims, perm = iota
  axes = ','.join(map(str, reshape_dims))
  order = f"T({','.join(map(str, perm))})" if len(perm) > 1 else ''
  text = f"{{devices=[{','.join(map(str, dims))}]<=[{axes}]{order}}}"
  tiles = IotaTileAssignment(tuple(dims), tuple(reshape_dims), tuple(perm))
  assert f'{{devices={tiles}}}' == xla.text(text)
  np.testing.assert_array_equal(tiles.to_array(), xla.devices(text))


@examples(400)
@given(iotas())
def test_array_round_trip(iota):
  tiles = IotaTileAssignment(*map(tuple, iota))
  array = tiles.to_array()
  np.testing.assert_array_equal(array, expand(*iota))
  assert from_array(array) == tiles
  assert from_array(array.reshape(-1).tolist(), tiles.dims) == tiles
  assert hash(from_array(array)) == hash(tiles)
  assert tiles.num_devices == array.size


@pytest.mark.parametrize('n', range(1, 13))
def test_finds_every_iota(n):
  orders = all_iotas(n)
  found = [from_array(order, (n,)) for order in orders]
  assert None not in found
  for order, iota in zip(orders, found):
    assert tuple(iota.to_array().tolist()) == order
  assert len(set(found)) == len(orders)


@pytest.mark.parametrize('n', range(1, 9))
def test_finds_nothing_else(n):
  orders = all_iotas(n)
  for order in itertools.permutations(range(n)):
    assert (from_array(order) is not None) == (order in orders)


@examples(300)
@given(iotas(), st.data())
def test_sort_groups(xla, iota, data):
  tiles = IotaTileAssignment(*map(tuple, iota))
  n = tiles.num_devices
  size = data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
  tiles = tiles.reshape((n // size, size))
  expected = np.sort(tiles.to_array())
  in_order = tiles.sort_groups(size)
  np.testing.assert_array_equal(in_order.to_array(), expected)
  in_order_list = DeviceList(tiles.to_array()).sort_groups(size)
  np.testing.assert_array_equal(in_order_list.to_array(), expected)
  assert isinstance(in_order, IotaTileAssignment) == (
      from_array(expected) is not None)
  if 1 < size < n:  # Otherwise it is no partial tiling.
    text = f'{{devices={tiles} last_tile_dim_replicate}}'
    np.testing.assert_array_equal(xla.devices(text), expected)


# Many axes, so that a search looks at many runs.
_MILLION = [((2,) * 20, (*range(0, 20, 2), *range(1, 20, 2)))]


@pytest.mark.parametrize('reshape_dims, perm', _MILLION)
def test_finds_the_iota_of_a_million_devices(reshape_dims, perm):
  """A search quadratic in the devices would not come to an end."""
  tiles = IotaTileAssignment((2**20,), reshape_dims, perm)
  assert from_array(tiles.to_array()) == tiles


@pytest.mark.parametrize('reshape_dims, perm', _MILLION)
@pytest.mark.parametrize('changed', [
    pytest.param(lambda order: order[::-1], id='reversed'),
    pytest.param(lambda order: _swapped(order, -2, -1), id='last two swapped'),
    pytest.param(np.random.default_rng(0).permutation, id='shuffled'),
])
def test_a_million_devices_in_an_order_of_their_own(reshape_dims, perm,
                                                    changed):
  order = IotaTileAssignment((2**20,), reshape_dims, perm).to_array()
  assert from_array(changed(order)) is None


def _swapped(order, a, b):
  order[[a, b]] = order[[b, a]]
  return order


def test_needs_no_device_list_in_memory():
  tiles = IotaTileAssignment((2**40, 2**20), (2**20, 2**40), (1, 0))
  assert str(tiles.sort_groups(
      2**20)) == ('[1099511627776,1048576]<=[1048576,1099511627776]T(1,0)')


@pytest.mark.parametrize('dims, reshape_dims, perm, message', [
    ((2, 0), (), (), 'must be positive'),
    ((2, 2.5), (5,), (0,), 'must be integers'),
    ((2, 2), (2, 3), (1, 0), 'hold 4 devices, but .* hold 6'),
    ((2, 2), (2, 2), (0, 0), 'not a permutation'),
    ((2, 2), (2, 2), (0,), 'not a permutation'),
])
def test_bad_iota(dims, reshape_dims, perm, message):
  with pytest.raises(TileAssignmentError, match=message):
    IotaTileAssignment(dims, reshape_dims, perm)


@pytest.mark.parametrize('devices, dims, message', [
    ([0, 1, 2, 2], (2, 2), 'device 2 is listed 2 times, device 3 is missing'),
    ([0, 1, -1, 2], (2, 2), 'device -1 is not one of 0 to 3'),
    ([0, 1, 2], (2, 2), 'hold 4 devices, but 3 are listed'),
    ([0.0, 1.0], (2,), 'must be integers'),
    ([], None, 'must be positive'),
])
def test_bad_device_list(devices, dims, message):
  with pytest.raises(TileAssignmentError, match=message):
    from_array(devices, dims)


def test_values():
  iota = IotaTileAssignment((4, 2), (2, 4), (1, 0))
  with pytest.raises(AttributeError):
    iota.dims = (8,)
  assert iota == IotaTileAssignment([4, 2], [2, 2, 2], [1, 2, 0])
  assert iota != iota.reshape((2, 4))
  devices = DeviceList(iota.to_array())
  assert devices == DeviceList(iota.to_array())
  assert hash(devices) == hash(DeviceList(iota.to_array()))
  assert devices != devices.reshape((2, 4))
  with pytest.raises(ValueError, match='read-only'):
    devices.to_array()[0, 0] = 1
