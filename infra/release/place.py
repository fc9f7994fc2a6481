"""Puts the files of a release into a folder: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
import contextlib
import filecmp
import os
from pathlib import Path
import shutil
import signal
import tempfile


class PartlyPlacedError(Exception):
  """Some files were placed, and could not be taken back: its text says which.
  """


def place(source: Path, target: Path, files: Sequence[str]) -> None:
  """Copies files from folder to folder, in the place of those that are there.

  Each appears under its name only when it is whole.

  Raises:
    OSError: it cannot be done. This, and an interrupt, leave the target as it
      was, or with all files.
    PartlyPlacedError: it could be neither done nor undone.
  """
  is_new = not target.exists()
  target.mkdir(parents=True, exist_ok=True)
  try:
    with tempfile.TemporaryDirectory(
        dir=target, prefix='release-', ignore_cleanup_errors=True) as folder:
      new, old = Path(folder) / 'new', Path(folder) / 'old'
      new.mkdir()
      old.mkdir()
      for name in files:
        shutil.copyfile(source / name, new / name)
      _exchange(new, target, old,
                [n for n in files if _differs(new, target, n)])
  except BaseException:
    if is_new:
      # Where it has files after all, it stays.
      with contextlib.suppress(OSError):
        target.rmdir()
    raise


def _differs(new: Path, target: Path, name: str) -> bool:
  """Whether a file is not there as it should be; a wheel mostly is."""
  there = target / name
  return (there.is_symlink() or not there.exists() or
          not filecmp.cmp(new / name, there, shallow=False))


def _exchange(new: Path, target: Path, old: Path, files: Sequence[str]) -> None:
  """Moves files from `new` to `target`, whose own are copied to `old`."""
  there = [name for name in files if os.path.lexists(target / name)]
  for name in there:
    shutil.copy2(target / name, old / name, follow_symlinks=False)
  try:
    for name in files:
      os.replace(new / name, target / name)
  except BaseException:
    # A second Ctrl-C has to wait.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
      _take_back(target, old, files, there)
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    raise


def _take_back(target: Path, old: Path, files: Sequence[str],
               there: Sequence[str]) -> None:
  """Makes `target` as it was; errors as `place`."""
  errors = []
  for name in files:
    try:
      if name in there:
        os.replace(old / name, target / name)
      else:
        (target / name).unlink(missing_ok=True)
    except OSError as error:
      errors.append(f'{name}: {error}')
  if errors:
    told = '\n'.join(errors)
    raise PartlyPlacedError(
        f'{target} has some files of the release and not the others, and these '
        f'could not be taken back:\n{told}\nSee that the folder can be written '
        'to, remove them and run it again.')
