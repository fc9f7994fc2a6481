"""A compilation cache that outlives the process, with one writer per directory.

It stands at the door: a program that was compiled before, from the same bytes
and under the same rules, is loaded instead. torch_xla's own persistent cache
cannot do this in 2.9.0: it writes entries, and then loads them by a call that
no backend's client implements (pytorch/xla#9094).
"""

import atexit
import dataclasses
import enum
import logging
import os
import socket
from typing import Any, Optional

from . import cache_rules
from .cache_lock import CacheError, CacheInUseError, DirectoryLock, Holder
from .cache_store import Report, Store
from .errors import BackendCompileError, TooLateError
from .mode import Mode

__all__ = [
    'Cache', 'CacheError', 'CacheInUseError', 'Holder', 'Report', 'Sharing',
    'open_directory', 'use'
]

logger = logging.getLogger(__name__)

_SHARED = 'shared'
_DEFAULT_LIMIT_BYTES = 10 * 2**30


class Sharing(enum.Enum):
  """Who else uses the directory.

  PRIVATE: nobody, as long as this process runs. Each process of a host gets the
    first free one of the host's directories, so that a restarted process finds
    what the one before it left.
  WRITER: readers, on this host and others; this process alone writes.
  READER: the writer and other readers; this process never writes.
  """
  PRIVATE = 'private'
  WRITER = 'writer'
  READER = 'reader'


class Cache:
  """An open compilation cache.

  Attributes:
    path: its directory.
    readonly: whether this process only loads what others stored.
    taken_over: the process that died as the writer before, if one did.
  """

  def __init__(self, path: str, lock: Optional[DirectoryLock],
               limit_bytes: int):
    self.path = path
    self.readonly = lock is None
    self.taken_over = lock.taken_over if lock else None
    self._lock = lock
    self.store = Store(path, limit_bytes, lock.is_held if lock else
                       (lambda: False))
    if self.taken_over:
      logger.warning(
          'took over the compilation cache %s from %s, which ended without '
          'giving it back', path, self.taken_over)

  def report(self) -> Report:
    """What was loaded, stored, evicted, and skipped as damaged so far."""
    return self.store.report()

  def evict(self) -> None:
    """Keeps the directory to its limit now, as every store does.

    Raises:
      CacheError: `readonly`.
    """
    self.store.evict()

  def close(self) -> None:
    """Stops using the cache and lets another process write to it."""
    global _in_use
    if _in_use is self:
      from . import door, switch
      door.set_compiler(switch.compiler_for(switch.current_mode()))
      _in_use = None
    if self._lock:
      self._lock.release()


# The door has one compiler, so a process has one cache.
_in_use: Optional[Cache] = None


def use(root: str,
        *,
        share: Sharing = Sharing.PRIVATE,
        limit_bytes: int = _DEFAULT_LIMIT_BYTES) -> Cache:
  """Loads programs from a cache under `root` from now on, and stores them.

  Comes after the mode is chosen (the environment, or `xr.use_shardy()`), and
  before the first program, which would be compiled without it.

  Args:
    root: a directory, made if need be; what is below it is named by the rules
      that programs are compiled under. What lies there is run as machine code:
      nobody whom you do not trust may be able to write to it.
    share: who else uses the same directory.
    limit_bytes: how much the directory may take; the entries that were not used
      for longest go first.

  Raises:
    CacheInUseError: another process is the writer; only for WRITER.
    TooLateError: the runtime is up, so programs may have been compiled.
    CacheError: the mode is off, this process has a cache already, or `root` or
      `limit_bytes` will not do.
  """
  global _in_use
  import torch_xla

  from . import door, switch
  mode = switch.current_mode()
  if mode is Mode.OFF:
    raise CacheError(
        'with the mode off programs do not pass the door, so they cannot be '
        'cached; set XLA_USE_SHARDY=1 or XLA_SHARDING_V2=1 before torch_xla is '
        'imported')
  if _in_use is not None:
    raise CacheError(f'this process uses the compilation cache {_in_use.path} '
                     'already; close() it first')
  if torch_xla._XLAC._xla_runtime_is_initialized():
    raise TooLateError(
        'the XLA runtime is already up; call torch_xla.shardy.cache.use() '
        'before the first XLA tensor or device')
  rules = cache_rules.directory_name()
  cache = open_directory(root, rules, share, limit_bytes)
  compiler = switch.compiler_for(mode)
  door.set_compiler(lambda compilation: compiler(
      _CachedCompilation(compilation, cache.store, rules)))
  switch.settle(f'the compilation cache {cache.path}')
  _in_use = cache
  atexit.register(cache.close)
  return cache


def open_directory(root: str, rules: str, share: Sharing,
                   limit_bytes: int) -> Cache:
  """`use` without the door: opens the directory for `rules` under `root`."""
  if limit_bytes <= 0:
    raise CacheError(f'limit_bytes={limit_bytes} leaves no room; give a '
                     'positive number of bytes')
  parent = os.path.join(os.path.abspath(os.fspath(root)), rules)
  share = Sharing(share)
  if share is Sharing.PRIVATE:
    return _open_private(parent, limit_bytes)
  path = os.path.join(parent, _SHARED)
  if share is Sharing.READER:
    if os.path.exists(root) and not os.path.isdir(root):
      raise CacheError(f'{root} is not a directory; name one')
    if not os.path.isdir(path):
      logger.warning(
          'there is no compilation cache %s yet; until a WRITER makes it, all '
          'programs are compiled', path)
    return Cache(path, None, limit_bytes)
  _make(path)
  return _open_locked(path, limit_bytes)


def _open_private(parent: str, limit_bytes: int) -> Cache:
  slot = 0
  while True:
    path = os.path.join(parent, f'{socket.gethostname()}-{slot}')
    _make(path)
    try:
      return _open_locked(path, limit_bytes)
    except CacheInUseError:
      slot += 1


def _open_locked(path: str, limit_bytes: int) -> Cache:
  lock = DirectoryLock(path)
  try:
    return Cache(path, lock, limit_bytes)
  except BaseException:
    lock.release()
    raise


def _make(path: str) -> None:
  try:
    os.makedirs(path, exist_ok=True)
  except OSError as e:
    raise CacheError(f'cannot make the compilation cache {path}: {e.strerror}; '
                     'name a writable directory') from e


@dataclasses.dataclass(frozen=True)
class _CachedCompilation:
  """A door's Compilation that looks into a cache before it compiles."""
  inner: Any
  store: Store
  rules: str

  def __getattr__(self, name: str) -> Any:
    return getattr(self.inner, name)

  def compile(self, program: bytes, options: bytes) -> None:
    """As `door.Compilation.compile`."""
    key = cache_rules.program_key(self.rules, self.inner.format, program,
                                  options)
    data = self.store.get(key)
    if data is not None:
      try:
        self.inner.load(data)
        return
      except BackendCompileError as e:
        self.store.refused(key, str(e))
    self.inner.compile(program, options)
    if not self.store.may_write():
      return
    try:
      data = self.inner.serialized_executable()
    except BackendCompileError as e:
      self.store.not_stored(f'{key}: the backend cannot serialise it: {e}')
      return
    self.store.put(key, data)
