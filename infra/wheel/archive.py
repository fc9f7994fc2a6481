"""Writes a wheel's zip archive, the same bytes for the same members.

`zipfile` can neither carry a member over in its compressed form nor write one
without asking the clock, so the few structures of the format are written here.
The official extension module is 305 MB unpacked; carried over as it is, it
costs no time and does not depend on the version of zlib.
"""

from dataclasses import dataclass
import os
from pathlib import Path
import re
import struct
import tempfile
import time
from typing import BinaryIO, Iterable
import zipfile
import zlib

from infra.errors import BuildError

_UTF8 = 0x800
FILE_MODE = 0o100644
_VERSION_NEEDED = 20
_MADE_BY_UNIX = 3 << 8 | _VERSION_NEEDED
EPOCH = (1980, 1, 1, 0, 0, 0)
_LAST_SECOND = 4354819199  # of 2107, where zip ends
_SECONDS = re.compile('[0-9]{1,10}')
_TIME_VARIABLE = 'SOURCE_DATE_EPOCH'


@dataclass(frozen=True)
class Member:
  """One file of an archive, in compressed form."""
  name: str
  method: int
  crc: int
  size: int
  packed: bytes


def pack(name: str, data: bytes) -> Member:
  """Compresses a file for an archive."""
  deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
  packed = deflate.compress(data) + deflate.flush()
  return Member(name, zipfile.ZIP_DEFLATED, zlib.crc32(data), len(data), packed)


def carry(archive: zipfile.ZipFile, source: str, name: str) -> Member:
  """Takes the file `source` of an archive over as `name`, still compressed."""
  info = archive.getinfo(source)
  assert archive.filename is not None
  with open(archive.filename, 'rb') as file:
    file.seek(info.header_offset)
    header = file.read(30)
    name_length, extra_length = struct.unpack('<HH', header[26:30])
    file.seek(name_length + extra_length, os.SEEK_CUR)
    packed = file.read(info.compress_size)
  return Member(name, info.compress_type, info.CRC, info.file_size, packed)


def timestamp(environ: dict[str, str]) -> tuple[int, ...]:
  """Every member's time: SOURCE_DATE_EPOCH, or 1980, where zip begins.

  Raises:
    BuildError: the variable is no time that an archive can hold.
  """
  epoch = environ.get(_TIME_VARIABLE, '')
  if not epoch:
    return EPOCH
  if not _SECONDS.fullmatch(epoch) or int(epoch) > _LAST_SECOND:
    raise BuildError(f'{_TIME_VARIABLE}={epoch[:64]!r} is no time that a wheel '
                     f'can have: write seconds from 0 to {_LAST_SECOND}')
  return max(EPOCH, tuple(time.gmtime(int(epoch))[:6]))


def write(file: BinaryIO, members: Iterable[Member], stamp: tuple[int,
                                                                  ...]) -> None:
  """Writes an archive of `members`, in their order."""
  year, month, day, hour, minute, second = stamp
  clock = hour << 11 | minute << 5 | second // 2
  date = (year - 1980) << 9 | month << 5 | day
  directory = []
  for member in members:
    offset = file.tell()
    name = member.name.encode()
    fields = struct.pack('<HHHHHIIIHH', _VERSION_NEEDED,
                         0 if member.name.isascii() else _UTF8,
                         member.method, clock, date, member.crc,
                         len(member.packed), member.size, len(name), 0)
    file.write(b'PK\3\4' + fields + name)
    file.write(member.packed)
    directory.append(b'PK\1\2' + struct.pack('<H', _MADE_BY_UNIX) + fields +
                     struct.pack('<HHHII', 0, 0, 0, FILE_MODE << 16, offset) +
                     name)
  start = file.tell()
  file.write(b''.join(directory))
  file.write(b'PK\5\6' +
             struct.pack('<HHHHIIH', 0, 0, len(directory), len(directory),
                         file.tell() - start, start, 0))


def write_whole(path: Path, members: Iterable[Member],
                stamp: tuple[int, ...]) -> None:
  """Writes the archive `path`, which appears whole or not at all."""
  path.parent.mkdir(parents=True, exist_ok=True)
  handle, name = tempfile.mkstemp(dir=path.parent, prefix='.', suffix='.part')
  try:
    with os.fdopen(handle, 'wb') as file:
      write(file, members, stamp)
    os.chmod(name, 0o644)
    os.replace(name, path)
  except BaseException:  # an interrupt too must not leave the part behind
    Path(name).unlink(missing_ok=True)
    raise
