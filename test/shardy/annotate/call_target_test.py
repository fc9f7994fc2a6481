"""What targets of custom calls carry, and that nothing damaged is taken."""

import json

from hypothesis import given, strategies as st
import numpy as np
from properties import examples
import pytest
from torch_xla.shardy.annotate import call_target
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh

_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_SAID = Annotation.from_spec(_MESH, (0, None), (1, None))
_names = st.text(min_size=1, max_size=5)  # Quotes, spaces, any script.


@st.composite
def _meshes(draw):
  shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
  names = draw(st.none() |
               st.lists(_names, min_size=len(shape), max_size=len(shape)))
  n = int(np.prod(shape))
  ids = draw(st.none() | st.permutations(range(n)))
  return UserMesh.from_devices(shape, names, ids)


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
  propagate = draw(st.none() |
                   st.tuples(*[st.none() | st.just(True) for _ in spec]))
  return Annotation.from_spec(mesh, spec, priority, propagate)


@examples(80, derandomize=True)
@given(st.lists(_annotations(_meshes()), min_size=1, max_size=6))
def test_targets_give_back_what_went_in(said):
  target = call_target.binding_target(said)
  assert call_target.is_binding(target) and not call_target.is_tag(target)
  assert call_target.parse_target(target) == tuple(said)
  target = call_target.tag_target(said[0])
  assert call_target.is_tag(target) and not call_target.is_binding(target)
  assert call_target.parse_target(target) == (said[0],)
  # It stands in a C string, in an HLO module's text, and in a hash.
  assert target.isascii() and '\n' not in target and '\0' not in target


def test_alike_meshes_are_written_once():
  target = call_target.binding_target([_SAID] * 300)
  assert target.count('"x"') == 1
  assert call_target.parse_target(target) == (_SAID,) * 300


def test_a_changed_priority_changes_the_target():
  """Only the target is in the graph's hash."""
  said = [
      Annotation.from_spec(mesh, spec, priority)
      for mesh in (_MESH, UserMesh.from_devices((2, 4), ('x', 'z')),
                   UserMesh.from_devices((2, 4), None),
                   UserMesh.from_devices((4, 2), ('x', 'y')),
                   UserMesh.from_devices((2, 4), ('x', 'y'),
                                         range(8)[::-1]))
      for spec in ((0, None), (None, 0), (1, None))
      for priority in (None, (None, None), (0, None), (1, None), (1, 0))
  ]
  assert len({call_target.tag_target(s) for s in said}) == len(said) == 75
  assert len({call_target.binding_target([s]) for s in said}) == 75


def test_every_word_changes_the_target():
  """And nothing that is not said does: graphs keep their hashes."""
  said = [
      Annotation.from_spec(_MESH, (0, None), None, propagate, unreduced)
      for propagate, unreduced in ((None, ()), ((True, None), ()),
                                   ((None, True), ()), ((False, False),
                                                        ()), (None, (1,)))
  ]
  targets = [call_target.tag_target(s) for s in said]
  assert len(set(targets)) == len(said)
  assert [call_target.parse_target(t) for t in targets] == [(s,) for s in said]
  assert '"tensors":[[0,[[0],[]],null]]' in targets[0]


@pytest.mark.parametrize('target', ['', 'Sharding', 'torch_xla.shardy.bind'])
def test_other_targets(target):
  assert not call_target.is_binding(target)
  assert not call_target.is_tag(target)
  with pytest.raises(
      call_target.AnnotationTextError, match='no binding and no tag'):
    call_target.parse_target(target)


def _target(**changes) -> str:
  data = {
      'meshes': [[[2, 4], ['x', 'y'], None]],
      'tensors': [[0, [[0], []], [1, None]]]
  }
  return 'torch_xla.shardy.bind ' + json.dumps({**data, **changes})


@pytest.mark.parametrize('target', [
    _target()[:-1],
    'torch_xla.shardy.tag null',
    _target(meshes=[]),
    _target(meshes=[[[2, 4], ['x', 'y']]]),
    _target(meshes=[[8, ['x', 'y'], None]]),
    _target(tensors=[[1, [[0], []], None]]),
    _target(tensors=[[0, [0, None], None]]),
    _target(tensors=[[0, [[0], []], [1]]]),
    _target(tensors=[[0, [[0], []], [-1, None]]]),
    _target(tensors=[[0]]),
    _target(tensors=[[0, [[0], []], None, [1, None], []]]),
    _target(tensors=[[0, [[0], []], None, None, [0]]]),
    _target(tensors=[[0, [[0], []], None, [True, None], [1]]]),
])
def test_damaged_targets(target):
  with pytest.raises(
      call_target.AnnotationTextError, match='damaged annotations'):
    call_target.parse_target(target)


@pytest.mark.parametrize('changes', [
    dict(tensors=[[0, [[5], []], None]]),
    dict(tensors=[[0, [[-1], []], None]]),
    dict(tensors=[[0, [[0], [0]], None]]),
    dict(tensors=[[-1, [[0], []], None]]),
    dict(meshes=[[[2, 0], ['x', 'y'], None]]),
    dict(meshes=[[[2, 4], ['x'], None]]),
    dict(meshes=[[[2, 4], ['x', 'y'], [0, 1]]]),
    dict(meshes=[[[2, 4], ['x', 'y'], [0, 0, 1, 2, 3, 4, 5, 6]]]),
])
def test_targets_that_contradict_themselves(changes):
  with pytest.raises(call_target.AnnotationTextError):
    call_target.parse_target(_target(**changes))
