"""What a sharding says besides placement and priority, and what is refused."""

import re

import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.annotate.constraint_words import (check_propagate,
                                                        check_unreduced,
                                                        PropagateError,
                                                        UnreducedError)

_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))


@pytest.mark.parametrize('propagate, priority, open_dims', [
    (None, None, (False, False)),
    (None, (1, 1), (False, True)),
    (True, None, (True, True)),
    (False, None, (False, False)),
    ((True, None), None, (True, False)),
    ([None, True], (1, None), (False, True)),
    ((False, None), (1, 1), (False, True)),
])
def test_open_dimensions(propagate, priority, open_dims):
  said = check_propagate(propagate, (0, None), priority)
  assert said is None or len(said) == 2
  assert Annotation.from_spec(_MESH, (0, None), priority,
                              said).open_dims == open_dims


@pytest.mark.parametrize('propagate, priority, text', [
    ((True,), None, '(True,) has 1 entries for a tensor of rank 2'),
    ((1, True), None, 'propagate=(1, True): give a bool'),
    ('yes', None, "propagate='yes': give a bool"),
    (False, (None, 2), 'dimension 1 is not split and has priority 2'),
])
def test_what_is_no_propagate(propagate, priority, text):
  with pytest.raises(PropagateError, match=re.escape(text)):
    check_propagate(propagate, (0, None), priority)


def test_unreduced_axes_are_in_the_order_of_the_mesh():
  assert check_unreduced(None, ('x', 'y'), 2, (None,)) == ()
  assert check_unreduced(('y', 'x'), ('x', 'y'), 2, (None,)) == (0, 1)
  assert check_unreduced([1], None, 2, (0,)) == (1,)


@pytest.mark.parametrize('unreduced, text', [
    ('y', "unreduced='y' is a str"),
    (('z',), "has no axis 'z', it has ['x', 'y']"),
    ((2,), 'has no axis 2'),
    ((-1,), 'has no axis -1'),
    (('y', 1), 'names an axis twice'),
    (('x',), 'or one that splits a dimension'),
])
def test_what_is_not_unreduced(unreduced, text):
  with pytest.raises(UnreducedError, match=re.escape(text)):
    check_unreduced(unreduced, ('x', 'y'), 2, (0, None))


@pytest.mark.parametrize('words', [((None, 1), None), (None, (True, None))])
def test_a_part_of_a_sum_has_no_open_dimension(words):
  with pytest.raises(UnreducedError, match='added up twice'):
    Annotation.from_spec(_MESH, (0, None), *words, (1,))
