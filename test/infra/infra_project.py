"""The checkout, and throwaway projects beside it, for the tools' tests."""

import copy
from pathlib import Path
import re
import shutil
import subprocess
import sys
from typing import Callable
import zipfile

ROOT = Path(__file__).resolve().parents[2]
# Behind everything else, so that an installed torch_xla keeps its place.
sys.path.append(str(ROOT))

from infra.patchset.check import check
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
Remove-when: the test ends
---
"""

CONFIG = 'torch_xla/_dynamo/config.py'
RUNTIME = 'torch_xla/runtime.py'
TAG = 'v2.9.0'
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


def insert(at: int, text: str):
  """An edit that inserts a line."""
  return lambda lines: lines[:at] + [f'{text}\n'] + lines[at:]


def replace(at: int, text: str):
  """An edit that replaces a line."""
  return lambda lines: lines[:at] + [f'{text}\n'] + lines[at + 1:]


def edit_file(path: Path, edit: Edit) -> None:
  """Changes the lines of a file."""
  path.write_text(''.join(edit(path.read_text().splitlines(True))))


def unpack(wheel: Path, folder: Path) -> Path:
  """Unpacks the text files of a wheel."""
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(folder,
                       [n for n in archive.namelist() if not n.endswith('.so')])
  return folder


class Project:
  """A small project in a folder of its own, with series of its own."""

  def __init__(self, root: Path, official_wheel: Path):
    self.root = root
    self.test_base: list[str] = []
    self.project_tests: list[str] = []
    self._series: dict[str, dict] = {}
    self._official = zipfile.ZipFile(official_wheel)
    (root / 'patches').mkdir(parents=True)
    (root / 'README.md').write_text('# Project\n')
    (root / 'LICENSE').write_text('A licence.\n')

  def copy(self, root: Path) -> 'Project':
    """The same project in another folder."""
    other = copy.copy(self)
    other.root = shutil.copytree(self.root, root)
    other.test_base = list(self.test_base)
    other.project_tests = list(self.project_tests)
    other._series = copy.deepcopy(self._series)
    return other

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
    lists = (f'test_base = {self.test_base!r}\n'
             f'project_tests = {self.project_tests!r}\n')
    (self.root / 'patches' / 'series.toml').write_text(lists + '\n'.join(
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


def one_patch(project: Project) -> Path:
  """Gives the project a series `one` with one good patch."""
  return project.patch('one', 'config: add a line', CONFIG,
                       insert(2, '# ours 1'))


def problem(project: Project) -> str:
  """The problems that `check` finds; there have to be some."""
  problems = check(project.root, project.read)
  assert problems
  return '\n'.join(problems)
