"""The checkout, and throwaway projects beside it, for the tools' tests."""

from collections.abc import Mapping, Sequence
import os
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

from infra.patchset.apply import patched_files, Reader
from infra.patchset.check import check
from infra.patchset.manifest import load_manifest, WHEEL
from infra.patchset.patch import load_patch, slug
from infra.wheel import pins

_HEAD = """\
Subject: [PATCH] {subject}

A throwaway patch.

Description: a throwaway patch
Bug: https://example.org/1
Forwarded: no
Applies-to: {applies_to}
Why-not-overlay: there would be
 nothing to test
Remove-when: the test ends
---
"""

CONFIG = 'torch_xla/_dynamo/config.py'
RUNTIME = 'torch_xla/runtime.py'
TAG = 'v2.9.0'
Edit = Callable[[list[str]], list[str]]


def run(*command: str | Path,
        env: Mapping[str, str] | None = None,
        **options) -> subprocess.CompletedProcess[str]:
  """Runs a command, with further variables."""
  return subprocess.run(
      command,
      env=os.environ | (env or {}),
      capture_output=True,
      text=True,
      check=False,
      **options)


def output_of(*command: str | Path, **options) -> str:
  """The output of a command that has to succeed."""
  done = run(*command, **options)
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def git(folder: Path, *arguments: str) -> str:
  """Runs git as somebody; fails the test if git does."""
  identity = ['-c', 'user.name=U', '-c', 'user.email=u@example.org']
  return output_of('git', *identity, *arguments, cwd=folder).strip('\n')


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
    self._series: dict[str, dict] = {}
    self._bases: dict[str, dict] = {}
    self._readers: dict[str, Reader] = {WHEEL: self.read}
    self._official = zipfile.ZipFile(official_wheel)
    (root / 'patches').mkdir(parents=True)
    (root / 'README.md').write_text('# Project\n')
    (root / 'LICENSE').write_text('A licence.\n')

  def read(self, name: str) -> bytes | None:
    """Reads a file of the official wheel."""
    return (self._official.read(name)
            if name in self._official.namelist() else None)

  def base(self, name: str, sources: Path, commit: str, *picks: str) -> None:
    """Adds a base; tag base/<name> of the sources has what it is made of."""
    self._bases[name] = dict(
        name=name,
        commit=commit,
        **(dict(cherry_pick=[*picks]) if picks else {}))
    self._readers[name] = lambda path: git(
        sources, 'show', f'base/{name}:{path}').encode() + b'\n'

  def series(self, name: str, **values) -> dict:
    """Adds a series, or changes one."""
    entry = self._series.setdefault(
        name,
        dict(
            name=name,
            description='a series',
            bug='https://example.org/1',
            depends_on=[],
            wheel=[]))
    entry.update(values)
    # The texts and lists of texts in use look the same in TOML.
    text = ''.join(_table('[[base]]', base) for base in self._bases.values())
    text += ''.join(_table('[[series]]', s) for s in self._series.values())
    (self.root / 'patches' / 'series.toml').write_text(text)
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
    base = self.read(path) if base is None else base
    return self.wider_patch(series, subject, {path: edit}, [WHEEL],
                            {path: base})

  def wider_patch(self,
                  series: str,
                  subject: str,
                  edits: dict[str, Edit],
                  forms: Sequence[str],
                  bases: dict[str, bytes] | None = None) -> Path:
    """Adds a patch that edits some files, for some forms of a series.

    Args:
      series: may be new.
      subject: of the patch.
      edits: by file.
      forms: get the patch at the end of their lists: the wheel, or a base.
      bases: what is edited, by default as the first form's earlier patches make
        it.
    """
    scratch = self.root.parent / f'{self.root.name}-scratch-{slug(subject)}'
    shutil.rmtree(scratch, ignore_errors=True)
    bases = bases or {path: self.laid(series, forms[0], path) for path in edits}
    for path, base in bases.items():
      (scratch / path).parent.mkdir(parents=True, exist_ok=True)
      (scratch / path).write_bytes(base)
    git(scratch, 'init', '-q')
    git(scratch, 'add', '.')
    for path, edit in edits.items():
      edit_file(scratch / path, edit)
    diff = git(scratch, 'diff', '-U0', '--full-index')
    diff = re.sub(r'(?m)^(@@ .*? @@).*$', r'\1', diff)
    target = [
        f'torch_xla {pins.OFFICIAL_VERSION}' if form == WHEEL else form
        for form in forms
    ]
    head = _HEAD.format(subject=subject, applies_to=', '.join(target))
    folder = f'{WHEEL if forms == [WHEEL] else "upstream"}/{series}'
    name = f'{folder}/{slug(subject)}.patch'
    entry = self.series(series)
    for form in forms:
      key = WHEEL if form == WHEEL else 'upstream'
      entry = self.series(series, **{key: [*entry.get(key, []), name]})
      if form != WHEEL:
        self.series(series, base=form)
    return self.file(f'patches/{name}', f'{head}{diff}\n')

  def laid(self, series: str, form: str, path: str) -> bytes:
    """What a series, which may be new, with its dependencies makes of a file."""
    self.series(series)
    manifest = load_manifest(self.root)
    patches = [
        load_patch(self.root, name, form)
        for part in manifest.with_dependencies(series) if form in part.forms()
        for name in part.forms()[form]
    ]
    made = patched_files(self._readers[form], patches)
    return made[path] if path in made else self._readers[form](path)


