"""What is no priority is an error that says so, wherever one can be given."""

from __future__ import annotations

import inspect
import re

import kinds
from marks import FORMS
import numpy as np
import pytest
import torch
from torch_xla import _XLAC
from torch_xla._internal import custom_kernel
import torch_xla.distributed.spmd as xs
from torch_xla_form import SHARDY

ENVIRONMENT = SHARDY
# Whatever comes of them, nothing is computed.
pytestmark = pytest.mark.means(kinds.DIFFERS)

_HINT = 'give a tuple with one non-negative int or None per dimension'
_WRONG = [
    ((0,), ValueError,
     f'priority=(0,) has 1 entries for a tensor of rank 2; {_HINT}'),
    ((), ValueError,
     f'priority=() has 0 entries for a tensor of rank 2; {_HINT}'),
    ((-1, None), ValueError, 'priority=(-1, None): -1 of dimension 0 is '
     'negative; 0 is the highest priority, higher numbers come later'),
    ((None, 2**31), ValueError, 'priority=(None, 2147483648): 2147483648 of '
     'dimension 1 is above 2147483647'),
    ((True, None), TypeError,
     f'priority=(True, None): True of dimension 0 is a bool; {_HINT}'),
    ((1.0, None), TypeError,
     f'priority=(1.0, None): 1.0 of dimension 0 is a float; {_HINT}'),
    (('1', None), TypeError,
     f"priority=('1', None): '1' of dimension 0 is a str; {_HINT}"),
    (1, TypeError, f'priority=1 is a int; {_HINT}'),
]


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize(
    'priority, kind, message',
    [pytest.param(*wrong, id=str(wrong[0])) for wrong in _WRONG])
def test_wrong_priorities(form, priority, kind, message, mesh):
  """Each leaves the tensor alone, and any is a ValueError."""
  t = torch.randn(8, 16).to('xla')
  with pytest.raises(ValueError, match=f'^{re.escape(message)}$') as caught:
    FORMS[form](t, mesh, ('x', None), priority)
  assert isinstance(caught.value, kind)
  assert _XLAC._get_xla_sharding_spec(t) == ''
  FORMS[form](t, mesh, ('x', None), (0, None))


@pytest.mark.parametrize('entry', [np.bool_(1), np.float32(1)], ids=repr)
def test_numbers_of_numpy_that_are_no_integers(entry, mesh):
  with pytest.raises(TypeError, match=f'of dimension 1 is a .*; {_HINT}'):
    xs.mark_sharding(
        torch.ones(8, 8).to('xla'), mesh, ('x', None), priority=(None, entry))


def test_an_error_leaves_what_was_said_before(mesh):
  t = torch.randn(8, 16).to('xla')
  xs.mark_sharding(t, mesh, ('x', None), priority=(1, None))
  before = _XLAC._get_xla_sharding_spec(t)
  with pytest.raises(ValueError, match='negative'):
    xs.mark_sharding(t, mesh, ('y', None), priority=(-1, None))
  assert _XLAC._get_xla_sharding_spec(t) == before


def test_upstreams_arguments_come_first():
  """Graphs that were saved without the priority, and what follows, stay valid."""
  for f in (xs.mark_sharding, xs.annotate_custom_sharding,
            xs.mark_sharding_with_gradients, xs.ShardingSpec,
            custom_kernel.dynamo_mark_sharding):
    parameters = list(inspect.signature(f).parameters.values())
    _check_ours([(p.name, p.default) for p in parameters])
  for op in (torch.ops.xla.dynamo_mark_sharding.default,
             torch.ops.xla.aot_mark_sharding.default):
    _check_ours([(a.name, a.default_value) for a in op._schema.arguments])


def _check_ours(arguments):
  first = [name for name, _ in arguments].index('priority')
  assert {default for _, default in arguments[first:]} == {None}
  assert {name for name, _ in arguments[first + 1:]
         } <= {'propagate', 'unreduced'}


def test_docstring_says_what_priorities_mean():
  text = ' '.join(xs.mark_sharding.__doc__.split())
  assert 'counts as 0, the highest' in text
