"""What lies in a directory of the cache, and paths that change under it."""

from __future__ import annotations

import os
from pathlib import Path
import re
import socket

from caches import (DATA, each_access, each_level, EVIL, files, fill, give_away,
                    KEY, level_of, needs_root, open_cache, STRANGER)
import pytest
from torch_xla.shardy import cache


@each_access
@pytest.mark.parametrize('target', ['filled', 'missing'])
def test_links_below_the_root_are_not_followed(tmp_path, readonly, target):
  root = tmp_path / 'root'
  fill(root)
  fill(tmp_path / 'filled', EVIL)
  path = root / 'rules'
  path.rename(tmp_path / 'moved')
  path.symlink_to(tmp_path / target / 'rules')
  before = files(tmp_path)
  with pytest.raises(
      cache.CacheError, match=f'^{path} is a symbolic link.*remove it'):
    open_cache(root, readonly)
  assert files(tmp_path) == before


@each_access
def test_a_root_may_be_a_link_and_its_target_is_looked_at(tmp_path, readonly):
  root, target = tmp_path / 'link', tmp_path / 'target'
  fill(target)
  root.symlink_to(target)
  opened = open_cache(root, readonly)
  assert opened.get(KEY) == DATA
  opened.close()
  target.chmod(0o770)
  with pytest.raises(cache.CacheError, match='mode 0770'):
    open_cache(root, readonly)
  target.chmod(0o700)
  (tmp_path / 'place').mkdir()
  target.rename(tmp_path / 'place' / 'target')
  (tmp_path / 'place').chmod(0o777)
  root.unlink()
  root.symlink_to(tmp_path / 'place' / 'target')
  with pytest.raises(
      cache.CacheError,
      match=f'everybody may rename what lies in {tmp_path}/place '):
    open_cache(root, readonly)


def test_a_link_to_nothing_is_no_root(tmp_path):
  (tmp_path / 'link').symlink_to(tmp_path / 'nothing')
  for root in ('link', 'link/root'):
    with pytest.raises(cache.CacheError, match='is a symbolic link'):
      open_cache(tmp_path / root)
  assert files(tmp_path) == ['link']


def _link_to_whole_entry(entry: Path) -> None:
  outside = entry.rename(entry.parents[2] / 'outside')
  entry.symlink_to(outside)


@each_access
@pytest.mark.parametrize(
    'spoil, why', [
        (_link_to_whole_entry, 'is a symbolic link'),
        (lambda entry: entry.chmod(0o620), 'mode 0620'),
        (lambda entry: entry.chmod(0o602), 'mode 0602'),
        (lambda entry:
         (entry.unlink(), os.mkfifo(entry)), 'not a regular file'),
        (lambda entry:
         (entry.unlink(), socket.socket(socket.AF_UNIX).bind(str(entry))),
         'No such device'),
        pytest.param(
            give_away, f'belongs to user .*{STRANGER}', marks=needs_root),
    ],
    ids=['link', 'group', 'everybody', 'fifo', 'socket', 'owner'])
def test_an_entry_that_is_not_ours_alone_is_skipped(tmp_path, readonly, spoil,
                                                    why):
  root = tmp_path / 'root'
  slot = fill(root)
  spoil(slot / f'{KEY}.entry')
  opened = open_cache(root, readonly)
  assert opened.get(KEY) is None
  assert len(opened.report().damaged) == 1
  assert re.match(f'{KEY}: .*{why}', opened.report().damaged[0])
  if not opened.readonly:
    assert opened.put(KEY, b'new')
    assert opened.get(KEY) == b'new'
  opened.close()


@each_access
@each_level
def test_an_open_directory_stays_the_same_whatever_its_path(
    tmp_path, readonly, level):
  root = tmp_path / 'root'
  slot = fill(root)
  opened = open_cache(root, readonly)
  # Not even safe ones are taken: these are another cache's.
  path, other = (level_of(r, level) for r in (root, tmp_path / 'other'))
  fill(tmp_path / 'other', EVIL)
  before = files(tmp_path / 'other')
  path.rename(tmp_path / 'moved')
  path.symlink_to(other)
  moved = tmp_path / 'moved' / slot.relative_to(path)
  assert opened.get(KEY) == DATA
  if not opened.readonly:
    assert opened.put('more', DATA)
    assert (moved / 'more.entry').exists()
    (moved / f'{KEY}.entry').write_bytes(b'')
    assert opened.get(KEY) is None
    assert not (moved / f'{KEY}.entry').exists()
    opened.evict()
  opened.close()
  assert files(tmp_path / 'other') == before


@pytest.mark.parametrize('by', [
    'link',
    pytest.param('directory', marks=needs_root),
])
def test_a_directory_swapped_as_soon_as_it_is_made(tmp_path, monkeypatch, by):
  evil = tmp_path / 'evil'
  mkdir, made = os.mkdir, []

  def make_and_swap(name, mode=0o777, *, dir_fd=None):
    mkdir(name, mode, dir_fd=dir_fd)
    if dir_fd is None:
      return  # Another thread's.
    assert mode == 0o700, 'nobody gets in before the mode is set'
    made.append(name)
    if name == swapped:
      os.rename(name, f'{name}.moved', src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
      if by == 'link':
        os.symlink(evil, name, dir_fd=dir_fd)
      else:
        mkdir(name, 0o777, dir_fd=dir_fd)
        os.chown(name, STRANGER, STRANGER, dir_fd=dir_fd)

  mkdir(evil)
  for number, swapped in enumerate(['root', 'rules']):
    with monkeypatch.context() as patch:
      patch.setattr(os, 'mkdir', make_and_swap)
      with pytest.raises(
          cache.CacheError, match=f'{swapped} (is a symbolic|belongs to)'):
        open_cache(tmp_path / str(number) / 'root')
    assert made.pop() == swapped
  assert not files(evil)
