"""A second user's attempts on the cache."""

from __future__ import annotations

import os
from pathlib import Path
import re
import subprocess
import tempfile

from caches import (as_stranger, DATA, each_access, EVIL, fill, KEY, needs_root,
                    open_cache, STRANGER)
import pytest
from torch_xla.shardy import cache


@pytest.fixture
def place():
  """A directory that a second user can reach; pytest's own are private."""
  with tempfile.TemporaryDirectory() as path:
    os.chmod(path, 0o755)
    if not as_stranger(lambda: os.access(path, os.X_OK)):
      pytest.skip('the directory for temporary files is private')
    yield Path(path)


@needs_root
@each_access
def test_a_stranger_gets_into_nothing_of_ours(place, readonly):
  root = place / 'root'
  slot = fill(root)

  def attempt() -> list[str]:
    """What he could do."""
    done = []
    for path in (root, slot):
      for name, attack in {
          'list': lambda: os.listdir(path),
          'create': lambda: (path / f'{KEY}.entry').write_bytes(EVIL),
          'link': lambda: (path / 'shared').symlink_to(place),
          'rename': lambda: path.rename(place / 'taken'),
          'chmod': lambda: path.chmod(0o777),
          'read': (slot / f'{KEY}.entry').read_bytes,
      }.items():
        try:
          attack()
        except PermissionError:
          continue
        done.append(f'{name} {path}')
    return done

  assert as_stranger(attempt) == []
  refusal = as_stranger(lambda: open_cache(root, readonly).close())
  assert isinstance(refusal, cache.CacheError)
  assert re.match(
      f'cannot open {root}.*: Permission denied; {root} belongs to user .*0.*'
      r'\(mode 0700\).*name another directory', str(refusal))


@needs_root
@each_access
def test_a_stranger_has_a_cache_where_everybody_may_write(place, readonly):
  place.chmod(0o1777)
  assert isinstance(as_stranger(lambda: fill(place / 'his')), Path)
  with pytest.raises(cache.CacheError, match=f'belongs to user .*{STRANGER}'):
    open_cache(place / 'his', readonly)
  (place / 'ours').symlink_to(place / 'his')
  with pytest.raises(cache.CacheError, match=f'belongs to user .*{STRANGER}'):
    open_cache(place / 'ours', readonly)


@needs_root
def test_a_copy_that_root_owns_can_be_read_by_all(place):
  root = place / 'root'
  slot = fill(root)
  subprocess.run(['chmod', '-R', 'a+rX,go-w', str(root)], check=True)
  read = lambda: open_cache(root, readonly=True).get(KEY)
  assert as_stranger(read) == DATA
  refusal = as_stranger(lambda: open_cache(root).close())
  assert isinstance(refusal, cache.CacheError)
  assert 'name a writable directory' in str(refusal)
  (slot / f'{KEY}.entry').chmod(0o600)

  def report():
    reader = open_cache(root, readonly=True)
    assert reader.get(KEY) is None
    return reader.report()

  assert as_stranger(report).damaged == (
      f'{KEY}: cannot be read: Permission denied',)
