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
  """Applies the patches to the files that they touch.

  A patch applies to the blob that its index line names: the official file, or
  what an earlier patch made of it. Where other series have changed the file
  besides, git merges the two.

  Args:
    read: gives the official files.
    patches: to be applied in this order.

  Raises:
    BuildError: a patch applies to no blob that there is, the result is not the
      blob that it should be, or two series change the same lines.
  """
  files: dict[str, bytes] = {}
  # By path and blob: what patches apply to, and what they make of it.
  states: dict[tuple[str, str], bytes] = {}
  touched: dict[str, str] = {}
  for patch in patches:
    for change in patch.changes:
      path = change.path
      if path not in files:
        files[path] = _official(read, path, patch)
        states[path, blob_id(files[path])] = files[path]
      old = states.get((path, change.old))
      if old is None:
        raise BuildError(
            _wrong_base(files[path], change, patch, patches, touched))
      new = _applied(old, change, patch)
      states[path, change.new] = new
      if files[path] == old:
        files[path] = new
      else:
        merged = git.merge_files(files[path], old, new)
        if merged is None:
          raise BuildError(
              f'patch {patch.name} changes lines of {path} that '
              f'{touched[path]} changes: one series has to depend on the other')
        files[path] = states[path, blob_id(merged)] = merged
      touched[path] = patch.name
  return dict(sorted(files.items()))


def _official(read: Reader, path: str, patch: Patch) -> bytes:
  data = read(path)
  if data is None:
    raise BuildError(f'patch {patch.name} changes {path}, which is not in the '
                     'official wheel')
  return data


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
    BuildError: as `patched_files`; nothing is changed then.
  """
  if not folder.is_dir():
    raise BuildError(f'{folder} is no folder with an unpacked wheel')
  results = patched_files(folder_reader(folder), patches)
  for path, data in results.items():
    (folder / path).write_bytes(data)
  return list(results)


def _wrong_base(current: bytes, change: Change, patch: Patch,
                patches: list[Patch], touched: dict[str, str]) -> str:
  """Says why there is no file that a patch applies to."""
  actual = blob_id(current)
  message = (f'patch {patch.name} does not apply to this {change.path}:\n'
             f'  expected blob {change.old}\n  actual blob   {actual}')
  for other in patches:
    for change_there in other.changes:
      if change_there.path == change.path and change_there.new == change.old:
        message += (f'\nIt applies to the result of {other.name}, which has to '
                    'come before it: the order in series.toml is wrong.')
  if change.path in touched:
    message += f'\nThe file was changed before by {touched[change.path]}.'
  else:
    message += '\nAre the patches applied already?'
  return message
