"""Puts wheels together."""

from __future__ import annotations

from dataclasses import dataclass
import os
from pathlib import Path
import platform
import sys
from typing import Mapping, Sequence
import zipfile

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.wheel import archive, contents, metadata, official, pins, plugins
from infra.wheel.bom import write_bom
from infra.wheel.contents import Order, Origin, Piece
from infra.wheel.distribution import distribution_of
from infra.wheel.profile import Profile

_STEPS = 6


@dataclass(frozen=True)
class Made:
  """The files of a wheel.

  Attributes:
    pieces: those that are not upstream's as they are, but RECORD.
    members: all of them in order, RECORD last.
  """
  pieces: Mapping[str, Piece]
  members: list[archive.Member]


def running_python() -> str:
  """The version of this Python, as in '3.11'."""
  return f'{sys.version_info.major}.{sys.version_info.minor}'


def build_wheel(
    root: Path,
    dist_dir: Path,
    python: str | None = None,
    *,
    profile: Profile | None = None,
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
    profile: a vendor's, for a wheel of the vendor's own.
    cache: where official wheels are kept, by default under build/.
    pinned: sha256 of the official wheel for each Python.
    built_plugins: the plugins in C by where the wheel holds them, if they are
      built already.
    say: is told about progress, line by line.

  Raises:
    BuildError: a step failed; its text begins with the step.
  """
  steps = Steps(say)
  stamp = archive.timestamp(dict(os.environ))
  python = python or running_python()
  made = make_wheel(root.resolve(), python, profile, cache, pinned,
                    built_plugins, steps)
  target = dist_dir / distribution_of(profile).wheel_name(python)
  with steps.step(f'writing {target}'):
    archive.write_whole(target, made.members, stamp)
  return target


def make_wheel(root: Path, python: str, profile: Profile | None,
               cache: Path | None, pinned: Mapping[str, str],
               built_plugins: Mapping[str, bytes] | None, steps: Steps) -> Made:
  """Makes what a wheel holds; arguments and errors as `build_wheel`."""
  with steps.step('looking for what the build needs'):
    order = Order(root, profile, python, official.pinned_hash(python, pinned))
    own = contents.own(root)
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
      laid = contents.all_series(root, profile)
      below = contents.patched(upstream, laid, steps.note)

    with steps.step('building the plugins with Bazel'):
      built = built_plugins or plugins.build_plugins(root, bazel)

    with steps.step(f'laying {len(own) + len(built)} files on top, metadata'):
      pieces = contents.lay(upstream, below, own, contents.built(built),
                            contents.bundled(profile, upstream))
      rewritten = contents.metadata_files(root, upstream, order.wheel)
      requires = metadata.requirements(
          rewritten[f'{order.wheel.info}/METADATA'].data.decode())
      bom = write_bom(order, requires, laid, pieces)
      pieces |= rewritten | {
          order.wheel.bom: Piece(bom.encode(), Origin.METADATA)
      }
      return Made(pieces, _members(order, upstream, pieces))


def build_wheels(
    root: Path,
    dist_dir: Path,
    pythons: Sequence[str],
    *,
    profile: Profile | None = None,
    built_plugins: Mapping[str, bytes] | None = None,
    say: Say = lambda line: print(line, flush=True),
) -> list[Path]:
  """Builds the wheels for some Pythons; see `build_wheel`.

  The plugins in C are built once for all of them.
  """
  for python in pythons:
    official.pinned_hash(python, pins.OFFICIAL_SHA256)
  if len(pythons) > 1 and not built_plugins:
    say('building the plugins with Bazel')
    built_plugins = plugins.build_plugins(root.resolve(), plugins.find_bazel())
  return [
      build_wheel(
          root,
          dist_dir,
          python,
          profile=profile,
          built_plugins=built_plugins,
          say=say) for python in pythons
  ]


class Steps:
  """Numbers the steps, and puts the step's name before its failure."""

  def __init__(self, say: Say):
    self._say = say
    self._number = 0
    self._name = ''

  def step(self, name: str) -> Steps:
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


def _members(order: Order, upstream: zipfile.ZipFile,
             pieces: Mapping[str, Piece]) -> list[archive.Member]:
  """All members of the wheel in order, RECORD last."""
  info = order.wheel.info
  official_record = f'{contents.OFFICIAL_INFO}/RECORD'
  # The wheel's own hash was checked, so what its RECORD says is right.
  hashes = metadata.read_record(upstream.read(official_record).decode())
  members = [archive.pack(name, piece.data) for name, piece in pieces.items()]
  rows = [(name, metadata.hash_field(piece.data), len(piece.data))
          for name, piece in pieces.items()]
  for source, name in contents.carried(upstream, order.wheel, pieces).items():
    members.append(archive.carry(upstream, source, name))
    rows.append((name, hashes[source], upstream.getinfo(source).file_size))
  # Metadata stand at the end of a wheel, so that they can be replaced in place.
  members.sort(key=lambda m: (m.name.startswith(info), m.name))
  record = f'{info}/RECORD'
  text = metadata.write_record(rows, record)
  return members + [archive.pack(record, text.encode())]
