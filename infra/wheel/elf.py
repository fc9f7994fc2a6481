"""Reads what a wheel's libraries have to be out of their ELF headers."""

from __future__ import annotations

from collections.abc import Iterator
import struct

_ELF = b'\x7fELF'
_64_LITTLE = b'\x02\x01'
_X86_64 = 62
_SYMBOLS = 11  # SHT_DYNSYM
_EXPORTED = (1, 2)  # STB_GLOBAL, STB_WEAK
_SECTION = struct.Struct('<IIQQQQIIQQ')
_SYMBOL = struct.Struct('<IBBHQQ')


def is_elf(data: bytes) -> bool:
  """Tests whether a file is ELF, for whatever machine."""
  return data.startswith(_ELF)


def is_for_x86_64(data: bytes) -> bool:
  """Tests whether a file is a library for x86-64."""
  return (data.startswith(_ELF + _64_LITTLE) and
          data[18:20] == struct.pack('<H', _X86_64))


def exports(data: bytes, name: str) -> bool:
  """Tests whether a library exports a symbol.

  Linkers put a name that is the end of another one into that one's, so it need
  not begin behind a NUL. Where the table of sections was taken away, the name
  alone counts.
  """
  wanted = name.encode() + b'\0'
  try:
    sections = _sections(data)
    if not sections:
      return wanted in data
    return any(
        data.startswith(wanted, start) for start in _exported(data, sections))
  except struct.error:  # It ends too early.
    return False


def _sections(data: bytes) -> list[tuple[int, ...]]:
  start, = struct.unpack_from('<Q', data, 40)
  size, count = struct.unpack_from('<HH', data, 58)
  if not start or not count:
    return []
  return [_SECTION.unpack_from(data, start + i * size) for i in range(count)]


def _exported(data: bytes, sections: list[tuple[int, ...]]) -> Iterator[int]:
  """Where the names of the exported symbols begin."""
  for _, kind, _, _, start, size, link, _, _, _ in sections:
    if kind != _SYMBOLS or link >= len(sections):
      continue
    names = sections[link][4]
    for at in range(start, start + size, _SYMBOL.size):
      name, info, _, section, _, _ = _SYMBOL.unpack_from(data, at)
      if section and info >> 4 in _EXPORTED:
        yield names + name
