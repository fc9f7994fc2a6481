"""`propagate=` and `unreduced=`, of any torch_xla that takes them."""

import kinds
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla_form import SHARDY

ENVIRONMENT = SHARDY
# What each word does to a wheel's program: test/shardy/bind/words_test.py.
pytestmark = pytest.mark.nightly
_A, _B = torch.randn(8, 16), torch.randn(16, 8)
_SUMS = {
    'a product': lambda a, b: a @ b,
    'a sum': lambda a, b: (a * b.t()).sum(1),
    'no sum': lambda a, b: a * 3,
    'an uneven sum': lambda a, b: a[:, :15] @ b[:15],
    'a batched product': lambda a, b: torch.bmm(a[None], b[None])[0],
}


def _put(t, mesh, spec, **words):
  t = t.to('xla')
  xs.mark_sharding(t, mesh, spec, **words)
  return t


def test_only_what_is_open_is_split_further(mesh):
  for propagate, is_split in ((None, False), (True, True),
                              ((False, True), True), ((True, False), False)):
    a = _put(_A, mesh, (None, 'y'), propagate=propagate)
    stored = torch_xla._XLAC._get_xla_sharding_spec(a)
    c = a + _put(_A, mesh, (None, 'y'))
    xs.mark_sharding(c, mesh, ('x', None), propagate=propagate)
    out = c * 2
    torch_xla.sync()
    kinds.assert_right(out, _A * 4, about=propagate)
    kinds.assert_right(a, _A, about=propagate)
    assert torch_xla._XLAC._get_xla_sharding_spec(a) == stored
    spec = torch_xla._XLAC._get_xla_sharding_spec(out)
    assert ('[2,4]' in spec) == is_split, (propagate, spec)


@pytest.mark.parametrize('name', _SUMS)
def test_a_part_of_a_sum_is_added_up_once(name, mesh):
  function = _SUMS[name]
  right = function(_A, _B)
  for spec in ((None, 'y'), ('y', None), (None, None)):
    a, b = _put(_A, mesh, spec), _put(_B, mesh, (None, 'x'))
    u = function(a, b)
    xs.mark_sharding(u, mesh, (None,) * u.dim(), unreduced=('y',))
    doubled, twice = u * 2, torch.relu(u) + u
    torch_xla.sync()
    kinds.assert_right(doubled, right * 2, 1e-4, spec)
    kinds.assert_right(twice, right.relu() + right, 1e-4, spec)
    kinds.assert_right(u * 3, right * 3, 1e-4, spec)


def test_a_sum_that_is_marked_twice_is_right(mesh):
  u = _put(_A, mesh, (None, 'y')) @ _put(_B, mesh, (None, None))
  v = u * 1
  xs.mark_sharding(u, mesh, ('x', None), unreduced=('y',))
  xs.mark_sharding(v, mesh, (None, 'x'))
  torch_xla.sync()
  kinds.assert_right(u + v, _A @ _B * 2, 1e-4)


@pytest.mark.parametrize('words', [{
    'propagate': 1
}, {
    'propagate': (True,)
}, {
    'propagate': False,
    'priority': (None, 0)
}, {
    'unreduced': 'y'
}, {
    'unreduced': ('z',)
}, {
    'unreduced': ('x',)
}, {
    'unreduced': ('y',),
    'propagate': True
}, {
    'unreduced': ('y',)
}])
def test_words_that_do_not_fit_raise(words, mesh):
  t = torch.ones(8, 16).to('xla')
  torch_xla.sync()
  with pytest.raises(ValueError):
    xs.mark_sharding(t, mesh, ('x', None), **words)
