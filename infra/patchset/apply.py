"""Applies patches to files: official ones, or those of a commit."""

import io
from pathlib import Path
import re
from typing import Callable, Iterable

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.patch import blob_id, Change, Patch

# Gives a file of the official wheel or of a commit, or None if it has none.
Reader = Callable[[str], bytes | None]

_HUNK = re.compile(
    r'^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@\n((?:[-+\\].*\n)+)',
    re.MULTILINE)
_LINE = re.compile(r'^([-+])(.*\n)(\\ No newline.*\n)?', re.MULTILINE)


def folder_reader(folder: Path) -> Reader:
  """Reads the files of an unpacked wheel."""

  def read(name: str) -> bytes | None:
    path = folder / name
    return path.read_bytes() if path.is_file() else None

  return read


class Stack:
  """Files, and the patches that are applied to them one after another.

  A patch applies to the blob that its index line names: the file as it was, or
  what an earlier patch made of it. Where other series have changed the file
  besides, git merges the two.

  Attributes:
    names: the names of the patches that are applied.
    files: those that are patched, by path.
    blobs: by id, what patches apply to, and what they make of it.
  """

  def __init__(self, read: Reader):
    self._read = read
    # By path, the last patch that changed it.
    self._last: dict[str, str] = {}
    self.names: set[str] = set()
    self.files: dict[str, bytes] = {}
    self.blobs: dict[str, bytes] = {}

  def apply(self, patch: Patch) -> None:
    """Applies a patch.

    Raises:
      BuildError: there is no blob that it applies to, the result is not the
        blob that it should be, or two series change the same lines.
    """
    for change in patch.changes:
      path, last = change.path, self._last.get(change.path)
      current = self.files[path] if last else self._read(path)
      if current is None:
        raise BuildError(f'patch {patch.name} changes {path}, which is not '
                         'there')
      self.blobs.setdefault(blob_id(current), current)
      if change.old not in self.blobs:
        raise BuildError(f'patch {patch.name} does not apply to this {path}:\n'
                         f'  expected blob {change.old}\n'
                         f'  actual blob   {blob_id(current)}\n' +
                         (f'The file was changed before by {last}. Is' if last
                          else 'Are the patches applied already, or is') +
                         ' the order in series.toml wrong?')
      old = self.blobs[change.old]
      new = self.blobs[change.new] = _applied(old, change, patch)
      merged = git.take_both(git.merge_files(current, old, new))
      if merged is None:
        raise BuildError(
            f'patch {patch.name} changes lines of {path} that {last} changes: '
            'one series has to depend on the other')
      self.files[path] = self.blobs[blob_id(merged)] = merged
      self._last[path] = patch.name
    self.names.add(patch.name)


def patched_files(read: Reader, patches: Iterable[Patch]) -> dict[str, bytes]:
  """The files that patches change, as they make them; see `Stack`."""
  stack = Stack(read)
  for patch in patches:
    stack.apply(patch)
  return dict(sorted(stack.files.items()))


def _applied(old: bytes, change: Change, patch: Patch) -> bytes:
  """Applies a patch to a file: without context, a hunk names its lines."""
  lines = io.BytesIO(old).readlines()
  for hunk in reversed([*_HUNK.finditer(change.diff)]):
    start, removed, added = (int(n or 1) for n in hunk.groups()[:3])
    gone, new = ([(line[:-1] if end else line).encode()
                  for sign, line, end in _LINE.findall(hunk[4])
                  if sign == side]
                 for side in '-+')
    # The line that an insertion names stands before it.
    begin = start - 1 if removed else start
    if (removed, added) != (len(gone),
                            len(new)) or (lines[begin:begin + removed] != gone):
      raise BuildError(
          f'patch {patch.name} does not apply: {change.path} or the hunk has '
          f'other lines than it says:\n{hunk[0]}')
    lines[begin:begin + removed] = new
  result = b''.join(lines)
  if blob_id(result) != change.new:
    raise BuildError(
        f'patch {patch.name} makes blob {blob_id(result)} of {change.path}, but '
        f'its index line says {change.new}. Make the patch again with '
        'git diff -U0 --full-index.')
  return result


def apply_to_folder(folder: Path, patches: list[Patch]) -> list[str]:
  """Applies patches to an unpacked official wheel: all of them, or none.

  Returns:
    The paths of the changed files.

  Raises:
    BuildError: as `Stack.apply`; nothing is changed then.
  """
  if not folder.is_dir():
    raise BuildError(f'{folder} is no folder with an unpacked wheel')
  results = patched_files(folder_reader(folder), patches)
  for path, data in results.items():
    (folder / path).write_bytes(data)
  return list(results)
