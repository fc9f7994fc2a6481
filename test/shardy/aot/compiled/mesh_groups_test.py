"""Groups of devices are found again as axes of a mesh."""

from __future__ import annotations

import pytest
from torch_xla.shardy.aot.compiled import mesh_groups
from torch_xla.shardy.aot.compiled.mesh_groups import Axes, MeshValue

_MESH = MeshValue((2, 4), ('data', 'model'), tuple(range(8)))
_ROWS = ((0, 1, 2, 3), (4, 5, 6, 7))
_COLUMNS = ((0, 4), (1, 5), (2, 6), (3, 7))


@pytest.mark.parametrize('groups, axes', [
    (_ROWS, Axes(('model',))),
    (_COLUMNS, Axes(('data',))),
    ((tuple(range(8)),), Axes(('data', 'model'))),
    (((7, 3), (1, 5), (6, 2), (0, 4)), Axes(('data',))),
    (((0, 1), (2, 3), (4, 5), (6, 7)), Axes(('model',), whole=False)),
    (((0, 5), (1, 4), (2, 7), (3, 6)), Axes()),
    (tuple((d,) for d in range(8)), Axes()),
    (_ROWS[:1], Axes()),
    (((0, 1, 2, 3), (4, 5, 6, 8)), Axes()),
    (((0, 1, 2, 3), (3, 5, 6, 7)), Axes()),
])
def test_axes_of_groups(groups, axes):
  assert mesh_groups.axes_of_groups(groups, 8, [_MESH]) == axes


def test_the_mesh_may_have_its_devices_in_any_order():
  mesh = MeshValue((2, 4), ('data', 'model'), (0, 2, 4, 6, 1, 3, 5, 7))
  evens = ((0, 2, 4, 6), (1, 3, 5, 7))
  assert mesh_groups.axes_of_groups(evens, 8, [mesh]).names == ('model',)
  assert mesh_groups.axes_of_groups(_ROWS, 8, [mesh]) == Axes()


def test_axes_of_one_device_are_never_told():
  mesh = MeshValue((2, 1, 4), ('data', 'stage', 'model'), tuple(range(8)))
  assert mesh_groups.axes_of_groups(_ROWS, 8, [mesh]).names == ('model',)


def test_a_whole_axis_of_a_later_mesh_comes_before_a_part_of_an_earlier():
  pairs = ((0, 1), (2, 3), (4, 5), (6, 7))
  fine = MeshValue((2, 2, 2), ('a', 'b', 'c'), tuple(range(8)))
  assert mesh_groups.axes_of_groups(pairs, 8, [_MESH, fine]) == Axes(('c',))
  assert mesh_groups.axes_of_groups(pairs, 8, [_MESH]) == Axes(('model',),
                                                               whole=False)


def test_meshes_of_other_devices_are_passed_over():
  other = MeshValue((2, 2), ('x', 'y'), (0, 1, 2, 3))
  assert mesh_groups.axes_of_groups(_ROWS, 8, [other]) == Axes()
  assert mesh_groups.axes_of_groups(_ROWS, 8,
                                    [other, _MESH]).names == ('model',)
  assert mesh_groups.axes_of_pairs(((0, 1),), 8, [other]) == Axes()


@pytest.mark.parametrize('pairs, names', [
    (((0, 1), (1, 2), (2, 3), (3, 0)), ('model',)),
    (((0, 4), (4, 0)), ('data',)),
    (((0, 5), (1, 2)), ('data', 'model')),
    (((0, 0), (1, 1)), ()),
    (((0, 1), (1, 8)), ()),
    ((), ()),
])
def test_axes_of_pairs(pairs, names):
  assert mesh_groups.axes_of_pairs(pairs, 8, [_MESH]) == Axes(names)
