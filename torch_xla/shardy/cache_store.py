"""Compiled programs as files of one directory, each with its own digest.

An entry is written beside its place and then renamed to it, so it is whole or
not there; its digest also finds what happens to it later. Readers may therefore
look in at any time, and an entry that is evicted while one reads it stays whole
for that reader.
"""

import contextlib
import dataclasses
import hashlib
import logging
import os
import threading
from typing import Callable, Dict, List, Optional, Tuple

from .cache_lock import CacheError

logger = logging.getLogger(__name__)

# After the first line come the digest, 64 hexadecimal digits, and the data.
_MAGIC = b'torch_xla.shardy executable 1\n'
_DIGEST_SIZE = 64
_ENTRY, _UNFINISHED, _DAMAGED = '.entry', '.unfinished', '.damaged'


@dataclasses.dataclass(frozen=True)
class Report:
  """What became of the entries that this process asked for or wrote.

  Attributes:
    loaded: programs that came out of the cache.
    missing: programs that were not in it, and were compiled.
    stored: programs that were put into it.
    evicted: entries that were deleted for want of room.
    damaged: one line for each entry that was skipped, and why.
    not_stored: one line for each program that could not be put into it.
  """
  loaded: int = 0
  missing: int = 0
  stored: int = 0
  evicted: int = 0
  damaged: Tuple[str, ...] = ()
  not_stored: Tuple[str, ...] = ()


class Store:
  """The entries of one directory.

  Attributes:
    path: the directory.
    limit_bytes: how much all entries may take.
    may_write: whether this process is the directory's writer, now.
  """

  def __init__(self, path: str, limit_bytes: int, may_write: Callable[[],
                                                                      bool]):
    """Opens the directory, which must exist.

    Args:
      path: the directory.
      limit_bytes: how much all entries may take; the writer keeps to it.
      may_write: whether this process is the directory's writer, now.
    """
    self.path = path
    self.limit_bytes = limit_bytes
    self.may_write = may_write
    self._counts: Dict[str, int] = dict.fromkeys(
        ('loaded', 'missing', 'stored', 'evicted'), 0)
    self._damaged: List[str] = []
    self._not_stored: List[str] = []
    # Programs may be compiled on several threads at once.
    self._mutex = threading.RLock()
    if may_write():
      self._remove_unfinished()
      self.evict()

  def report(self) -> Report:
    return Report(
        **self._counts,
        damaged=tuple(self._damaged),
        not_stored=tuple(self._not_stored))

  def get(self, key: str) -> Optional[bytes]:
    """The data stored under `key`; None if there is none, or none whole."""
    with self._mutex:
      return self._get(key)

  def _get(self, key: str) -> Optional[bytes]:
    path = self._path(key)
    try:
      with open(path, 'rb') as f:
        content = f.read()
    except FileNotFoundError:
      self._counts['missing'] += 1
      return None
    except OSError as e:
      self.skip(key, f'cannot be read: {e.strerror}')
      return None
    start = len(_MAGIC) + _DIGEST_SIZE
    data = memoryview(content)[start:]
    if not content.startswith(_MAGIC):
      self.skip(key, f'{len(content)} bytes that are no entry')
      return None
    if content[len(_MAGIC):start] != _digest(key, data):
      self.skip(key, f'{len(content)} bytes that are not what was written')
      return None
    self._counts['loaded'] += 1
    if self.may_write():
      with contextlib.suppress(OSError):
        os.utime(path)  # The time of the last use, for `evict`.
    return bytes(data)

  def skip(self, key: str, why: str) -> None:
    """Reports an entry as damaged, and moves it aside if we may."""
    line = f'{key}: {why}'
    self._damaged.append(line)
    self._counts['missing'] += 1
    logger.warning(
        'skipped a damaged entry of the compilation cache %s, and compile '
        'instead: %s', self.path, line)
    if self.may_write():
      try:
        os.replace(self._path(key), self._path(key, _DAMAGED))
      except OSError as e:
        logger.debug('cannot move %s aside: %s', key, e)

  def refused(self, key: str, why: str) -> None:
    """Takes a `get` back: the backend would not load what it gave."""
    self._counts['loaded'] -= 1
    self.skip(key, f'the backend refused it: {why}')

  def put(self, key: str, data: bytes) -> bool:
    """Stores `data` under `key`; False, and reported, if that cannot be.

    Never raises for the disk's sake: a program that is not stored still runs.
    """
    with self._mutex:
      return self.may_write() and self._put(key, data)

  def _put(self, key: str, data: bytes) -> bool:
    size = len(_MAGIC) + _DIGEST_SIZE + len(data)
    if size > self.limit_bytes:
      self.not_stored(f'{key}: {size} bytes are more than the limit of '
                      f'{self.limit_bytes}')
      return False
    unfinished = self._path(key, _UNFINISHED)
    try:
      with open(unfinished, 'wb') as f:
        f.write(_MAGIC)
        f.write(_digest(key, data))
        f.write(data)
      os.replace(unfinished, self._path(key))
      self._counts['stored'] += 1
      self.evict()
    except OSError as e:
      self.not_stored(f'{key}: {e.strerror}')
      with contextlib.suppress(OSError):
        os.unlink(unfinished)  # On a full disk, room for the next.
      return False
    return True

  def not_stored(self, line: str) -> None:
    """Reports a program that does not get into the cache."""
    if not self._not_stored:
      logger.warning('cannot write to the compilation cache %s: %s', self.path,
                     line)
    self._not_stored.append(line)

  def evict(self) -> None:
    """Deletes what was not used for longest until the limit is kept.

    Raises:
      CacheError: another process is the writer.
    """
    if not self.may_write():
      raise CacheError(f'{self.path} is open for reading only: its writer '
                       'keeps it to its limit')
    files = self._files()
    total = sum(size for _, _, size, _ in files)
    for _, _, size, path in files:
      if total <= self.limit_bytes:
        break
      try:
        os.unlink(path)
      except FileNotFoundError:
        pass
      total -= size
      self._counts['evicted'] += 1

  def _files(self) -> List[Tuple[bool, int, int, str]]:
    """(is whole, time of last use, bytes, path): first to be evicted first."""
    files = []
    with os.scandir(self.path) as found:
      for file in found:
        if file.name.endswith((_ENTRY, _DAMAGED)):
          stat = file.stat()
          files.append((file.name.endswith(_ENTRY), stat.st_mtime_ns,
                        stat.st_size, file.path))
    return sorted(files)

  def _remove_unfinished(self) -> None:
    # Their writer died: there is none but us.
    for name in os.listdir(self.path):
      if name.endswith(_UNFINISHED):
        os.unlink(os.path.join(self.path, name))
        self._damaged.append(f'{name[:-len(_UNFINISHED)]}: its writer died '
                             'while writing it')

  def _path(self, key: str, ending: str = _ENTRY) -> str:
    return os.path.join(self.path, key + ending)


def _digest(key: str, data) -> bytes:
  # With the key, so that a file under another entry's name counts as damaged.
  digest = hashlib.sha256(key.encode())
  digest.update(data)
  return digest.hexdigest().encode()
