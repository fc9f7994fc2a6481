"""Judges the form of a wheel's archive: what a reader could be misled by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
import hashlib
from pathlib import Path
import stat
import struct
import zipfile
import zlib

from infra.wheel import archive
from infra.wheel.verdict import Problem

# The name given for what belongs to no file of the archive.
ARCHIVE = '(archive)'
# What is raised for damaged, encrypted and exotic members.
UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError,
              RuntimeError, ValueError, OverflowError, MemoryError)
_BLOCK = 1 << 16
_ENCRYPTED = 1


def problems_of_form(path: Path, wheel: zipfile.ZipFile) -> Iterator[Problem]:
  """What is wrong with an archive before anything in it is looked at."""
  infos = wheel.infolist()
  # `orig_filename`: zipfile cuts a name at a NUL.
  times = Counter(info.orig_filename for info in infos)
  for name, count in times.items():
    if count > 1:
      yield Problem(
          name, f'stands in the archive {count} times: which one is '
          'installed depends on the installer')
    if why := bad_name(name):
      yield Problem(name, why)
  for info in infos:
    name, mode = info.orig_filename, info.external_attr >> 16
    if stat.S_ISLNK(mode):
      yield Problem(
          name, 'is a symbolic link, which can lead out of the environment; a '
          'wheel holds files only')
    elif name.endswith('/'):
      yield Problem(name, 'is a folder, and no file lists it')
    elif mode != archive.FILE_MODE:
      yield Problem(
          name, f'has mode {mode:o}, and the builder writes '
          f'{archive.FILE_MODE:o}')
    if info.flag_bits & _ENCRYPTED:
      yield Problem(name, 'is encrypted')
  if len(times) == len(infos) and not _is_whole(path, wheel):
    yield Problem(
        ARCHIVE, 'has bytes that belong to no file in it, or headers that '
        'contradict its directory: two readers could see two wheels')


def digests(wheel: zipfile.ZipFile,
            problems: list[Problem]) -> dict[str, str | None]:
  """The sha256 of each file of an archive, in hex, by its name.

  Of a name that stands there twice it is the last one's. It is None for a file
  that cannot be read, which is added to `problems`.
  """
  found: dict[str, str | None] = {}
  for name in dict.fromkeys(wheel.namelist()):
    if not name or name.endswith('/'):
      continue  # No file, found by the form.
    try:
      with wheel.open(name):
        pass  # Its header says what the directory does.
      found[name] = content_sha256(archive.carry(wheel, name, name))
    except UNREADABLE as error:
      problems.append(Problem(name, f'cannot be read: {error}'))
      found[name] = None
  return found


def content_sha256(member: archive.Member) -> str:
  """The sha256 of what a file of an archive holds, in hex.

  zipfile stops reading where the directory says that a file ends, and other
  readers where its packed bytes end: so that both are one place is checked.

  Raises:
    zipfile.BadZipFile: it is not, or the content is damaged.
    zlib.error: likewise.
  """
  digest = hashlib.sha256()
  size = crc = 0
  for block in _unpacked(member):
    digest.update(block)
    size += len(block)
    crc = zlib.crc32(block, crc)
    if size > member.size:
      break
  if size != member.size:
    raise zipfile.BadZipFile(
        f'its packed bytes hold {"more" if size > member.size else "less"} than '
        f'the {member.size} bytes that the directory tells of: two readers '
        'could see two files')
  if crc != member.crc:
    raise zipfile.BadZipFile('its content is damaged: the CRC is another one')
  return digest.hexdigest()


def _unpacked(member: archive.Member) -> Iterator[bytes]:
  """The content of a file of an archive, to the last of its packed bytes."""
  blocks = (
      member.packed[at:at + _BLOCK]
      for at in range(0, len(member.packed), _BLOCK))
  if member.method == zipfile.ZIP_STORED:
    yield from blocks
    return
  if member.method != zipfile.ZIP_DEFLATED:
    raise zipfile.BadZipFile(f'it is packed by method {member.method}, which '
                             'not every installer reads; deflate it')
  inflate = zlib.decompressobj(-zlib.MAX_WBITS)
  for block in blocks:
    yield inflate.decompress(block)
  if not inflate.eof:
    raise zipfile.BadZipFile('its packed bytes end too early')
  if inflate.unused_data:
    raise zipfile.BadZipFile('behind its packed bytes are others, which belong '
                             'to no file')


def bad_name(name: str) -> str:
  """Why no file of a wheel can have a name; empty if one can."""
  parts = name.removesuffix('/').split('/')
  if name.startswith('/') or '\\' in name or ':' in parts[0] or '..' in parts:
    return 'leads out of the environment that it is installed into'
  if '' in parts or '.' in parts or not name.isprintable():
    return 'is no plain path'
  return ''


def _is_whole(path: Path, wheel: zipfile.ZipFile) -> bool:
  """Whether an archive is what the builder writes of its members."""
  infos = wheel.infolist()
  if not infos:
    return False
  written = _Digest()
  members = (archive.carry(wheel, i.filename, i.filename) for i in infos)
  try:
    archive.write(written, members, infos[0].date_time)
  except UNREADABLE:  # The directory tells of what is not there.
    return False
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').digest() == written.digest()


class _Digest:
  """A file for `archive.write` of which only the digest is kept."""

  def __init__(self):
    self._digest = hashlib.sha256()
    self._at = 0

  def tell(self) -> int:
    return self._at

  def write(self, data: bytes) -> None:
    self._digest.update(data)
    self._at += len(data)

  def digest(self) -> bytes:
    return self._digest.digest()
