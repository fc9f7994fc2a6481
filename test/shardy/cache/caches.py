"""Caches for tests of who gets into them, and the second user who tries."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
import pickle
import stat
from typing import Any

import pytest
from torch_xla.shardy import cache

STRANGER = 65534
KEY, DATA, EVIL = 'key', b'data', b'evil'
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason='only root may act as a second user')
each_access = pytest.mark.parametrize(
    'readonly', [False, True], ids=['writer', 'reader'])
each_level = pytest.mark.parametrize('level', ['root', 'rules'])


def open_cache(root, readonly: bool = False) -> cache.Cache:
  return cache.open_directory(str(root), 'rules', readonly, 10**6)


def fill(root, data: bytes = DATA) -> Path:
  """A cache with one entry, closed; its directory."""
  opened = open_cache(root)
  assert opened.put(KEY, data)
  opened.close()
  return Path(opened.path)


def level_of(root: Path, level: str) -> Path:
  """One of a cache's directories."""
  return root if level == 'root' else root / level


def mode_of(path: Path) -> int:
  return stat.S_IMODE(os.lstat(path).st_mode)


def give_away(path: Path) -> None:
  os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


def files(path: Path) -> list[str]:
  return sorted(str(p.relative_to(path)) for p in path.rglob('*'))


def in_child(body: Callable[[], Any]) -> int:
  """The pid of a forked process that ends after `body`, whatever it does."""
  pid = os.fork()
  if pid == 0:
    try:
      body()
    finally:
      os._exit(0)
  return pid


def become_stranger() -> None:
  """Has this process be another user's, for good."""
  os.setgroups([])
  os.setgid(STRANGER)
  os.setuid(STRANGER)


def apart(body: Callable[[], Any]) -> Any:
  """What `body` returns, or raises, in a forked process.

  For what holds for a whole process: here, other threads may be at work.
  """
  hear, tell = os.pipe()

  def run() -> None:
    try:
      outcome = body()
    except Exception as e:  # pylint: disable=broad-except
      outcome = e
    os.write(tell, pickle.dumps(outcome))

  pid = in_child(run)
  os.close(tell)
  with open(hear, 'rb') as f:
    told = f.read()
  os.waitpid(pid, 0)
  return pickle.loads(told)


def as_stranger(body: Callable[[], Any]) -> Any:
  """What `body` returns, or raises, in a process of another user."""

  def run() -> Any:
    become_stranger()
    return body()

  return apart(run)
