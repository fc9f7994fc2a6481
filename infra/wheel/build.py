"""Puts the fork's wheel together."""

import os
from pathlib import Path
import platform
import sys
from typing import Callable, Mapping
import zipfile

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.apply import patched_files
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import wheel_patches
from infra.wheel import archive
from infra.wheel import metadata
from infra.wheel import official
from infra.wheel import overlay
from infra.wheel import pins
from infra.wheel import plugins

Say = Callable[[str], None]

_STEPS = 6
_OFFICIAL_INFO = f'{pins.PACKAGE}-{pins.OFFICIAL_VERSION}.dist-info'
_INFO = f'{pins.PACKAGE}-{pins.VERSION}.dist-info'
_VERSION_FILE = 'torch_xla/version.py'


def running_python() -> str:
  """The version of this Python, as in '3.11'."""
  return f'{sys.version_info.major}.{sys.version_info.minor}'


def build_wheel(
    root: Path,
    dist_dir: Path,
    python: str | None = None,
    *,
    cache: Path | None = None,
    pinned: Mapping[str, str] = pins.OFFICIAL_SHA256,
    built_plugins: Mapping[str, bytes] | None = None,
    say: Say = lambda line: print(line, flush=True),
) -> Path:
  """Builds the wheel of the checkout at `root` into `dist_dir`.

  Args:
    root: the checkout.
    dist_dir: gets the wheel, whole or not at all.
    python: the Python to build for, by default the running one.
    cache: where official wheels are kept, by default under build/.
    pinned: sha256 of the official wheel for each Python.
    built_plugins: the plugins in C by where the wheel holds them, if they are
      built already.
    say: is told about progress, line by line.

  Raises:
    BuildError: a step failed; its text begins with the step.
  """
  python = python or running_python()
  root = root.resolve()
  steps = _Steps(say)

  with steps.step('looking for what the build needs'):
    official.pinned_hash(python, pinned)
    own = _read_own(root)
    git.find_git()
    bazel = '' if built_plugins else plugins.find_bazel()
    _check_machine()

  with steps.step(f'official wheel {pins.OFFICIAL_VERSION}, Python {python}'):
    wheel = official.official_wheel(python, cache or
                                    official.default_cache(root), steps.note,
                                    pinned)
    upstream = official.open_wheel(wheel)

  with upstream:
    with steps.step('applying the patches'):
      changed = _apply_series(root, upstream, steps)

    with steps.step('building the plugins with Bazel'):
      own |= built_plugins or plugins.build_plugins(root, bazel)

    with steps.step(f'laying {len(own)} files on top, metadata'):
      overlay.check_clashes(own, upstream.namelist())
      changed |= own
      changed |= _metadata(root, upstream)
      members = _members(upstream, changed)

    target = dist_dir / pins.wheel_name(pins.VERSION, python)
    with steps.step(f'writing {target}'):
      archive.write_whole(target, members, archive.timestamp(dict(os.environ)))
  return target


class _Steps:
  """Numbers the steps, and puts the step's name before its failure."""

  def __init__(self, say: Say):
    self._say = say
    self._number = 0
    self._name = ''

  def step(self, name: str) -> '_Steps':
    self._number += 1
    self._name = name
    self.note(name)
    return self

  def note(self, text: str) -> None:
    self._say(f'[{self._number}/{_STEPS}] {text}')

  def __enter__(self) -> None:
    pass

  def __exit__(self, kind, error, trace) -> None:
    if isinstance(error, (BuildError, OSError)):
      raise BuildError(f'{self._name}: {error}') from error


def _check_machine() -> None:
  """Raises BuildError where what we build would not fit the wheel."""
  here = f'{platform.system()} {platform.machine()}'
  if here != 'Linux x86_64':
    raise BuildError(f'the wheel is for Linux x86_64 and this is {here}: '
                     'build it there')


def _read_own(root: Path) -> dict[str, bytes]:
  """The checkout's files for the wheel; also finds that LICENSE etc. exist."""
  for name in ('README.md', 'LICENSE'):
    if not (root / name).is_file():
      raise BuildError(f'{name} is missing from the checkout {root}')
  names = overlay.wheel_files(root)
  return {name: (root / name).read_bytes() for name in names}


def _apply_series(root: Path, upstream: zipfile.ZipFile,
                  steps: _Steps) -> dict[str, bytes]:
  """The official files that the series change, changed."""
  patches = []
  for series in load_manifest(root).series:
    steps.note(f'applying series {series.name}')
    patches += wheel_patches(root, series)
  names = set(upstream.namelist())
  return patched_files(
      lambda name: upstream.read(name) if name in names else None, patches)


def _metadata(root: Path, upstream: zipfile.ZipFile) -> dict[str, bytes]:
  """The metadata files that differ from upstream's, without RECORD."""

  def read(name: str) -> str:
    return upstream.read(name).decode()

  readme = (root / 'README.md').read_text(encoding='utf-8')
  rewritten = {
      f'{_INFO}/METADATA':
          metadata.rewrite_metadata(read(f'{_OFFICIAL_INFO}/METADATA'), readme),
      f'{_INFO}/WHEEL':
          metadata.rewrite_wheel(read(f'{_OFFICIAL_INFO}/WHEEL')),
      _VERSION_FILE:
          metadata.rewrite_version(read(_VERSION_FILE)),
      f'{_INFO}/licenses/{metadata.LICENSE_NAME}':
          (root / 'LICENSE').read_text(encoding='utf-8'),
  }
  return {name: text.encode() for name, text in rewritten.items()}


def _members(upstream: zipfile.ZipFile,
             changed: dict[str, bytes]) -> list[archive.Member]:
  """All members of the wheel in order, RECORD last."""
  official_record = f'{_OFFICIAL_INFO}/RECORD'
  # The wheel's own hash was checked, so what its RECORD says is right.
  hashes = metadata.read_record(upstream.read(official_record).decode())
  members = [archive.pack(name, data) for name, data in changed.items()]
  rows = [(name, metadata.hash_field(data), len(data))
          for name, data in changed.items()]
  for info in upstream.infolist():
    source = info.filename
    name = source.replace(f'{_OFFICIAL_INFO}/', f'{_INFO}/')
    if name in changed or source == official_record or info.is_dir():
      continue
    members.append(archive.carry(upstream, source, name))
    rows.append((name, hashes[source], info.file_size))
  # Metadata stand at the end of a wheel, so that they can be replaced in place.
  members.sort(key=lambda m: (m.name.startswith(_INFO), m.name))
  record = f'{_INFO}/RECORD'
  text = metadata.write_record(rows, record)
  return members + [archive.pack(record, text.encode())]
