"""Applies patches to files: official ones, or those of a commit."""

from pathlib import Path
import tempfile
from typing import Callable, Iterable

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.patch import blob_id, Change, Patch

# Gives a file of the official wheel or of a commit, or None if it has none.
Reader = Callable[[str], bytes | None]


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
    files: those that are patched, by path.
    blobs: by id, what patches apply to, and what they make of it.
  """

  def __init__(self, read: Reader):
    self._read = read
    self._patches: list[Patch] = []
    self.files: dict[str, bytes] = {}
    self.blobs: dict[str, bytes] = {}

  def apply(self, patch: Patch) -> None:
    """Applies a patch.

    Raises:
      BuildError: there is no blob that it applies to, the result is not the
        blob that it should be, or two series change the same lines.
    """
    for change in patch.changes:
      path = change.path
      current = self.files[path] if path in self.files else self._read(path)
      if current is None:
        raise BuildError(f'patch {patch.name} changes {path}, which is not '
                         'there')
      self.blobs.setdefault(blob_id(current), current)
      if change.old not in self.blobs:
        raise BuildError(self._wrong_base(current, change, patch))
      old = self.blobs[change.old]
      new = self.blobs[change.new] = _applied(old, change, patch)
      merged = git.take_both(git.merge_files(current, old, new))
      if merged is None:
        raise BuildError(
            f'patch {patch.name} changes lines of {path} that '
            f'{self._last(path)} changes: one series has to depend on the '
            'other')
      self.files[path] = self.blobs[blob_id(merged)] = merged
    self._patches.append(patch)

  @property
  def names(self) -> set[str]:
    """The names of the patches that are applied."""
    return {patch.name for patch in self._patches}

  def _last(self, path: str) -> str:
    """The name of the last patch that changed a file; empty if none did."""
    names = [p.name for p in self._patches for c in p.changes if c.path == path]
    return names[-1] if names else ''

  def _wrong_base(self, current: bytes, change: Change, patch: Patch) -> str:
    """The error where no blob is there that a patch applies to."""
    before = self._last(change.path)
    return (f'patch {patch.name} does not apply to this {change.path}:\n'
            f'  expected blob {change.old}\n'
            f'  actual blob   {blob_id(current)}\n' +
            (f'The file was changed before by {before}. Is the order in '
             'series.toml wrong?'
             if before else 'Are the patches applied already, or is the order '
             'in series.toml wrong?'))


def patched_files(read: Reader, patches: Iterable[Patch]) -> dict[str, bytes]:
  """The files that patches change, as they make them; see `Stack`."""
  stack = Stack(read)
  for patch in patches:
    stack.apply(patch)
  return dict(sorted(stack.files.items()))


def _applied(old: bytes, change: Change, patch: Patch) -> bytes:
  """Applies a patch to a file."""
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    file = Path(name).resolve() / 'tree' / change.path
    file.parent.mkdir(parents=True)
    file.write_bytes(old)
    complaint = git.apply_outside(Path(name) / 'tree', change.diff)
    if complaint:
      raise BuildError(f'patch {patch.name} does not apply: {complaint}')
    new = file.read_bytes()
  actual = blob_id(new)
  if actual != change.new:
    raise BuildError(
        f'patch {patch.name} makes blob {actual} of {change.path}, but '
        f'its index line says {change.new}. Make the patch again with '
        'git diff -U0 --full-index.')
  return new


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
