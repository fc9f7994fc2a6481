"""The files of our own that the wheel takes from the checkout."""

from collections.abc import Iterable
from pathlib import Path

from infra.errors import BuildError
from infra.wheel import pins

_SOURCES = 'torch_xla/csrc/'
_BAZEL_FILES = ('BUILD', 'BUILD.bazel')


def wheel_files(root: Path) -> list[str]:
  """The files of our packages that go into the wheel; see `files_beneath`."""
  names = [n for package in pins.PACKAGES for n in files_beneath(root, package)]
  return [n for n in without_bazel(names) if not n.startswith(_SOURCES)]


def without_bazel(names: list[str]) -> list[str]:
  """The names among `names` that are no files of Bazel's."""
  return [n for n in names if n.rsplit('/', 1)[-1] not in _BAZEL_FILES]


def check_clashes(names: Iterable[str], official_names: Iterable[str]) -> None:
  """Raises BuildError if one of our files is in the official wheel too."""
  clashes = sorted({*names} & {*official_names})
  if clashes:
    raise BuildError(
        f'{", ".join(clashes)} would overwrite a file of the official wheel. '
        'Change such a file with a patch under patches/wheel/.')


def files_beneath(root: Path, folder: str) -> list[str]:
  """The files beneath a folder of `root`, as sorted paths.

  Raises:
    BuildError: one of them is a symbolic link, which a wheel cannot hold.
  """
  names = []
  for path in (root / folder).rglob('*'):
    name = path.relative_to(root).as_posix()
    if _is_litter(name):
      continue
    if path.is_symlink():
      raise BuildError(f'{name} is a symbolic link: put a file in its place')
    if path.is_file():
      names.append(name)
  return sorted(names)


def _is_litter(name: str) -> bool:
  """Tests whether a path is a cache, hidden, or an editor's backup."""
  parts = name.split('/')
  return ('__pycache__' in parts or any(part[0] == '.' for part in parts) or
          name.endswith(('~', '.pyc', '.orig', '.rej')))