def _table(head: str, values: dict) -> str:
  return f'{head}\n' + ''.join(f'{k} = {v!r}\n' for k, v in values.items())


def one_patch(project: Project) -> Path:
  """Gives the project a series `one` with one good patch."""
  return project.patch('one', 'config: add a line', CONFIG,
                       insert(2, '# ours 1'))


def problem(project: Project) -> str:
  """The problems that `check` finds; there have to be some."""
  problems = check(project.root, project.read)
  assert problems
  return '\n'.join(problems)


# A small upstream with sources, and the bases that are made of it.
MODULE = 'torch_xla/module.py'
NATIVE = 'torch_xla/csrc/native.cpp'
TESTS = 'test/test_module.py'
BASES = (TAG, f'{TAG}+feature', 'master')
_SOURCES = {
    '.style.yapf': '[style]\nbased_on_style = google\nindent_width = 2\n',
    '.clang-format': 'BasedOnStyle: Google\n',
    MODULE: ''.join(f'line_{at} = {at}\n' for at in range(30)),
    NATIVE: 'namespace torch_xla {\n\nint One() { return 1; }\n\n'
            '}  // namespace torch_xla\n',
    TESTS: 'import unittest\n\n\nclass ModuleTest(unittest.TestCase):\n\n'
           '  def test_nothing(self):\n    pass\n\n\n'
           "if __name__ == '__main__':\n  unittest.main()\n",
}
NEW_TEST = '\n  def test_ours(self):\n    self.assertTrue(1)'


def make_sources(folder: Path) -> Path:
  """A checkout of an upstream that goes on after its release.

  `feature` adds a line to the module, and master another one further on.
  """
  for name, text in _SOURCES.items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
  git(folder, 'init', '-q', '-b', 'master')
  git(folder, 'config', 'user.name', 'The User')
  git(folder, 'config', 'user.email', 'user@example.org')
  git(folder, 'add', '.')
  git(folder, 'commit', '-q', '-m', 'release')
  git(folder, 'tag', TAG)
  edit_file(folder / MODULE, insert(20, 'feature = 1'))
  git(folder, 'commit', '-q', '-am', 'feature')
  git(folder, 'tag', 'feature')
  edit_file(folder / MODULE, insert(0, 'moved_on = 1'))
  git(folder, 'commit', '-q', '-am', 'master')
  for name, commit in zip(BASES, (TAG, 'feature', 'master')):
    git(folder, 'tag', f'base/{name}', commit)
  return folder


def add_bases(project: Project, sources: Path) -> None:
  """Gives a project the bases that such a checkout has."""
  release, feature, master = (
      git(sources, 'rev-parse', f'{ref}^{{commit}}')
      for ref in (TAG, 'feature', 'master'))
  project.base(TAG, sources, release)
  project.base(f'{TAG}+feature', sources, release, feature)
  project.base('master', sources, master)
