"""Verifies a wheel: it is made again, and has to be the same byte for byte.

What it should hold is made from the official wheel by its pinned sha256, the
patches, the checkout, the plugins as Bazel builds them here and, for a vendor's
wheel, the profile. Where the archives differ, their files are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
import struct
import tempfile
from typing import Any
import zipfile
import zlib

from infra.errors import BuildError, Say
from infra.wheel import archive, official, pins
from infra.wheel.build import make_wheel, Steps
from infra.wheel.contents import Origin
from infra.wheel.profile import FORK, Profile
from infra.wheel.pure_wheel import contents_of, PureWheel

# Exceptions for damaged, encrypted and exotic members.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError,
               RuntimeError, ValueError, OverflowError, MemoryError, IndexError)
# Where a file is from, and the patches that make it.
_Sources = Mapping[str, tuple[Origin, tuple[str, ...]]]
_UPSTREAMS = Origin.UPSTREAM, ()


@dataclass(frozen=True)
class Verdict:
  """The verdict on every file of a wheel.

  Attributes:
    members: by name, where a file that is what it should be is from, and the
      patches that made it from upstream's, as 'series: file'.
    problems: by name, why a file is not what it should be.
  """
  members: _Sources
  problems: Mapping[str, str]

  def __str__(self) -> str:
    """Counts of files by origin, the patches of each, and problems."""
    lines = []
    for origin, count in Counter(o for o, _ in self.members.values()).items():
      lines.append(f'{count:6} {origin.value}')
      for name, (where, by) in self.members.items():
        if where is origin and by:
          lines += [f'         {name}', *(f'           {b}' for b in by)]
    lines += [f'error: {name}: {text}' for name, text in self.problems.items()]
    # A hostile wheel's names must not steer the terminal.
    lines = [
        ''.join(c if c.isprintable() else c.encode('unicode_escape').decode()
                for c in line)
        for line in lines
    ]
    lines.append(f'{len(self.problems)} problem(s): do not install it' if self.
                 problems else f'verified: all {len(self.members)} files are '
                 'what they should be')
    return '\n'.join(lines)


def verify_wheel(root: Path,
                 wheel: Path,
                 *,
                 profile: Profile = FORK,
                 pinned: Mapping[str, str] = pins.OFFICIAL_SHA256,
                 say: Say = lambda line: None,
                 **options: Any) -> Verdict:
  """Compares a wheel with what it should be.

  Args:
    root: the checkout that the wheel was built from.
    wheel: the file.
    profile: what it was built from.
    pinned: sha256 of the official wheel for each Python.
    say: is told about progress, line by line.
    options: further ones of `make_wheel`.

  Raises:
    BuildError: nothing can be judged: the file is no wheel of this project or
      profile, or something to compare it with is missing.
  """
  python = _python_of(wheel, profile, pinned)
  pieces, members = make_wheel(
      root.resolve(), python, profile, Steps(say), pinned=pinned, **options)
  sources = {name: (p.origin, p.by) for name, p in pieces.items()}
  sources[members[-1].name] = Origin.METADATA, ()
  return _compare(wheel, members, sources)


def verify_pure_wheel(root: Path, wheel: Path, tool: PureWheel) -> Verdict:
  """Compares a wheel of Python alone with what it should be.

  Args:
    root: the checkout that the wheel was built from.
    wheel: the file.
    tool: what it is a wheel of.

  Raises:
    BuildError: the file is no archive, or a source of the wheel is missing.
  """
  members = [archive.pack(*file) for file in contents_of(root, tool).items()]
  return _compare(
      wheel, members, {
          m.name: (Origin.METADATA if m.name.startswith(f'{tool.info}/') else
                   Origin.OURS, ()) for m in members
      })


def _compare(wheel: Path, members: Sequence[archive.Member],
             sources: _Sources) -> Verdict:
  """Compares an archive with the members that it should have."""
  problems = {}
  with official.open_wheel(
      wheel) as file, tempfile.NamedTemporaryFile() as copy:
    stamps = [info.date_time for info in file.infolist()]
    archive.write(copy, members, stamps[0] if stamps else archive.EPOCH)
    copy.flush()
    if official.sha256(Path(copy.name)) != official.sha256(wheel):
      with zipfile.ZipFile(copy) as right:
        problems = dict(_differences(file, right, sources)) or {
            '(archive)': 'is not what the builder writes of its files: two '
                         'readers could see two wheels, or another zlib packed '
                         'it'
        }
  return Verdict(
      {
          name: sources.get(name, _UPSTREAMS)
          for name in sorted({m.name for m in members} - {*problems})
      }, problems)


def _differences(file: zipfile.ZipFile, right: zipfile.ZipFile,
                 sources: _Sources) -> Iterator[tuple[str, str]]:
  """The files in which an archive is another than the right one."""
  names = file.namelist()
  for name in right.namelist():
    origin, by = sources.get(name, _UPSTREAMS)
    whose = origin.value + (f' by {", ".join(by)}' if by else '')
    if name not in names:
      yield name, f'is missing: it is {whose}'
      continue
    try:
      actual = file.read(name)
    except _UNREADABLE as error:
      yield name, f'cannot be read: {error}'
      continue
    if actual != right.read(name):
      yield (name, f'is not {whose}. Verify it in the checkout that it was '
             'built from, with the compiler and the zlib of then')
  for name in sorted({*names} - {*right.namelist()}):
    yield (name, "is neither upstream's, nor this project's, nor named by the "
           'profile: it does not belong into the wheel')


def _python_of(wheel: Path, profile: Profile, pinned: Mapping[str, str]) -> str:
  """The Python that a wheel is for, by its name, which is judged."""
  if not wheel.is_file():
    raise BuildError(f'{wheel} is no file: name a wheel')
  for python in pinned:
    if wheel.name == profile.wheel_name(python):
      return python
  whose = "this checkout's wheel"
  remedy = 'name its profile with --profile if it was built from one'
  if profile.path:
    whose = f'a wheel of {profile.path.name}'
    remedy = 'name the profile that it was built from'
  name = profile.wheel_name('X.Y').replace(pins.python_tag('X.Y'), 'cpXY')
  raise BuildError(f'{wheel.name} is not the name of {whose}, which is {name}: '
                   f'{remedy}, and verify it under the name that it was given')
