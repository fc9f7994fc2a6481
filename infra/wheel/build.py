"""Puts wheels together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import contextlib
import os
from pathlib import Path
import platform
from typing import Any
import zipfile

from infra.errors import BuildError, Say, within
from infra.patchset import git
from infra.wheel import (archive, contents, metadata, official, overlay, pins,
                         plugins)
from infra.wheel.bom import write_bom
from infra.wheel.bundle import bundled_files
from infra.wheel.contents import Origin, Piece, pieces_of
from infra.wheel.official import running_python
from infra.wheel.profile import FORK, Profile

_STEPS = 6


def build_wheel(root: Path,
                dist_dir: Path,
                python: str | None = None,
                *,
                profile: Profile = FORK,
                say: Say = lambda line: print(line, flush=True),
                **options: Any) -> Path:
  """Builds the wheel of the checkout at `root` into `dist_dir`.

  Args:
    root: the checkout.
    dist_dir: gets the wheel, whole or not at all.
    python: the Python to build for, by default the running one.
    profile: a vendor's, for a wheel of the vendor's own.
    say: is told about progress, line by line.
    options: further ones of `make_wheel`.

  Raises:
    BuildError: a step failed; its text begins with the step.
  """
  steps = Steps(say)
  stamp = archive.timestamp(dict(os.environ))
  python = python or running_python()
  _, members = make_wheel(root.resolve(), python, profile, steps, **options)
  target = dist_dir / profile.wheel_name(python)
  with steps.step(f'writing {target}'):
    archive.write_whole(target, members, stamp)
  return target


def make_wheel(
    root: Path,
    python: str,
    profile: Profile,
    steps: Steps,
    *,
    cache: Path | None = None,
    pinned: Mapping[str, str] = pins.OFFICIAL_SHA256,
    built_plugins: Mapping[str, bytes] | None = None
) -> tuple[dict[str, Piece], list[archive.Member]]:
  """Makes what a wheel holds; other arguments and errors as `build_wheel`.

  Args:
    cache: where official wheels are kept, by default under build/.
    pinned: sha256 of the official wheel for each Python.
    built_plugins: the plugins in C by where the wheel holds them, if they were
      built from this checkout already; by default Bazel builds them.

  Returns:
    The files that are not upstream's as they are, but RECORD; and all files in
    order, RECORD last.
  """
  with steps.step('looking for what the build needs'):
    sha256 = official.pinned_hash(python, pinned)
    own = {n: (root / n).read_bytes() for n in overlay.wheel_files(root)}
    git.find_git()
    bazel = '' if built_plugins else plugins.find_bazel()
    here = f'{platform.system()} {platform.machine()}'
    if here != 'Linux x86_64':
      raise BuildError(f'the wheel is for Linux x86_64 and this is {here}: '
                       'build it there')

  with steps.step(f'official wheel {pins.OFFICIAL_VERSION}, Python {python}'):
    upstream = official.open_wheel(
        official.official_wheel(python, cache or official.default_cache(root),
                                steps.note, pinned))

  with upstream:
    with steps.step('applying the patches'):
      laid = contents.all_series(root, profile)
      below = contents.patched(upstream, laid, steps.note)

    with steps.step('building the plugins with Bazel'):
      built = built_plugins or plugins.build_plugins(root, bazel)

    with steps.step(f'laying {len(own) + len(built)} files on top, metadata'):
      pieces = contents.lay(
          upstream, below, pieces_of(own, Origin.OURS),
          pieces_of(built, Origin.BUILT),
          pieces_of(bundled_files(profile, upstream.namelist()), Origin.VENDOR))
      texts = metadata.rewrite(lambda name: upstream.read(name).decode(), root,
                               profile)
      texts[profile.bom] = write_bom(
          root, profile, python, sha256,
          metadata.requirements(texts[f'{profile.info}/METADATA']), laid,
          pieces)
      pieces |= {
          name: Piece(text.encode(), Origin.METADATA)
          for name, text in texts.items()
      }
      return pieces, _members(profile.info, upstream, pieces)


class Steps:
  """Numbers the steps, and puts the step's name before its failure."""

  def __init__(self, say: Say):
    self._say = say
    self._number = 0

  @contextlib.contextmanager
  def step(self, name: str) -> Iterator[None]:
    self._number += 1
    self.note(name)
    with within(name):
      yield

  def note(self, text: str) -> None:
    self._say(f'[{self._number}/{_STEPS}] {text}')


def _members(info: str, upstream: zipfile.ZipFile,
             pieces: Mapping[str, Piece]) -> list[archive.Member]:
  """All members of the wheel in order, RECORD last."""
  theirs = f'{metadata.OFFICIAL_INFO}/'
  # The wheel's own hash was checked, so what its RECORD says is right.
  hashes = metadata.read_record(upstream.read(f'{theirs}RECORD').decode())
  members = [archive.pack(name, piece.data) for name, piece in pieces.items()]
  rows = [(name, metadata.hash_field(piece.data), len(piece.data))
          for name, piece in pieces.items()]
  for entry in upstream.infolist():
    source = entry.filename
    name = source.replace(theirs, f'{info}/')
    if (not entry.is_dir() and source != f'{theirs}RECORD' and
        name not in pieces):
      members.append(archive.carry(upstream, source, name))
      rows.append((name, hashes[source], entry.file_size))
  # Metadata stand at the end of a wheel, so that they can be replaced in place.
  members.sort(key=lambda m: (m.name.startswith(info), m.name))
  record = f'{info}/RECORD'
  text = metadata.write_record(rows, record)
  return members + [archive.pack(record, text.encode())]
