"""The checkout, and throwaway projects beside it, for the tools' tests."""

from pathlib import Path
import re
import subprocess
import sys
from typing import Callable
import zipfile

ROOT = Path(__file__).resolve().parents[2]
# Behind everything else, so that an installed torch_xla keeps its place.
sys.path.append(str(ROOT))

from infra.patchset.patch import slug
from infra.wheel import pins

_HEAD = """\
Subject: [PATCH] {subject}

A throwaway patch.

Description: a throwaway patch
Bug: https://example.org/1
Forwarded: no
Applies-to: torch_xla {version}
Why-not-overlay: there would be
 nothing to test
---
"""

Edit = Callable[[list[str]], list[str]]


def git(folder: Path, *arguments: str) -> str:
  """Runs git as somebody; fails the test if git does."""
  identity = ['-c', 'user.name=U', '-c', 'user.email=u@example.org']
  done = subprocess.run(['git', *identity, *arguments],
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, done.stderr
  return done.stdout.strip('\n')


def edit_file(path: Path, edit: Edit) -> None:
  """Changes the lines of a file."""
  path.write_text(''.join(edit(path.read_text().splitlines(True))))


class Project:
  """A small project in a folder of its own, with series of its own."""

  def __init__(self, root: Path, official_wheel: Path):
    self.root = root
    self._series: dict[str, dict] = {}
    self._official = zipfile.ZipFile(official_wheel)
    (root / 'patches').mkdir(parents=True)
    (root / 'README.md').write_text('# Project\n')
    (root / 'LICENSE').write_text('A licence.\n')

  def read(self, name: str) -> bytes | None:
    """Reads a file of the official wheel."""
    return (self._official.read(name)
            if name in self._official.namelist() else None)

  def series(self, name: str, **values) -> dict:
    """Adds a series, or changes one."""
    entry = self._series.setdefault(
        name,
        dict(
            name=name,
            description='a series',
            bug='https://example.org/1',
            depends_on=[],
            patches=[],
            overlay=[],
            tests=[]))
    entry.update(values)
    # The texts and lists of texts in use look the same in TOML.
    (self.root / 'patches' / 'series.toml').write_text('\n'.join(
        '[[series]]\n' + ''.join(f'{k} = {v!r}\n'
                                 for k, v in entry.items())
        for entry in self._series.values()))
    return entry

  def file(self, name: str, text: str = 'ours = True\n') -> Path:
    """Writes a file."""
    path = self.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path

  def patch(self,
            series: str,
            subject: str,
            path: str,
            edit: Edit,
            base: bytes | None = None) -> Path:
    """Adds a patch that edits an official file, or the text `base`."""
    scratch = self.root.parent / f'{self.root.name}-scratch-{slug(subject)}'
    target = scratch / path
    target.parent.mkdir(parents=True)
    target.write_bytes(self.read(path) if base is None else base)
    git(scratch, 'init', '-q')
    git(scratch, 'add', '.')
    edit_file(target, edit)
    diff = git(scratch, 'diff', '-U0', '--full-index')
    diff = re.sub(r'(?m)^(@@ .*? @@).*$', r'\1', diff)
    head = _HEAD.format(subject=subject, version=pins.OFFICIAL_VERSION)
    entry = self.series(series)
    name = f'{slug(subject)}.patch'
    self.series(series, patches=entry['patches'] + [name])
    return self.file(f'patches/{series}/{name}', f'{head}{diff}\n')
