"""What users say of tensors, and the placements that they ask for."""

import numpy as np
import pytest
from torch_xla.shardy.annotate.annotation import (Annotation, user_mesh,
                                                  UserMesh)

_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))


def test_meshes():
  assert UserMesh.from_devices([2, 4], None) == UserMesh((2, 4))
  assert UserMesh.from_devices((2, 4), (), np.arange(8)) == UserMesh((2, 4))
  ids = np.arange(8).reshape(4, 2).T
  mesh = UserMesh.from_devices((2, 4), None, ids)
  assert mesh.device_ids == (0, 2, 4, 6, 1, 3, 5, 7)
  assert [mesh.axis_name(i) for i in range(2)] == ['axis_0', 'axis_1']
  assert _MESH.axis_name(1) == 'y'


def test_the_mesh_of_a_user():

  class Mesh:
    mesh_shape, axis_names = (4, 2), ('x', 'y')
    device_ids = np.arange(8)[::-1]

  mesh = Mesh()
  same = user_mesh(mesh)
  assert same == UserMesh((4, 2), ('x', 'y'), tuple(range(7, -1, -1)))
  assert user_mesh(mesh) is same


@pytest.mark.parametrize('mesh, spec, sharding, text', [
    (_MESH, (0, None), '{devices=[2,1,4]<=[8] last_tile_dim_replicate}',
     "('x', None)"),
    (_MESH, ((1, 0),), '{devices=[8]<=[2,4]T(1,0)}', "(('y', 'x'),)"),
    (_MESH, (), '{replicated}', '()'),
    (_MESH, (None,), '{replicated}', '(None,)'),
    (UserMesh.from_devices((2, 4), None),
     ([0, 1], None), '{devices=[8,1]<=[8]}', "(('axis_0', 'axis_1'), None)"),
    (UserMesh.from_devices(
        (8,), ('d',),
        range(8)[::-1]), (0,), '{devices=[8]7,6,5,4,3,2,1,0}', "('d',)"),
])
def test_placement_and_text_of_a_spec(mesh, spec, sharding, text):
  said = Annotation.from_spec(mesh, spec, None)
  assert str(said.sharding.canonical()) == sharding
  assert said.spec_text == text
