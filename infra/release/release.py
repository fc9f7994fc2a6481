"""Makes a release: builds, verifies, tries and describes the wheels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from pathlib import Path
import shutil
import tempfile
import time

from infra.errors import BuildError, Say
from infra.release import checks
from infra.release.notes import checksums, notes, section
from infra.release.place import place
from infra.release.smoke import FAILED
from infra.release.trial import Trial, try_wheel
from infra.wheel import pins, plugins
from infra.wheel.bom import read_bom
from infra.wheel.build import build_wheel
from infra.wheel.official import sha256
from infra.wheel.pure_wheel import build_pure_wheel, PureWheel
from infra.wheel.tools import TOOLS
from infra.wheel.verdict import Verdict
from infra.wheel.verify import verify_pure_wheel, verify_wheel

Try = Callable[[Path, str, Path], Trial]

_NOTES = 'NOTES.md'
_CHECKSUMS = 'SHA256SUMS'


@dataclasses.dataclass(frozen=True)
class Release:
  """A release that was made.

  Attributes:
    version: of the wheels.
    commit: what they were built from.
    folder: holds its files.
    files: their names.
    trials: what each wheel was tried on.
  """
  version: str
  commit: str
  folder: Path
  files: tuple[str, ...]
  trials: tuple[Trial, ...]


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
  """Makes a release of the checkout at `root` in build/release/.

  Args:
    root: the checkout.
    dist: gets the files, all or none; if None, they stay where they were made
      and the checkout may have changes.
    pythons: to make wheels for.
    built_plugins: as `build_wheel` takes them.
    tools: the wheels beside them.
    say: is told about progress, line by line.
    attempt: tries a wheel.

  Raises:
    BuildError: something stands in the way, or a wheel is not right.
    OSError: a file cannot be written.
    PartlyPlacedError: only some files could be written to `dist`.
  """
  root = root.resolve()
  progress = _Progress(say)
  folder = root / 'build' / 'release' / pins.VERSION
  progress.step(f'looking at the checkout, {pins.VERSION}')
  changelog = (root / 'CHANGELOG.md').read_text(encoding='utf-8')
  changes = section(changelog, pins.VERSION)
  if dist:
    checks.check_checkout(root, pins.VERSION, changes)
  commit = checks.commit_of(root)
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)

  progress.step('building the plugins with Bazel')
  built_plugins = built_plugins or plugins.build_plugins(
      root, plugins.find_bazel())
  wheels = {}
  for python in pythons:
    progress.step(f'building the wheel for Python {python}')
    wheels[python] = build_wheel(
        root, folder, python, built_plugins=built_plugins, say=_silent)
  for tool in tools:
    progress.step(f'building {tool.wheel_name}')
    build_pure_wheel(root, folder, tool)
  if dist:
    # Early: the rest takes minutes.
    names = (_NOTES, _CHECKSUMS, *map(_bom_name, wheels.values()))
    checks.check_target(
        dist, (*wheels.values(), *(folder / tool.wheel_name for tool in tools),
               *(folder / name for name in names)))
  progress.step(f'building the one for Python {pythons[0]} again')
  _check_again(root, pythons[0], wheels[pythons[0]], built_plugins)
  for python, wheel in wheels.items():
    progress.step(f'verifying the wheel for Python {python}')
    _check(verify_wheel(root, wheel, built_plugins=built_plugins))
    (folder / _bom_name(wheel)).write_bytes(read_bom(wheel))
  for tool in tools:
    progress.step(f'verifying {tool.wheel_name}')
    _check(verify_pure_wheel(root, folder / tool.wheel_name, tool))
  if dist:
    # The wheels are what the checkout makes: it still has to be the commit.
    checks.check_same(root, pins.VERSION, changes, commit)

  trials = []
  for python, wheel in wheels.items():
    progress.step(f'trying the wheel for Python {python} '
                  '(minutes, where pip has to fetch torch)')
    trials.append(attempt(root, python, wheel))
    progress.note(str(trials[-1]))
  progress.step('writing checksums and notes')
  _describe(folder, commit, changes.text, trials)
  failed = [str(trial) for trial in trials if trial.outcome.verdict == FAILED]
  if failed:
    raise BuildError('\n'.join(['a wheel does not work:', *failed]))

  files = tuple(sorted(path.name for path in folder.iterdir()))
  if dist:
    progress.step(f'copying {len(files)} files into {dist}')
    # Once more: somebody may have worked there meanwhile.
    checks.check_same(root, pins.VERSION, changes, commit)
    checks.check_target(dist, (folder / name for name in files))
    place(folder, dist, files)
  return Release(pins.VERSION, commit, dist or folder, files, tuple(trials))


def _bom_name(wheel: Path) -> str:
  """What the bill of materials of a wheel is called beside it."""
  return f'{wheel.name}.cdx.json'


def _check_again(root: Path, python: str, wheel: Path,
                 built_plugins: Mapping[str, bytes]) -> None:
  """Builds a wheel once more: the same inputs have to give the same bytes."""
  with tempfile.TemporaryDirectory(dir=wheel.parent.parent) as again:
    other = build_wheel(
        root, Path(again), python, built_plugins=built_plugins, say=_silent)
    if sha256(other) != sha256(wheel):
      raise BuildError(f'{wheel.name}: two builds gave different bytes, so '
                       'nobody could verify it. Find the input that changes.')


def _check(verdict: Verdict) -> None:
  """Checks that each file of a wheel is what it should be."""
  if not verdict.ok:
    problems = '\n'.join(f'{p.name}: {p.text}' for p in verdict.problems)
    raise BuildError(f'{verdict.wheel} is not what it should be:\n{problems}\n'
                     'Did files change while it was built?')


def _describe(folder: Path, commit: str, changes: str,
              trials: Sequence[Trial]) -> None:
  """Writes the notes on the files in a folder, and the checksums of all."""
  digests = {path.name: sha256(path) for path in folder.iterdir()}
  (folder / _NOTES).write_text(
      notes(pins.VERSION, commit, changes, digests, trials), encoding='utf-8')
  digests[_NOTES] = sha256(folder / _NOTES)
  (folder / _CHECKSUMS).write_text(checksums(digests), encoding='utf-8')


def _silent(line: str) -> None:
  del line


class _Progress:
  """Says what is done, and when since the start."""

  def __init__(self, say: Say):
    self._say = say
    self._start = time.monotonic()

  def step(self, text: str) -> None:
    self._say(f'[{time.monotonic() - self._start:4.0f} s] {text}')

  def note(self, text: str) -> None:
    self._say(f'         {text}')
