"""Directories of the cache: private, and refused where they are not."""

from __future__ import annotations

import os
import re
import shlex
import struct
import subprocess

from caches import (apart, DATA, each_access, each_level, files, fill,
                    give_away, KEY, level_of, mode_of, needs_root, open_cache,
                    STRANGER)
import pytest
from torch_xla.shardy import cache


@pytest.mark.parametrize('mask', [0, 0o002, 0o022, 0o077, 0o177])
def test_what_is_made_is_private_whatever_the_umask(tmp_path, mask):

  def fill_under_mask() -> None:
    os.umask(mask)
    fill(tmp_path / 'a/b/root')

  assert apart(fill_under_mask) is None
  made = {name: mode_of(tmp_path / name) for name in files(tmp_path)}
  assert made == {
      'a': 0o700,
      'a/b': 0o700,
      'a/b/root': 0o700,
      'a/b/root/rules': 0o700,
      f'a/b/root/rules/{KEY}.entry': 0o600,
  }


@each_access
def test_directories_of_an_older_version_open_as_they_are(tmp_path, readonly):
  slot = fill(tmp_path / 'root')
  for path in (tmp_path / 'root', *(tmp_path / 'root').rglob('*')):
    path.chmod(0o755 if path.is_dir() else 0o644)
  opened = open_cache(tmp_path / 'root', readonly)
  assert opened.path == str(slot)
  assert opened.get(KEY) == DATA
  if not opened.readonly:
    assert opened.put('new', DATA)
    assert mode_of(slot / 'new.entry') == 0o600
  opened.close()
  assert mode_of(slot) == 0o755


# What others own or may write is refused.


@each_access
@each_level
@pytest.mark.parametrize('mode', [0o775, 0o757, 0o777, 0o730, 0o2770])
def test_what_others_may_write_is_refused_and_the_remedy_works(
    tmp_path, readonly, level, mode):
  root = tmp_path / 'a root'
  fill(root)
  path = level_of(root, level)
  path.chmod(mode)
  with pytest.raises(cache.CacheError) as refusal:
    open_cache(root, readonly)
  whom = 'everybody' if mode & 0o002 else r'group .*\d+'
  assert re.match(
      rf'{re.escape(str(path))} can be written to by {whom}.* '
      rf'\(mode {mode:04o}\)', str(refusal.value))
  remedy = re.search('`(.*)`', str(refusal.value))[1]
  subprocess.run(shlex.split(remedy), check=True)
  opened = open_cache(root, readonly)
  assert opened.get(KEY) == DATA
  opened.close()


@each_access
def test_a_directory_for_everybody_is_no_root(tmp_path, readonly):
  tmp_path.chmod(0o1777)
  with pytest.raises(
      cache.CacheError, match='Name a directory of your own in it') as refusal:
    open_cache(tmp_path, readonly)
  assert 'chmod' not in str(refusal.value)
  assert not files(tmp_path)


@needs_root
@each_access
@each_level
def test_what_another_user_owns_is_refused(tmp_path, readonly, level):
  root = tmp_path / 'root'
  fill(root)
  path = level_of(root, level)
  give_away(path)
  before = files(tmp_path)
  with pytest.raises(
      cache.CacheError,
      match=f'^{path} belongs to user .*{STRANGER}.* would run as user .*0.*'
      'Name another directory'):
    open_cache(root, readonly)
  assert files(tmp_path) == before


def test_write_rights_by_acl_are_seen(tmp_path):
  slot = fill(tmp_path)
  # user::rwx user:STRANGER:rwx group::--- mask::rwx other::---, acl(5).
  no_id = 2**32 - 1
  entries = [(0x01, 7, no_id), (0x02, 7, STRANGER), (0x04, 0, no_id),
             (0x10, 7, no_id), (0x20, 0, no_id)]
  acl = struct.pack('<I', 2) + b''.join(
      struct.pack('<HHI', *entry) for entry in entries)
  try:
    os.setxattr(slot, 'system.posix_acl_access', acl)
  except OSError as e:
    pytest.skip(f'no POSIX ACLs here: {e.strerror}')
  with pytest.raises(cache.CacheError, match='mode 0770'):
    open_cache(tmp_path)


@pytest.mark.parametrize('readonly, there', [(False, True), (True, True),
                                             (False, False)])
def test_a_place_where_everybody_may_rename_is_refused(tmp_path, readonly,
                                                       there):
  place = tmp_path / 'a place'
  root = place / 'between' / 'root'
  place.mkdir()
  if there:
    fill(root)
  place.chmod(0o777)
  before = files(place)
  with pytest.raises(
      cache.CacheError,
      match=f'everybody may rename what lies in {place} ') as refusal:
    open_cache(root, readonly)
  assert files(place) == before
  remedy = re.search('`(.*)`', str(refusal.value))[1]
  subprocess.run(shlex.split(remedy), check=True)
  open_cache(root, readonly).close()


@pytest.mark.parametrize('mode', [0o1777, 0o1757, 0o775, 0o2775, 0o755])
def test_other_places_will_do(tmp_path, mode):
  tmp_path.chmod(mode)
  fill(tmp_path / 'root')
  assert open_cache(tmp_path / 'root', readonly=True).get(KEY) == DATA
