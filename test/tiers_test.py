"""Which tests a run takes, by tier and by name."""

from pathlib import Path

import pytest
from tiers import Asked

_FILE = Path('/checkout/test/a_test.py')


def _asked(tier: str = 'whole',
           whole_files: bool = False,
           folders=(),
           files=(),
           nodes=()) -> Asked:
  return Asked(tier, whole_files, frozenset(folders), frozenset(files),
               frozenset(nodes))


@pytest.mark.parametrize('marks, tiers', [
    ((), 'core whole all'),
    (('slow',), 'whole all'),
    (('nightly',), 'all'),
    (('slow', 'nightly', 'parametrize'), 'all'),
])
def test_marks(marks, tiers):
  taking = [
      tier for tier in ('core', 'whole', 'all')
      if _asked(tier, folders=[_FILE.parent]).takes(_FILE, 'test_a', marks)
  ]
  assert taking == tiers.split()


def test_a_file_that_is_named_runs_wholly():
  assert _asked(
      whole_files=True, files=[_FILE]).takes(_FILE, 'test_a', ['nightly'])
  other = _FILE.with_name('b_test.py')
  assert not _asked(
      whole_files=True, files=[_FILE]).takes(other, 'test_a', ['nightly'])
  # Not where a tier is named, too.
  assert not _asked('core', files=[_FILE]).takes(_FILE, 'test_a', ['slow'])


@pytest.mark.parametrize('named, test, is_taken', [
    ('test_a', 'test_a', True),
    ('test_a', 'test_a[1]', True),
    ('test_a[1]', 'test_a[1]', True),
    ('TestA', 'TestA::test_a', True),
    ('test_a[1]', 'test_a[2]', False),
    ('test_a', 'test_ab', False),
])
def test_a_test_that_is_named_runs_in_any_tier(named, test, is_taken):
  asked = _asked('core', nodes=[(_FILE, named)])
  assert asked.takes(_FILE, test, ['nightly']) == is_taken
  assert not asked.takes(_FILE.with_name('b_test.py'), test, ['nightly'])
