"""What users say of tensors: checked, and carried in targets of custom calls."""

import json

from hypothesis import given, settings, strategies as st
import numpy as np
import pytest

from torch_xla.shardy import annotation
from torch_xla.shardy.annotation import (Annotation, AnnotationTextError,
                                         PriorityError, PriorityLengthError,
                                         PriorityTypeError, PriorityValueError,
                                         UserMesh)

_MESH = UserMesh.of((2, 4), ('x', 'y'))
_SAID = Annotation.of(_MESH, (0, None), (1, None))
_names = st.text(min_size=1, max_size=5)  # Quotes, spaces, any script.


@st.composite
def _meshes(draw):
  shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
  names = draw(st.none() |
               st.lists(_names, min_size=len(shape), max_size=len(shape)))
  n = int(np.prod(shape))
  ids = draw(st.none() | st.permutations(range(n)))
  return UserMesh.of(shape, names, ids)


@st.composite
def _annotations(draw, meshes):
  mesh = draw(meshes)
  axes = draw(st.permutations(range(len(mesh.shape))))
  cut = draw(st.integers(0, len(axes)))
  spec = draw(
      st.sampled_from([(tuple(axes[:cut]), None, tuple(axes[cut:])),
                       tuple(axes[:cut]), (None,), ()]))
  priority = draw(st.none() |
                  st.tuples(*[st.none() | st.integers(0, 9) for _ in spec]))
  return Annotation.of(mesh, spec, priority)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(_annotations(_meshes()), min_size=1, max_size=6))
def test_targets_give_back_what_went_in(said):
  target = annotation.binding_target(said)
  assert annotation.is_binding(target) and not annotation.is_mark(target)
  assert annotation.parse_target(target) == tuple(said)
  target = annotation.mark_target(said[0])
  assert annotation.is_mark(target) and not annotation.is_binding(target)
  assert annotation.parse_target(target) == (said[0],)
  # It stands in a C string, in an HLO module's text, and in a hash.
  assert target.isascii() and '\n' not in target and '\0' not in target


def test_alike_meshes_are_written_once():
  target = annotation.binding_target([_SAID] * 300)
  assert target.count('"x"') == 1
  assert annotation.parse_target(target) == (_SAID,) * 300


def test_a_changed_priority_changes_the_target():
  """Only the target is in the graph's hash."""
  said = [
      Annotation.of(mesh, spec, priority)
      for mesh in (_MESH, UserMesh.of((2, 4), ('x', 'z')),
                   UserMesh.of((2, 4), None), UserMesh.of((4, 2), ('x', 'y')),
                   UserMesh.of((2, 4), ('x', 'y'),
                               range(8)[::-1]))
      for spec in ((0, None), (None, 0), (1, None))
      for priority in (None, (None, None), (0, None), (1, None), (1, 0))
  ]
  assert len({annotation.mark_target(s) for s in said}) == len(said) == 75
  assert len({annotation.binding_target([s]) for s in said}) == 75


@pytest.mark.parametrize('target', ['', 'Sharding', 'torch_xla.shardy.bind'])
def test_other_targets(target):
  assert not annotation.is_binding(target)
  assert not annotation.is_mark(target)
  with pytest.raises(AnnotationTextError, match='no binding and no mark'):
    annotation.parse_target(target)


def _target(**changes) -> str:
  data = {
      'meshes': [[[2, 4], ['x', 'y'], None]],
      'tensors': [[0, [[0], []], [1, None]]]
  }
  return 'torch_xla.shardy.bind ' + json.dumps({**data, **changes})


def test_the_undamaged_target():
  assert annotation.parse_target(_target()) == (_SAID,)


@pytest.mark.parametrize('target', [
    _target()[:-1],
    _target() + '}',
    'torch_xla.shardy.mark ',
    'torch_xla.shardy.mark null',
    'torch_xla.shardy.mark []',
    'torch_xla.shardy.mark {}',
    'torch_xla.shardy.mark {"meshes":[]}',
    _target(meshes=[]),
    _target(meshes=7),
    _target(meshes=[[[2, 4], ['x', 'y']]]),
    _target(meshes=[[8, ['x', 'y'], None]]),
    _target(tensors=[[1, [[0], []], None]]),
    _target(tensors=[[0, [0, None], None]]),
    _target(tensors=[[0, [[0], []], [1]]]),
    _target(tensors=[[0, [[0], []], [-1, None]]]),
    _target(tensors=[[0, [[0], []], [True, None]]]),
    _target(tensors=[[0, [[0], []], ['1', None]]]),
    _target(tensors=[[0, [[0], []], 1]]),
    _target(tensors=[['0', [[0], []], None]]),
    _target(tensors=[[0]]),
])
def test_damaged_targets(target):
  with pytest.raises(AnnotationTextError, match='damaged annotations'):
    annotation.parse_target(target)


