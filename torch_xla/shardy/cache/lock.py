"""One writer per directory: a lock that the kernel holds, and who holds it.

The lock is `flock` on the directory's lock file, which is never unlinked: it
ends with its process, however that ends, and of two processes that are after
it exactly one gets it. The file's contents say who that is. They are emptied on
a clean release, so contents under a free lock are those of a process that died.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import socket
import time
from typing import Optional

from .directory import Directory
from .errors import CacheError

LOCK_FILE = 'lock'
_BOOT_FILE = '/proc/sys/kernel/random/boot_id'
# How long a new holder may take to write down who it is.
_NAMING_SECONDS = 1.0
_POLL_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Holder:
  """A process that is, or was, a directory's writer.

  Attributes:
    host: the host's name.
    boot: the id of the run of the kernel that the process belongs to.
    pid: the process.
    started: when it started, in clock ticks since boot; tells it apart from a
      later process of the same pid.
    since: when it took the lock, seconds since the epoch.
  """
  host: str
  boot: str
  pid: int
  started: int
  since: float

  def __str__(self) -> str:
    since = time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.since))
    return f'process {self.pid} on host {self.host}, since {since}'

  def is_alive(self) -> bool:
    """Tests whether the process, of this kernel and pid namespace, runs."""
    return _process_start(self.pid) == self.started


class CacheInUseError(CacheError):
  """Another process is the directory's writer.

  Attributes:
    holder: that process; None where it could not be read.
  """

  def __init__(self, message: str, holder: Optional[Holder]):
    super().__init__(message)
    self.holder = holder


def this_process() -> Holder:
  with open(_BOOT_FILE, encoding='ascii') as f:
    boot = f.read().strip()
  pid = os.getpid()
  return Holder(socket.gethostname(), boot, pid,
                _process_start(pid) or 0, time.time())


def _process_start(pid: int) -> Optional[int]:
  """The start time of a process: field 22 of /proc/PID/stat, see proc(5).

  None says that there is no such process.
  """
  try:
    with open(f'/proc/{pid}/stat', 'rb') as f:
      # The name, in parentheses, may hold anything; what follows may not.
      return int(f.read().rpartition(b')')[2].split()[19])
  except (FileNotFoundError, ProcessLookupError):
    return None


class DirectoryLock:
  """The right to write to a directory, from construction to `release`.

  Attributes:
    path: the lock file.
    taken_over: the process that died as the writer before, if one did.
  """

  def __init__(self, directory: Directory):
    """Takes the lock.

    Raises:
      CacheInUseError: another process has it, or may have it.
      CacheError: the file system has no locks, or is not writable, or the lock
        file is not trusted.
    """
    self.path = os.path.join(directory.path, LOCK_FILE)
    self.taken_over: Optional[Holder] = None
    try:
      self._file = directory.open_file(LOCK_FILE, os.O_RDWR | os.O_CREAT)
    except OSError as e:
      raise CacheError(
          f'cannot write to the compilation cache {directory.path}: '
          f'{e.strerror}; name a writable directory') from e
    try:
      self._take(directory.path)
    except BaseException:
      os.close(self._file)
      raise
    # A forked child shares the lock, and would keep it beyond our death.
    os.register_at_fork(after_in_child=self._forget)

  def _take(self, directory: str) -> None:
    try:
      fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
      if e.errno not in (errno.EWOULDBLOCK, errno.EACCES):
        raise CacheError(
            f'cannot lock {self.path}: {e.strerror}; the compilation cache '
            'needs a file system with flock') from e
      holder = self._wait_for_name()
      raise CacheInUseError(
          f'the compilation cache {directory} has a writer: '
          f'{holder or "a process that has not said who it is"}. Open it as a '
          'READER, wait for that process to end, or use PRIVATE',
          holder) from None
    me, previous = this_process(), _read(self._file)
    # One kernel's locks are proof, and a restarted host's processes are gone;
    # but not every mount's locks reach other hosts.
    if (previous is not None and previous.host != me.host and
        previous.boot != me.boot):
      raise CacheInUseError(
          f'the compilation cache {directory} has, or had, a writer on '
          f'another host: {previous}. Whether it still runs cannot be seen '
          f'from {me.host}. If it does not, delete {self.path}', previous)
    self.taken_over = previous
    data = json.dumps(dataclasses.asdict(me)).encode()
    # In this order: whoever reads meanwhile finds a whole name, or none.
    try:
      os.ftruncate(self._file, 0)
      os.pwrite(self._file, data, 0)
    except OSError as e:
      raise CacheError(f'cannot write to {self.path}: {e.strerror}') from e

  def _wait_for_name(self) -> Optional[Holder]:
    """Who has the lock; a name found at first may be that of a dead writer."""
    deadline = time.monotonic() + _NAMING_SECONDS
    me = this_process()
    while True:
      holder = _read(self._file)
      late = time.monotonic() >= deadline
      if late or (holder is not None and
                  (holder.boot != me.boot or holder.is_alive())):
        return holder
      time.sleep(_POLL_SECONDS)

  def is_held(self) -> bool:
    """Tests whether this process, not a parent that it forked from, has it."""
    return self._file >= 0

  def release(self) -> None:
    """Gives the lock back; no-op if it was."""
    if self.is_held():
      os.ftruncate(self._file, 0)
      self._forget()

  def _forget(self) -> None:
    if self._file >= 0:
      os.close(self._file)
      self._file = -1


def _read(file: int) -> Optional[Holder]:
  try:
    return Holder(**json.loads(os.pread(file, 4096, 0)))
  except (ValueError, TypeError):  # Empty, or half written.
    return None
