"""Which tests a run takes, by tier and by name."""

from pathlib import Path

import pytest
from tiers import Asked

_FILE = Path('/checkout/test/a_test.py')


def _takes(test, marks, tier='whole', files=(), nodes=(), name=_FILE.name):
  asked = Asked(tier, tier == 'whole', frozenset(), frozenset(files),
                frozenset((_FILE, node) for node in nodes))
  return asked.takes(_FILE.with_name(name), test, marks)


@pytest.mark.parametrize('marks, tiers', [
    ((), 'core whole all'),
    (('slow',), 'whole all'),
    (('nightly',), 'all'),
    (('slow', 'nightly', 'parametrize'), 'all'),
])
def test_marks(marks, tiers):
  assert [t for t in ('core', 'whole', 'all') if _takes('test_a', marks, t)
         ] == tiers.split()


def test_a_file_that_is_named_runs_wholly():
  assert _takes('test_a', ['nightly'], files=[_FILE])
  assert not _takes('test_a', ['nightly'], files=[_FILE], name='b_test.py')
  # Not where a tier is named, too.
  assert not _takes('test_a', ['slow'], 'core', files=[_FILE])


@pytest.mark.parametrize('named, test, is_taken', [
    ('test_a', 'test_a', True),
    ('test_a', 'test_a[1]', True),
    ('test_a[1]', 'test_a[1]', True),
    ('test_a[1]', 'test_a[2]', False),
    ('test_a', 'test_ab', False),
])
def test_a_test_that_is_named_runs_in_any_tier(named, test, is_taken):
  for name in (_FILE.name, 'b_test.py'):
    assert _takes(
        test, ['nightly'], 'core', nodes=[named], name=name) == (
            is_taken and name == _FILE.name)
