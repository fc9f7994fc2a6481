"""Finds the files that a release would take and that its commit has not."""

from __future__ import annotations

from collections.abc import Iterable
import os
from pathlib import Path

from infra.patchset import git
from infra.patchset.manifest import FILE, FOLDER, load_manifest
from infra.patchset.patch import blob_id
from infra.wheel import pins
from infra.wheel.overlay import files_beneath
from infra.wheel.tools import TOOLS

# What a build reads from the checkout: folders, and files beside them.
_FOLDERS = ('infra', FOLDER, *pins.PACKAGES,
            *(source for tool in TOOLS for source in tool.sources.values()))
_FILES = ('.bazelignore', '.bazelrc', '.bazelversion', 'BUILD', 'BUILD.bazel',
          'CHANGELOG.md', 'LICENSE', 'MODULE.bazel', 'README.md', 'WORKSPACE',
          'WORKSPACE.bazel')


def differences(root: Path) -> list[str]:
  """The files that are not as HEAD has them, each with what is wrong.

  The content of each file counts. What the user has told git to ignore or to
  assume does not: the build would take such a file all the same. Only what the
  build does not read may lie about ignored.

  Args:
    root: the checkout.

  Raises:
    BuildError: git fails, the series cannot be read, or a file of the wheel is
      a symbolic link.
  """
  blobs = _blobs(root)
  new = {*_read_by_build(root), *_known_to_git(root)} - blobs.keys()
  reasons = {
      name: 'in no commit' for name in new if os.path.lexists(root / name)
  }
  for name, blob in blobs.items():
    content = _content(root / name)
    if content is None:
      reasons[name] = 'missing here'
    elif blob_id(content) != blob:
      reasons[name] = 'changed since the commit'
  return [f'{name}: {what}' for name, what in sorted(reasons.items())]


def _blobs(root: Path) -> dict[str, str]:
  """The files of HEAD, each with git's id of its content."""
  listed = git.read(root, 'ls-tree', '-r', '-z', 'HEAD')
  blobs = {}
  for entry in _names(listed):
    described, _, name = entry.partition('\t')
    blobs[name] = described.split()[2]
  return blobs


def _read_by_build(root: Path) -> Iterable[str]:
  for folder in _FOLDERS:
    yield from files_beneath(root, folder)
  yield from _FILES
  if (root / FILE).is_file():
    for series in load_manifest(root).series:
      yield from (f'{FOLDER}/{name}' for name in series.wheel)


def _known_to_git(root: Path) -> list[str]:
  """The files that git tracks or sees, whatever `git status` is set to show."""
  return _names(
      git.read(root, 'ls-files', '-z', '--cached', '--others',
               '--exclude-standard'))


def _names(listed: bytes) -> list[str]:
  return [os.fsdecode(name) for name in listed.split(b'\0') if name]


def _content(path: Path) -> bytes | None:
  """What git would store of a path: of a link, where it leads."""
  try:
    return os.readlink(
        os.fsencode(path)) if path.is_symlink() else (path.read_bytes())
  except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
    return None
