"""Makes a release: builds, verifies, tries and describes the wheels.

Everything is built from a work tree of the commit that is checked out, so that
no file of the checkout that is in no commit can get into a wheel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import os
from pathlib import Path
import shutil
import tempfile
import time

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.worktree import work_tree
from infra.release.notes import checksums, notes, section
from infra.release.smoke import FAILED
from infra.release.trial import Trial, try_wheel
from infra.wheel import pins, plugins
from infra.wheel.bom import read_bom
from infra.wheel.build import build_wheel
from infra.wheel.official import default_cache, sha256
from infra.wheel.pure_wheel import build_pure_wheel, PureWheel
from infra.wheel.tools import TOOLS

Try = Callable[[Path, str, Path], Trial]

_NOTES = 'NOTES.md'
_CHECKSUMS = 'SHA256SUMS'


@dataclasses.dataclass(frozen=True)
class Release:
  """A release.

  Attributes:
    version: of the wheels.
    commit: the commit that they were built from.
    folder: holds its files.
    files: their names.
    trials: the trial of each wheel.
  """
  version: str
  commit: str
  folder: Path
  files: tuple[str, ...]
  trials: tuple[Trial, ...]


def tag_of(version: str) -> str:
  """The git tag of a version."""
  return f'v{version}'


def make_release(
    root: Path,
    *,
    dist: Path | None = None,
    pythons: Sequence[str] = tuple(pins.OFFICIAL_SHA256),
    built_plugins: Mapping[str, bytes] | None = None,
    tools: Sequence[PureWheel] = TOOLS,
    say: Say,
    attempt: Try = try_wheel,
) -> Release:
  """Makes a release of the commit that is checked out, in build/release/.

  Args:
    root: the checkout.
    dist: gets the files; if None, they stay where they were made.
    pythons: to make wheels for.
    built_plugins: as `build_wheel` takes them.
    tools: the wheels beside them.
    say: is called with progress, line by line.
    attempt: tries a wheel.

  Raises:
    BuildError: the commit cannot be released, or a wheel is not right.
    OSError: a file cannot be written.
  """
  root = root.resolve()
  start = time.monotonic()

  def step(text: str) -> None:
    say(f'[{time.monotonic() - start:4.0f} s] {text}')

  folder = root / 'build' / 'release' / pins.VERSION
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)
  commit = git.need(root, 'rev-parse', 'HEAD')
  step(f'{pins.VERSION}, of commit {commit}')
  if git.need(root, 'status', '--porcelain'):
    say('         files that differ from the commit are not in the release')
  with work_tree(root) as tree:
    git.need(tree, 'checkout', '--quiet', '--detach', commit)
    changes = section((tree / 'CHANGELOG.md').read_text(encoding='utf-8'),
                      pins.VERSION)
    if dist:
      _check_releasable(root, commit, changes.released)
    step('building the plugins with Bazel')
    built_plugins = built_plugins or plugins.build_plugins(
        tree, plugins.find_bazel())

    def build(python: str, into: Path) -> Path:
      return build_wheel(
          tree,
          into,
          python,
          cache=default_cache(root),
          built_plugins=built_plugins,
          say=lambda line: None)

    wheels = {}
    for python in pythons:
      step(f'building the wheel for Python {python}')
      wheels[python] = build(python, folder)
      bom = folder / f'{wheels[python].name}.cdx.json'
      bom.write_bytes(read_bom(wheels[python]))
    for tool in tools:
      step(f'building {tool.wheel_name}')
      build_pure_wheel(tree, folder, tool)
    if dist:
      _check_target(dist, folder.iterdir())  # Early: the rest takes minutes.
    step(f'building the one for Python {pythons[0]} again')
    with tempfile.TemporaryDirectory(dir=folder.parent) as again:
      if sha256(build(pythons[0], Path(again))) != sha256(wheels[pythons[0]]):
        raise BuildError(
            f'{wheels[pythons[0]].name}: two builds gave different bytes, so '
            'nobody could verify it. Find the input that changes.')
    trials = []
    for python, wheel in wheels.items():
      step(f'trying the wheel for Python {python} '
           '(minutes, where pip has to fetch torch)')
      trials.append(attempt(root, python, wheel))
      say(f'         {trials[-1]}')
  step('writing checksums and notes')
  _describe(folder, commit, changes.text, trials)
  failed = [str(trial) for trial in trials if trial.outcome.verdict == FAILED]
  if failed:
    raise BuildError('\n'.join(['a wheel does not work:', *failed]))
  files = tuple(sorted(path.name for path in folder.iterdir()))
  if dist:
    step(f'copying {len(files)} files into {dist}')
    _copy([folder / name for name in files], dist)
  return Release(pins.VERSION, commit, dist or folder, files, tuple(trials))


def _check_releasable(root: Path, commit: str, is_dated: bool) -> None:
  if not is_dated:
    raise BuildError(
        f'CHANGELOG.md gives {pins.VERSION} no date: put it there, '
        'as in (2026-01-31), and commit it')
  tag = tag_of(pins.VERSION)
  tagged = git.run(root, 'rev-parse', '--verify', '--quiet',
                   f'{tag}^{{commit}}')
  if tagged.returncode == 0 and tagged.stdout.strip() != commit:
    raise BuildError(f'tag {tag} names another commit, {tagged.stdout.strip()}:'
                     ' raise VERSION in infra/wheel/pins.py')


def _check_target(dist: Path, files: Iterable[Path]) -> None:
  """Raises BuildError if a wheel would replace another of the same version."""
  if os.path.lexists(dist) and not dist.is_dir():
    raise BuildError(f'{dist} is no folder: move it away')
  for file in files:
    target = dist / file.name
    if os.path.lexists(target) and not target.is_file():
      raise BuildError(f'{target} is no file: move it away')
    if file.suffix == '.whl' and target.exists() and (sha256(target)
                                                      != sha256(file)):
      raise BuildError(
          f'{target} is another wheel of the same version: remove it if it was '
          'never given to anybody, or else raise VERSION in '
          'infra/wheel/pins.py')


def _copy(files: Sequence[Path], dist: Path) -> None:
  """Copies files to `dist`; renames them only once all are there."""
  _check_target(dist, files)
  dist.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(prefix='.release-', dir=dist) as part:
    for file in files:
      shutil.copyfile(file, Path(part) / file.name)
    for file in files:
      os.replace(Path(part) / file.name, dist / file.name)


def _describe(folder: Path, commit: str, changes: str,
              trials: Sequence[Trial]) -> None:
  """Writes the notes on the files in a folder, and the checksums of all."""
  digests = {path.name: sha256(path) for path in folder.iterdir()}
  (folder / _NOTES).write_text(
      notes(pins.VERSION, commit, changes, digests, trials), encoding='utf-8')
  digests[_NOTES] = sha256(folder / _NOTES)
  (folder / _CHECKSUMS).write_text(checksums(digests), encoding='utf-8')
