"""Writes a wheel's zip archive, the same bytes for the same members.

`zipfile` cannot carry a member over in its compressed form, so what it writes of
one is put together here. The official extension module is 305 MB unpacked; carried
over as it is, it costs no time and does not depend on the version of zlib.
"""

import copy
from dataclasses import dataclass
import os
from pathlib import Path
import re
import tempfile
import time
from typing import BinaryIO, Iterable
import zipfile
import zlib

from infra.errors import BuildError

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
  stored = copy.copy(info)
  stored.compress_type, stored.file_size = zipfile.ZIP_STORED, info.compress_size
  del stored.CRC  # That of the unpacked file.
  return Member(name, info.compress_type, info.CRC, info.file_size,
                archive.read(stored))


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
  with zipfile.ZipFile(file, 'w') as archive:
    for member in members:
      info = zipfile.ZipInfo(member.name, stamp)
      info.compress_type, info.CRC = member.method, member.crc
      info.compress_size, info.file_size = len(member.packed), member.size
      info.create_system, info.external_attr = 3, 0o100644 << 16  # Unix
      info.header_offset = file.tell()
      file.write(info.FileHeader() + member.packed)
      archive.filelist.append(info)
    archive.start_dir = file.tell()


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
