"""Priorities as users give them: made plain, or refused."""

import numpy as np
import pytest
from torch_xla.shardy.annotate.priority import (check_priority, PriorityError,
                                                PriorityLengthError,
                                                PriorityTypeError,
                                                PriorityValueError)


@pytest.mark.parametrize('priority, rank, expected', [
    (None, 3, None),
    ((), 0, ()),
    ((0, None, 7), 3, (0, None, 7)),
    ([1, 2], 2, (1, 2)),
    ((np.int64(3), np.int8(1)), 2, (3, 1)),
])
def test_priorities(priority, rank, expected):
  checked = check_priority(priority, rank)
  assert checked == expected
  assert all(p is None or type(p) is int for p in checked or ())


@pytest.mark.parametrize('priority, rank, error, message', [
    ((0,), 2, PriorityLengthError, 'has 1 entries for a tensor of rank 2'),
    ((), 1, PriorityLengthError, 'has 0 entries'),
    ((0, -1), 2, PriorityValueError, '-1 of dimension 1 is negative'),
    ((np.int64(-1),), 1, PriorityValueError, 'is negative'),
    ((0, True), 2, PriorityTypeError, 'True of dimension 1 is a bool'),
    ((1.0,), 1, PriorityTypeError, '1.0 of dimension 0 is a float'),
    (('1',), 1, PriorityTypeError, 'is a str'),
    ((None, (1,)), 2, PriorityTypeError, 'of dimension 1 is a tuple'),
    (0, 1, PriorityTypeError, 'is a int'),
    ('01', 2, PriorityTypeError, 'is a str'),
    (np.zeros(2, int), 2, PriorityTypeError, 'is a ndarray'),
])
def test_priorities_that_are_refused(priority, rank, error, message):
  with pytest.raises(error, match=message) as raised:
    check_priority(priority, rank)
  assert isinstance(raised.value, PriorityError)
  assert isinstance(raised.value, ValueError)
