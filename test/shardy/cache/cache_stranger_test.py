"""A second user's attempts on the cache."""

from __future__ import annotations

import os
from pathlib import Path
import re
import subprocess
import tempfile

from caches import (as_stranger, DATA, each_share, EVIL, fill, KEY, needs_root,
                    open_cache)
import pytest
from torch_xla.shardy import cache
from torch_xla.shardy.cache import Sharing


@pytest.fixture
def place():
  """A directory that a second user can reach; pytest's own are private."""
  with tempfile.TemporaryDirectory() as path:
    os.chmod(path, 0o755)
    if not as_stranger(lambda: os.access(path, os.X_OK)):
      pytest.skip('the directory for temporary files is private')
    yield Path(path)


@needs_root
@each_share
def test_a_stranger_gets_into_nothing_of_ours(place, share):
  root = place / 'root'
  slot = fill(root, share)

  def attempt() -> list[str]:
    """What he could do."""
    done = []
    for path in (root, root / 'rules', slot):
      for name, attack in {
          'list': lambda: os.listdir(path),
          'create': lambda: (path / f'{KEY}.entry').write_bytes(EVIL),
          'link': lambda: (path / 'shared').symlink_to(place),
          'rename': lambda: path.rename(place / 'taken'),
          'chmod': lambda: path.chmod(0o777),
          'lock': lambda: (path / 'lock').write_bytes(EVIL),
          'read': (slot / f'{KEY}.entry').read_bytes,
      }.items():
        try:
          attack()
        except PermissionError:
          continue
        done.append(f'{name} {path}')
    return done

  assert as_stranger(attempt) == []
  refusal = as_stranger(lambda: open_cache(root, share).close())
  assert isinstance(refusal, cache.CacheError)
  assert re.match(
      f'cannot open {root}.*: Permission denied; {root} belongs to user .*0.*'
      r'\(mode 0700\).*name another directory', str(refusal))


@needs_root
def test_a_copy_that_root_owns_can_be_read_by_all(place):
  root = place / 'root'
  slot = fill(root)
  subprocess.run(['chmod', '-R', 'a+rX,go-w', str(root)], check=True)
  read = lambda: open_cache(root, Sharing.READER).store.get(KEY)
  assert as_stranger(read) == DATA
  refusal = as_stranger(lambda: open_cache(root).close())
  assert isinstance(refusal, cache.CacheError)
  assert 'name a writable directory' in str(refusal)
  (slot / f'{KEY}.entry').chmod(0o600)

  def report():
    reader = open_cache(root, Sharing.READER)
    assert reader.store.get(KEY) is None
    return reader.report()

  assert as_stranger(report).damaged == (
      f'{KEY}: cannot be read: Permission denied',)
