"""Directories that nobody else can put anything into, held open.

What lies in a cache is run as machine code, so whoever can write there runs
code as this process. A directory is therefore looked at once it is open, and
what lies in it is opened through its descriptor, not by a path: whatever a path
leads to meanwhile, it is the directory looked at that is used. No symbolic link
is followed below the root.

Trusted are this process's user and root. POSIX ACLs that let others write show
in the mode as the group's right to; rights that modes do not show are not seen.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import shlex
import stat
from typing import Optional
import weakref

from .errors import CacheError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# A look needs no right to what is looked at.
_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# A fifo in a file's place is not to be waited for.
_FILE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Directory:
  """An open directory.

  Attributes:
    path: where it was found; other processes may have moved it since.
    file: its descriptor, closed when nobody refers to this object any more: a
      compile on another thread may still read when a cache is closed.
  """

  def __init__(self, path: str, file: int):
    self.path = path
    self.file = file
    weakref.finalize(self, os.close, file)

  def subdirectory(self, name: str, make: bool) -> Optional[Directory]:
    """Opens a directory in this one; None if it is missing and not to be made.
    """
    path = os.path.join(self.path, name)
    is_new = make and self._make(name)
    try:
      file = os.open(name, _LIST, dir_fd=self.file)
    except FileNotFoundError:
      if not make:
        return None
      raise CacheError(f'{path} was removed as soon as it was made; name '
                       'another directory') from None
    except OSError as e:
      raise self._not_opened(name, e) from e
    opened = Directory(path, file)
    opened.check()
    if is_new:
      os.fchmod(file, stat.S_IRWXU)  # The umask may have taken too much.
    return opened

  def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
    """Opens a file in this directory, private if that makes it.

    Raises:
      OSError: as `os.open`.
      CacheError: it is no regular file, or not trusted.
    """
    path = os.path.join(self.path, name)
    try:
      file = os.open(
          name, flags | _FILE, stat.S_IRUSR | stat.S_IWUSR, dir_fd=self.file)
    except OSError as e:
      if e.errno == errno.ELOOP:
        raise _is_link(path) from e
      raise
    try:
      status = os.fstat(file)
      if not stat.S_ISREG(status.st_mode):
        raise CacheError(f'{path} is not a regular file; remove it')
      _check(path, status)
    except BaseException:
      os.close(file)
      raise
    return file

  def check(self) -> None:
    """Raises CacheError if others may write to this directory."""
    _check(self.path, os.fstat(self.file))

  def check_way(self) -> None:
    """Refuses a place on the way to here where anybody may rename anything."""
    here = self
    while True:
      mode = os.fstat(here.file).st_mode
      if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise CacheError(
            f'everybody may rename what lies in {here.path} (mode '
            f'{stat.S_IMODE(mode):04o}), and so put another directory in place '
            f'of a compilation cache in it; run `chmod +t '
            f'{shlex.quote(here.path)}`, or name another directory')
      try:
        file = os.open('..', _LOOK, dir_fd=here.file)
      except OSError as e:
        raise here._not_opened('.', e) from e
      above = Directory(os.readlink(f'/proc/self/fd/{file}'), file)
      if os.path.sameopenfile(above.file, here.file):
        return
      here = above

  def _make(self, name: str) -> bool:
    """Makes it; returns False if it existed."""
    try:
      os.mkdir(name, stat.S_IRWXU, dir_fd=self.file)
    except FileExistsError:
      return False
    except OSError as e:
      raise CacheError(
          f'cannot make the compilation cache {os.path.join(self.path, name)}: '
          f'{e.strerror}; name a writable directory') from e
    return True

  def _not_opened(self, name: str, e: OSError) -> CacheError:
    path = os.path.normpath(os.path.join(self.path, name))
    if e.errno in (errno.ELOOP, errno.ENOTDIR):
      with contextlib.suppress(OSError):
        status = os.stat(name, dir_fd=self.file, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
          return _is_link(path)
      return _is_no_directory(path)
    # Who cannot look up a name has no right to this directory itself.
    whose, status = self.path, os.fstat(self.file)
    with contextlib.suppress(OSError):
      status = os.stat(name, dir_fd=self.file, follow_symlinks=False)
      whose = path
    return CacheError(
        f'cannot open {path}: {e.strerror}; {whose} belongs to '
        f'{_user(status.st_uid)} (mode {stat.S_IMODE(status.st_mode):04o}). '
        'Run as that user, or name another directory')


def open_root(path: str, make: bool) -> Optional[Directory]:
  """Opens a cache's root, which a link on the way may lead to.

  Args:
    path: an absolute path.
    make: whether to make what is missing of it.

  Returns:
    The root; None if it is missing and not to be made.
  """
  there, missing = path, []
  while True:
    try:
      directory = Directory(there, os.open(there, _LOOK))
      break
    except FileNotFoundError:
      if not make:
        return None
      there, name = os.path.split(there)
      missing.append(name)
    except NotADirectoryError as e:
      raise _is_no_directory(there) from e
    except OSError as e:
      raise CacheError(f'cannot open the compilation cache {there}: '
                       f'{e.strerror}; name another directory') from e
  if not missing:
    directory.check()
  directory.check_way()
  for name in reversed(missing):
    directory = directory.subdirectory(name, make)
  return directory


def _check(path: str, status: os.stat_result) -> None:
  """Raises CacheError if others may write to what has this status."""
  me, owner = os.geteuid(), status.st_uid
  if owner not in (me, 0):
    raise CacheError(
        f'{path} belongs to {_user(owner)}, and code in the compilation cache '
        f'would run as {_user(me)}: only that user and root may own it. Name '
        'another directory, or one of your own in it')
  if status.st_mode & _OTHERS_WRITE:
    whom = ('everybody' if status.st_mode &
            stat.S_IWOTH else _group(status.st_gid))
    # Such as /tmp, which is meant to be so.
    remedy = ('Name a directory of your own in it' if status.st_mode &
              stat.S_ISVTX else
              'If nobody else has put anything there, run `chmod -R go-w '
              f'{shlex.quote(path)}`; else name another directory')
    raise CacheError(
        f'{path} can be written to by {whom} (mode '
        f'{stat.S_IMODE(status.st_mode):04o}), and code in the compilation '
        f'cache would run as {_user(me)}. {remedy}')


def _is_link(path: str) -> CacheError:
  return CacheError(f'{path} is a symbolic link, and a compilation cache '
                    'follows none below its root; remove it')


def _is_no_directory(path: str) -> CacheError:
  return CacheError(f'{path} is not a directory; name one')


def _user(uid: int) -> str:
  with contextlib.suppress(KeyError):
    return f'user {pwd.getpwuid(uid).pw_name} ({uid})'
  return f'user {uid}'


def _group(gid: int) -> str:
  with contextlib.suppress(KeyError):
    return f'group {grp.getgrgid(gid).gr_name} ({gid})'
  return f'group {gid}'