@pytest.mark.parametrize('changes', [
    dict(tensors=[[0, [[5], []], None]]),
    dict(tensors=[[0, [['x'], []], None]]),
    dict(tensors=[[0, [[-1], []], None]]),
    dict(tensors=[[0, [[0], [0]], None]]),
    dict(tensors=[[-1, [[0], []], None]]),
    dict(meshes=[[[2, 'four'], ['x', 'y'], None]]),
    dict(meshes=[[[2, 0], ['x', 'y'], None]]),
    dict(meshes=[[[2, 4], ['x'], None]]),
    dict(meshes=[[[2, 4], ['x', 3], None]]),
    dict(meshes=[[[2, 4], ['x', 'y'], [0, 1]]]),
    dict(meshes=[[[2, 4], ['x', 'y'], [0, 0, 1, 2, 3, 4, 5, 6]]]),
])
def test_targets_that_contradict_themselves(changes):
  with pytest.raises(AnnotationTextError):
    annotation.parse_target(_target(**changes))


@pytest.mark.parametrize('priority, rank, expected', [
    (None, 3, None),
    ((), 0, ()),
    ((0, None, 7), 3, (0, None, 7)),
    ([1, 2], 2, (1, 2)),
    ((np.int64(3), np.int8(1)), 2, (3, 1)),
])
def test_priorities(priority, rank, expected):
  checked = annotation.check_priority(priority, rank)
  assert checked == expected
  assert all(p is None or type(p) is int for p in checked or ())


@pytest.mark.parametrize('priority, rank, error, message', [
    ((0,), 2, PriorityLengthError, 'has 1 entries for a tensor of rank 2'),
    ((), 1, PriorityLengthError, 'has 0 entries'),
    ((0, 0), 0, PriorityLengthError, 'of rank 0'),
    ((0, -1), 2, PriorityValueError, '-1 of dimension 1 is negative'),
    ((np.int64(-1),), 1, PriorityValueError, 'is negative'),
    ((0, True), 2, PriorityTypeError, 'True of dimension 1 is a bool'),
    ((np.bool_(True),), 1, PriorityTypeError, 'is a bool'),
    ((1.0,), 1, PriorityTypeError, '1.0 of dimension 0 is a float'),
    ((float('nan'),), 1, PriorityTypeError, 'is a float'),
    (('1',), 1, PriorityTypeError, 'is a str'),
    (('p1',), 1, PriorityTypeError, 'is a str'),
    ((None, (1,)), 2, PriorityTypeError, 'of dimension 1 is a tuple'),
    (0, 1, PriorityTypeError, 'is a int'),
    ('01', 2, PriorityTypeError, 'is a str'),
    ({
        0: 1
    }, 1, PriorityTypeError, 'is a dict'),
    (np.zeros(2, int), 2, PriorityTypeError, 'is a ndarray'),
])
def test_priorities_that_are_refused(priority, rank, error, message):
  with pytest.raises(error, match=message) as raised:
    annotation.check_priority(priority, rank)
  assert isinstance(raised.value, PriorityError)
  assert isinstance(raised.value, ValueError)


def test_meshes():
  assert UserMesh.of([2, 4], None) == UserMesh((2, 4))
  assert UserMesh.of((2, 4), (), np.arange(8)) == UserMesh((2, 4))
  ids = np.arange(8).reshape(4, 2).T
  mesh = UserMesh.of((2, 4), None, ids)
  assert mesh.device_ids == (0, 2, 4, 6, 1, 3, 5, 7)
  assert [mesh.axis_name(i) for i in range(2)] == ['axis_0', 'axis_1']
  assert _MESH.axis_name(1) == 'y'


def test_the_mesh_of_a_user():

  class Mesh:
    mesh_shape, axis_names = (4, 2), ('x', 'y')
    device_ids = np.arange(8)[::-1]

  mesh = Mesh()
  same = annotation.user_mesh(mesh)
  assert same == UserMesh((4, 2), ('x', 'y'), tuple(range(7, -1, -1)))
  assert annotation.user_mesh(mesh) is same


@pytest.mark.parametrize('mesh, spec, sharding, text', [
    (_MESH, (0, None), '{devices=[2,1,4]<=[8] last_tile_dim_replicate}',
     "('x', None)"),
    (_MESH, ((1, 0),), '{devices=[8]<=[2,4]T(1,0)}', "(('y', 'x'),)"),
    (_MESH, (), '{replicated}', '()'),
    (_MESH, (None,), '{replicated}', '(None,)'),
    (UserMesh.of((2, 4), None),
     ([0, 1], None), '{devices=[8,1]<=[8]}', "(('axis_0', 'axis_1'), None)"),
    (UserMesh.of(
        (8,), ('d',),
        range(8)[::-1]), (0,), '{devices=[8]7,6,5,4,3,2,1,0}', "('d',)"),
])
def test_placement_and_text_of_a_spec(mesh, spec, sharding, text):
  said = Annotation.of(mesh, spec, None)
  assert str(said.sharding.canonical()) == sharding
  assert said.spec_text == text
