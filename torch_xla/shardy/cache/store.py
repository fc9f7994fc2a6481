"""Compiled programs as files of one directory, each with its own digest.

An entry is written beside its place and then renamed to it, so it is whole or
not there; its digest also finds what happens to it later. Any process may
therefore read and write at any time, and an entry that is evicted while one
reads it stays whole for that reader. All are reached through the open
directory, see `directory`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import logging
import os
import secrets
import stat
import threading
import time
from typing import Optional

from .directory import Directory
from .errors import CacheError

logger = logging.getLogger(__name__)

# After the first line come the digest, 64 hexadecimal digits, and the data.
_MAGIC = b'torch_xla.shardy executable 1\n'
_DIGEST_SIZE = 64
# An unfinished entry that is older is of a process that died.
_UNFINISHED_SECONDS = 3600
_ENTRY, _UNFINISHED = '.entry', '.unfinished'


@dataclasses.dataclass(frozen=True)
class CacheReport:
  """Counts of the entries that this process read or wrote.

  Attributes:
    loaded: programs that came out of the cache.
    missing: programs that were not in it, and were compiled.
    stored: programs that were put into it.
    evicted: entries that were deleted for want of room.
    damaged: one line for each entry that was skipped, and why; among them
      those that others may write to.
    not_stored: one line for each program that could not be put into it.
  """
  loaded: int = 0
  missing: int = 0
  stored: int = 0
  evicted: int = 0
  damaged: tuple[str, ...] = ()
  not_stored: tuple[str, ...] = ()


class Store:
  """The entries of one directory.

  Attributes:
    path: the directory.
    readonly: whether this process never writes.
  """

  def __init__(self, path: str, directory: Optional[Directory],
               limit_bytes: int, readonly: bool):
    """Opens the directory.

    Args:
      path: the directory.
      directory: it, open; None says that it is not there, if `readonly`.
      limit_bytes: how much all entries may take, as far as this process writes.
      readonly: whether this process never writes.
    """
    self.path = path
    self.readonly = readonly
    self._directory = directory
    self._limit_bytes = limit_bytes
    self._counts: dict[str, int] = dict.fromkeys(
        ('loaded', 'missing', 'stored', 'evicted'), 0)
    self._damaged: list[str] = []
    self._not_stored: list[str] = []
    # Programs may be compiled on several threads at once.
    self._mutex = threading.RLock()
    if not readonly:
      self._remove_unfinished()
      self.evict()

  def report(self) -> CacheReport:
    """Counts of entries loaded, stored, evicted, and skipped as damaged."""
    return CacheReport(
        **self._counts,
        damaged=tuple(self._damaged),
        not_stored=tuple(self._not_stored))

  def get(self, key: str) -> Optional[bytes]:
    """The data stored under `key`; None if there is none, or none whole."""
    with self._mutex:
      try:
        data = self._whole(key)
      except (OSError, CacheError) as e:
        self.skip(
            key, f'cannot be read: {e.strerror}'
            if isinstance(e, OSError) else str(e))
        return None
      self._counts['missing' if data is None else 'loaded'] += 1
      if data is not None and not self.readonly:
        with contextlib.suppress(OSError):
          # The time of the last use, for `evict`.
          os.utime(key + _ENTRY, dir_fd=self._file, follow_symlinks=False)
      return data

  def _whole(self, key: str) -> Optional[bytes]:
    """The entry stored under `key`; raises CacheError if it is damaged."""
    if self._directory is None:
      return None
    try:
      file = self._directory.open_file(key + _ENTRY)
    except OSError as e:
      if e.errno not in (errno.ENOENT, errno.ESTALE):
        raise
      return None
    with open(file, 'rb') as f:
      content = f.read()
    start = len(_MAGIC) + _DIGEST_SIZE
    data = memoryview(content)[start:]
    if not content.startswith(_MAGIC):
      raise CacheError(f'{len(content)} bytes that are no entry')
    if content[len(_MAGIC):start] != _digest(key, data):
      raise CacheError(f'{len(content)} bytes that are not what was written')
    return bytes(data)

  def skip(self, key: str, why: str) -> None:
    """Reports an entry as damaged, and removes it if we may."""
    line = f'{key}: {why}'
    self._damaged.append(line)
    self._counts['missing'] += 1
    logger.warning(
        'skipped a damaged entry of the compilation cache %s, and compile '
        'instead: %s', self.path, line)
    if not self.readonly:
      try:
        os.unlink(key + _ENTRY, dir_fd=self._file)
      except OSError as e:
        logger.debug('cannot remove %s: %s', key, e)

  def refused(self, key: str, why: str) -> None:
    """Takes a `get` back: the backend would not load what it gave."""
    self._counts['loaded'] -= 1
    self.skip(key, f'the backend refused it: {why}')

  def put(self, key: str, data: bytes) -> bool:
    """Stores `data` under `key`; False, and reported, if that cannot be.

    Never raises for the disk's sake: a program that is not stored still runs.
    """
    with self._mutex:
      return not self.readonly and self._put(key, data)

  def _put(self, key: str, data: bytes) -> bool:
    size = len(_MAGIC) + _DIGEST_SIZE + len(data)
    if size > self._limit_bytes:
      self.not_stored(f'{key}: {size} bytes are more than the limit of '
                      f'{self._limit_bytes}')
      return False
    unfinished = f'{key}.{secrets.token_hex(8)}{_UNFINISHED}'
    try:
      file = self._directory.open_file(unfinished,
                                       os.O_WRONLY | os.O_CREAT | os.O_EXCL)
      with open(file, 'wb') as f:
        f.write(_MAGIC)
        f.write(_digest(key, data))
        f.write(data)
      os.replace(
          unfinished,
          key + _ENTRY,
          src_dir_fd=self._file,
          dst_dir_fd=self._file)
      self._counts['stored'] += 1
      self.evict()
    except (OSError, CacheError) as e:
      why = e.strerror if isinstance(e, OSError) else e
      self.not_stored(f'{key}: {why}')
      # On a full disk, room for the next.
      with contextlib.suppress(OSError):
        os.unlink(unfinished, dir_fd=self._file)
      return False
    return True

  def not_stored(self, line: str) -> None:
    """Reports a program that does not get into the cache."""
    if not self._not_stored:
      logger.warning('cannot write to the compilation cache %s: %s', self.path,
                     line)
    self._not_stored.append(line)

  def evict(self) -> None:
    """Deletes what was not used for longest until the limit is kept, as `put`.

    Raises:
      CacheError: `readonly`.
    """
    if self.readonly:
      raise CacheError(f'{self.path} is open for reading only')
    files = self._files()
    total = sum(size for _, size, _ in files)
    for _, size, name in files:
      if total <= self._limit_bytes:
        break
      try:
        os.unlink(name, dir_fd=self._file)
      except FileNotFoundError:
        pass
      total -= size
      self._counts['evicted'] += 1

  def _files(self) -> list[tuple[int, int, str]]:
    """The entries as (time of last use, bytes, name), the oldest first."""
    files = []
    for name in os.listdir(self._file):
      if name.endswith(_ENTRY):
        with contextlib.suppress(FileNotFoundError):
          status = os.stat(name, dir_fd=self._file, follow_symlinks=False)
          if not stat.S_ISDIR(status.st_mode):
            files.append((status.st_mtime_ns, status.st_size, name))
    return sorted(files)

  def _remove_unfinished(self) -> None:
    for name in os.listdir(self._file):
      if name.endswith(_UNFINISHED):
        with contextlib.suppress(OSError):
          status = os.stat(name, dir_fd=self._file, follow_symlinks=False)
          if status.st_mtime < time.time() - _UNFINISHED_SECONDS:
            os.unlink(name, dir_fd=self._file)

  @property
  def _file(self) -> int:
    """The directory's descriptor; who may write has one."""
    return self._directory.file


def _digest(key: str, data) -> bytes:
  # With the key, so that a file under another entry's name counts as damaged.
  digest = hashlib.sha256(key.encode())
  digest.update(data)
  return digest.hexdigest().encode()
