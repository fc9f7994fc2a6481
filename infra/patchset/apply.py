"""Applies patches to official files, and to nothing else."""

from pathlib import Path
import tempfile
from typing import Callable

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.patch import blob_id, Change, Patch

# Gives a file of the official wheel, or None if it has no such file.
Reader = Callable[[str], bytes | None]


def folder_reader(folder: Path) -> Reader:
  """Reads the files of an unpacked wheel."""

  def read(name: str) -> bytes | None:
    path = folder / name
    return path.read_bytes() if path.is_file() else None

  return read


def patched_files(read: Reader, patches: list[Patch]) -> dict[str, bytes]:
  """What the patches make of the files that they touch.

  Args:
    read: gives the official files.
    patches: to be applied in this order.

  Raises:
    BuildError: a file is not the blob that a patch applies to, a patch does not
      apply, or the result is not the blob that it should be.
  """
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    tree = Path(name).resolve() / 'tree'
    tree.mkdir()
    touched: dict[str, str] = {}
    for patch in patches:
      for change in patch.changes:
        _check_base(tree, read, change, patch, patches, touched)
      complaint = git.apply_outside(tree, patch.diff)
      if complaint:
        raise BuildError(f'patch {patch.name} does not apply: {complaint}')
      for change in patch.changes:
        actual = blob_id((tree / change.path).read_bytes())
        if actual != change.new:
          raise BuildError(
              f'patch {patch.name} makes blob {actual} of {change.path}, but '
              f'its index line says {change.new}. Make the patch again with '
              'git diff -U0 --full-index.')
        touched[change.path] = patch.name
    return {path: (tree / path).read_bytes() for path in sorted(touched)}


def apply_to_folder(folder: Path, patches: list[Patch]) -> list[str]:
  """Applies patches to an unpacked official wheel: all of them, or none.

  Returns:
    The paths of the changed files.

  Raises:
    BuildError: as `patched_files`; nothing is changed then.
  """
  if not folder.is_dir():
    raise BuildError(f'{folder} is no folder with an unpacked wheel')
  results = patched_files(folder_reader(folder), patches)
  for path, data in results.items():
    (folder / path).write_bytes(data)
  return list(results)


def _check_base(tree: Path, read: Reader, change: Change, patch: Patch,
                patches: list[Patch], touched: dict[str, str]) -> None:
  """Puts a file into `tree` if it is new there, and checks which blob it is."""
  path = tree / change.path
  if change.path not in touched and not path.exists():
    data = read(change.path)
    if data is None:
      raise BuildError(
          f'patch {patch.name} changes {change.path}, which is not '
          'in the official wheel')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
  actual = blob_id(path.read_bytes())
  if actual == change.old:
    return
  message = (f'patch {patch.name} does not apply to this {change.path}:\n'
             f'  expected blob {change.old}\n  actual blob   {actual}')
  for other in patches:
    for change_there in other.changes:
      if change_there.path == change.path and change_there.new == change.old:
        message += (f'\nIt applies to the result of {other.name}, which has to '
                    'come before it: the order in series.toml is wrong.')
  if change.path in touched:
    message += (f'\nThe file was changed before by {touched[change.path]}. '
                'Patches to one file have to chain; if they belong to two '
                'series, one has to depend on the other.')
  elif any(actual == c.new for p in patches for c in p.changes):
    message += '\nThe patch is applied already.'
  raise BuildError(message)
