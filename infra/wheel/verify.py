"""Verifies a wheel: every file is upstream's, patched by name, or ours.

Nothing that the wheel says of itself is believed. What it should hold is made
again: from the official wheel by its pinned sha256, the patches, the checkout,
the plugins as Bazel builds them here and, for a vendor's wheel, the profile.
Only which versions of tools wrote it is taken from its bill of materials; they
have no part in any other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
import struct
import tempfile
import zipfile
import zlib

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.wheel import archive, contents, metadata, official, pins, plugins
from infra.wheel.assembly import assemble, compiler_of, digest, Order
from infra.wheel.bom import Tools, tools_in
from infra.wheel.contents import Origin, Piece
from infra.wheel.distribution import distribution_of
from infra.wheel.profile import Profile
from infra.wheel.pure_wheel import contents_of, PureWheel
from infra.wheel.verdict import Problem, Verdict, Verified

# Exceptions for damaged, encrypted and exotic members.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError,
               RuntimeError, ValueError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Expected:
  """The expected content of a file of a wheel.

  Attributes:
    sha256: of its content, in hex; None where that follows from the others.
    by: the patches that make it from upstream's.
  """
  origin: Origin
  sha256: str | None
  by: tuple[str, ...] = ()


def verify_wheel(
    root: Path,
    wheel: Path,
    *,
    profile: Profile | None = None,
    cache: Path | None = None,
    pinned: Mapping[str, str] = pins.OFFICIAL_SHA256,
    built_plugins: Mapping[str, bytes] | None = None,
    say: Say = lambda line: None,
) -> Verdict:
  """Compares each file of a wheel with what it should be.

  Args:
    root: the checkout that the wheel was built from.
    wheel: the file.
    profile: the vendor's, for a wheel that was built from one.
    cache: where official wheels are kept, by default under build/.
    pinned: sha256 of the official wheel for each Python.
    built_plugins: the plugins in C by where the wheel holds them, if they were
      built from this checkout already; by default Bazel builds them.
    say: is told about progress, line by line.

  Raises:
    BuildError: nothing can be judged: the file is no wheel of this project or
      profile, or something to compare it with is missing.
  """
  root = root.resolve()
  python = _python_of(wheel, profile, pinned)
  order = Order(root, profile, python, official.pinned_hash(python, pinned))
  git.find_git()
  say(f'the official wheel {pins.OFFICIAL_VERSION} for Python {python}')
  upstream = official.open_wheel(
      official.official_wheel(python, cache or official.default_cache(root),
                              say, pinned))
  if not built_plugins:
    say('building the plugins with Bazel')
    built_plugins = plugins.build_plugins(root, plugins.find_bazel())
  with upstream, official.open_wheel(wheel) as file:
    problems: list[Problem] = []
    tools = _tools(file, order.wheel.bom, problems)
    say('making again what the wheel should hold')
    laid = contents.all_series(root, profile)
    below = contents.patched(upstream, laid, lambda line: None)
    pieces = assemble(order, upstream, laid, below, contents.own(root),
                      built_plugins, tools)
    expected = _expected(order, upstream, pieces)
    say('reading its files')
    digests = _members(wheel, file, problems)
    problems += compare(expected, digests,
                        lambda name: _reason(name, file, upstream, pieces))
    record = f'{order.wheel.info}/RECORD'
    problems += _record_problems(file, record, digests)
  return _verdict(wheel, expected, digests, problems)


def verify_pure_wheel(root: Path, wheel: Path, tool: PureWheel) -> Verdict:
  """Compares each file of a wheel of Python alone with what it should be.

  Args:
    root: the checkout that the wheel was built from.
    wheel: the file.
    tool: what it is a wheel of.

  Raises:
    BuildError: the file is no archive, or a source of the wheel is missing.
  """
  expected = {
      name:
          Expected(
              Origin.METADATA if name.startswith(f'{tool.info}/') else
              Origin.OURS, digest(data))
      for name, data in contents_of(root, tool).items()
  }
  with official.open_wheel(wheel) as file:
    problems: list[Problem] = []
    digests = _members(wheel, file, problems)
    problems += compare(
        expected, digests,
        lambda name: '. Verify it in the checkout that it was built from')
  return _verdict(wheel, expected, digests, problems)


def _verdict(wheel: Path, expected: Mapping[str, Expected],
             digests: Mapping[str, str | None],
             problems: Sequence[Problem]) -> Verdict:
  wrong = {problem.name for problem in problems}
  return Verdict(
      wheel.name,
      tuple(
          Verified(name, expected[name].origin.value, expected[name].by, sha256)
          for name, sha256 in sorted(digests.items())
          if sha256 and name not in wrong), tuple(problems))


def _python_of(wheel: Path, profile: Profile | None,
               pinned: Mapping[str, str]) -> str:
  """The Python that a wheel is for, by its name, which is judged."""
  if not wheel.is_file():
    raise BuildError(f'{wheel} is no file: name a wheel')
  expected = distribution_of(profile)
  for python in pinned:
    if wheel.name == expected.wheel_name(python):
      return python
  want = f'a wheel of {profile.path.name}' if profile else (
      "this checkout's wheel")
  remedy = ('name its profile with --profile if it was built from one'
            if profile is None else 'name the profile that it was built from')
  name = expected.wheel_name('X.Y').replace(pins.python_tag('X.Y'), 'cpXY')
  raise BuildError(f'{wheel.name} is not the name of {want}, which is {name}: '
                   f'{remedy}, and verify it under the name that it was given')


def _tools(file: zipfile.ZipFile, bom: str, problems: list[Problem]) -> Tools:
  """The tools that a wheel tells of, and a problem if it tells of none."""
  try:
    return tools_in(file.read(bom))
  except KeyError:
    pass  # That it is missing is found with all that is missing.
  except BuildError as error:
    problems.append(Problem(bom, str(error)))
  except _UNREADABLE:
    pass  # That it cannot be read is found with all that cannot be.
  return Tools.here()


def _expected(order: Order, upstream: zipfile.ZipFile,
              pieces: Mapping[str, Piece]) -> dict[str, Expected]:
  """The files that a wheel should hold, less RECORD."""
  record = upstream.read(f'{contents.OFFICIAL_INFO}/RECORD').decode()
  # The official wheel's own hash was checked, so what its RECORD says is right.
  hashes = metadata.read_record(record)
  carried = contents.carried(upstream, order.wheel, pieces)
  expected = {}
  for source, name in carried.items():
    expected[name] = Expected(Origin.UPSTREAM, metadata.hash_in(hashes[source]))
  for name, piece in pieces.items():
    expected[name] = Expected(piece.origin, digest(piece.data), piece.by)
  expected[f'{order.wheel.info}/RECORD'] = Expected(Origin.METADATA, None)
  return expected


def compare(expected: Mapping[str, Expected], digests: Mapping[str, str | None],
            reason: Callable[[str], str]) -> Iterator[Problem]:
  """Compares a wheel's files with those that it should hold.

  Args:
    expected: by name.
    digests: the sha256 of each file, in hex; None if it cannot be read.
    reason: says more of a file that is not as expected.
  """
  for name, actual in digests.items():
    wanted = expected.get(name)
    if wanted is None:
      yield Problem(
          name, "is neither upstream's, nor this project's, nor named "
          'by the profile: it does not belong into the wheel')
    elif actual and wanted.sha256 not in (None, actual):
      yield Problem(
          name, f'is not {_whose(wanted)}: sha256 {actual}, and it '
          f'should be {wanted.sha256}{reason(name)}')
  for name, wanted in expected.items():
    if name not in digests:
      yield Problem(name, f'is missing: it is {_whose(wanted)}')


def _whose(wanted: Expected) -> str:
  by = f' by {", ".join(wanted.by)}' if wanted.by else ''
  return f'{wanted.origin.value}{by}'


def _reason(name: str, file: zipfile.ZipFile, upstream: zipfile.ZipFile,
            pieces: Mapping[str, Piece]) -> str:
  """The reason why a file is not as it should be."""
  piece = pieces.get(name)
  if piece is None:
    return ''
  actual = file.read(name)
  if piece.origin is Origin.PATCHED and actual == upstream.read(name):
    return "; it is upstream's without these patches"
  if piece.origin is Origin.BUILT:
    there, here = compiler_of(actual), compiler_of(piece.data)
    if there != here:
      return (f'. It was compiled by {there}, and here by {here}: verify it '
              'where that compiler is')
    return (', which Bazel makes of this checkout with the same compiler, '
            f'{here}')
  if piece.origin in (Origin.OURS, Origin.METADATA):
    return '. Verify it in the checkout that it was built from'
  return ''


def _members(path: Path, file: zipfile.ZipFile,
             problems: list[Problem]) -> dict[str, str | None]:
  """The sha256 of each file of an archive, in hex, by its name.

  It is None for a file that cannot be read, which is added to `problems`, as is
  an archive that is not what the builder writes of these files: there a reader
  could see other files than another.
  """
  digests: dict[str, str | None] = {}
  for name in file.namelist():
    if name in digests:
      problems.append(Problem(name, 'stands in the archive twice'))
    try:
      digests[name] = digest(_content(file, name))
    except _UNREADABLE as error:
      problems.append(Problem(name, f'cannot be read: {error}'))
      digests[name] = None
  if not problems and not _is_whole(path, file):
    problems.append(
        Problem(
            '(archive)', 'is not what the builder writes of its files: two '
            'readers could see two wheels'))
  return digests


def _content(file: zipfile.ZipFile, name: str) -> bytes:
  """The content of a file of an archive, to the last of its packed bytes.

  zipfile ends where the directory says, other readers where the packed bytes
  do: so that both are one place is checked.
  """
  with file.open(name):
    pass  # Its header says what the directory does.
  member = archive.carry(file, name, name)
  data, is_whole = member.packed, True
  if member.method == zipfile.ZIP_DEFLATED:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    data = inflate.decompress(member.packed, member.size + 1)
    is_whole = inflate.eof and not inflate.unused_data
  elif member.method != zipfile.ZIP_STORED:
    raise zipfile.BadZipFile(f'it is packed by method {member.method}')
  if not is_whole or (len(data), zlib.crc32(data)) != (member.size, member.crc):
    raise zipfile.BadZipFile('its packed bytes are not what the directory says')
  return data


def _is_whole(path: Path, wheel: zipfile.ZipFile) -> bool:
  """Tests whether an archive is what the builder writes of its members."""
  infos = wheel.infolist()
  members = (archive.carry(wheel, i.filename, i.filename) for i in infos)
  with tempfile.TemporaryFile() as copy, path.open('rb') as file:
    try:
      archive.write(copy, members, infos[0].date_time)
    except (*_UNREADABLE, IndexError):
      return False
    copy.seek(0)
    return (hashlib.file_digest(copy, 'sha256').digest() == hashlib.file_digest(
        file, 'sha256').digest())


def _record_problems(file: zipfile.ZipFile, record: str,
                     digests: Mapping[str, str | None]) -> list[Problem]:
  """A problem if RECORD is not what the builder writes of the files."""
  if not all(digests.values()) or record not in digests:
    return []  # Reported already.
  rows = [(name, metadata.hash_of(sha256), file.getinfo(name).file_size)
          for name, sha256 in digests.items()
          if name != record and sha256]
  if file.read(record) == metadata.write_record(rows, record).encode():
    return []
  return [Problem(record, 'is not the list of the files that the wheel holds')]
