"""A compilation cache that outlives the process, shared by all that may write.

It stands at the door: a program that was compiled before, from the same bytes
and under the same rules, is loaded instead. torch_xla's own persistent cache
cannot do this in 2.9.0: it writes entries, and then loads them by a call that
no backend's client implements (pytorch/xla#9094).

Any number of processes, on any number of hosts, may use one directory at once:
an entry appears whole or not at all, and has a digest, so nobody has to wait.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
import dataclasses
import logging
import os
from typing import Any, Optional

from .. import door
from ..errors import BackendCompileError, TooLateError
from ..mode import current_mode, Mode, freeze
from .directory import open_root
from .errors import CacheError
from .rules import directory_name, program_key
from .store import CacheReport, Store

__all__ = ['Cache', 'CacheError', 'CacheReport', 'open_directory', 'use']

logger = logging.getLogger(__name__)

_DEFAULT_LIMIT_BYTES = 10 * 2**30


class Cache(Store):
  """An open compilation cache."""
  _undo: Optional[Callable[[], None]] = None

  def close(self) -> None:
    """Stops using the cache."""
    global _in_use
    if _in_use is self:
      _in_use = None
    if self._undo:
      self._undo()
      self._undo = None

  def stand_at_door(self, rules: str) -> None:
    """Looks into the cache before any program is compiled from now on."""
    self._undo = door.wrap(lambda compilation, rest: rest(
        _CachedCompilation(compilation, self, rules)))


# Two would store each program twice, so a process has one.
_in_use: Optional[Cache] = None


def use(root: str,
        *,
        readonly: bool = False,
        limit_bytes: int = _DEFAULT_LIMIT_BYTES) -> Cache:
  """Loads programs from a cache under `root` from now on, and stores them.

  Comes after the mode is chosen (the environment, or `xr.use_shardy()`), and
  before the first program, which would be compiled without it.

  Args:
    root: a directory, made if need be, for this user alone; what is below it is
      named by the rules that programs are compiled under. What lies there is
      run as machine code: only this process's user and root may own it, and
      nobody else write to it.
    readonly: only load, as from a copy that root owns.
    limit_bytes: how much the directory may take; the entries that were not used
      for longest go first.

  Raises:
    TooLateError: the runtime is up, so programs may have been compiled.
    CacheError: the mode is off, this process has a cache already, others may
      write to `root` or what is in it, or `root` or `limit_bytes` will not do.
  """
  global _in_use
  import torch_xla
  if current_mode() is Mode.OFF:
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
  rules = directory_name()
  cache = open_directory(root, rules, readonly, limit_bytes)
  cache.stand_at_door(rules)
  freeze(f'the compilation cache {cache.path}')
  _in_use = cache
  atexit.register(cache.close)
  return cache


def open_directory(root: str, rules: str, readonly: bool,
                   limit_bytes: int) -> Cache:
  """Opens the directory for `rules` under `root`, without the door."""
  if limit_bytes <= 0:
    raise CacheError(f'limit_bytes={limit_bytes} leaves no room; give a '
                     'positive number of bytes')
  root = os.path.abspath(os.fspath(root))
  path = os.path.join(root, rules)
  directory = open_root(root, make=not readonly)
  if directory is not None:
    directory = directory.subdirectory(rules, make=not readonly)
  if not readonly and not os.access('.', os.W_OK, dir_fd=directory.file):
    raise CacheError(f'cannot write to the compilation cache {path}; open it '
                     'with readonly=True, or name a writable directory')
  if directory is None:
    logger.warning(
        'there is no compilation cache %s: all programs are compiled', path)
  return Cache(path, directory, limit_bytes, readonly)


@dataclasses.dataclass(frozen=True)
class _CachedCompilation:
  """A door's Compilation that looks into a cache before it compiles."""
  inner: Any
  store: Store
  rules: str

  def __getattr__(self, name: str) -> Any:
    return getattr(self.inner, name)

  def compile(self,
              program: bytes,
              options: bytes,
              program_format: Optional[str] = None) -> None:
    """Loads the stored program, or compiles it and stores it."""
    program_format = program_format or self.inner.format
    key = program_key(self.rules, program_format, program, options)
    data = self.store.get(key)
    if data is not None:
      try:
        self.inner.load(data)
        return
      except BackendCompileError as e:
        self.store.refused(key, str(e))
    self.inner.compile(program, options, program_format)
    if self.store.readonly:
      return
    try:
      data = self.inner.serialized_executable()
    except BackendCompileError as e:
      self.store.not_stored(f'{key}: the backend cannot serialise it: {e}')
      return
    self.store.put(key, data)
