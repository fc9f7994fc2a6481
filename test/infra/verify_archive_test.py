"""Verification: a wheel's RECORD and archive that mislead are found by name."""

import bz2
import struct
import zipfile
import zlib

import pytest
from small_wheels import OURS
from small_wheels import problems
from small_wheels import read
from small_wheels import RECORD
from small_wheels import STAMP

from infra.wheel import archive

pytestmark = pytest.mark.slow  # The core has verify_test.

# RECORD.


def with_record(workshop, wheel, change):
  contents = read(wheel)
  rows = contents[RECORD].decode().splitlines()
  contents[RECORD] = ''.join(f'{row}\n' for row in change(rows)).encode()
  return problems(workshop, workshop.write(wheel, contents))


@pytest.mark.parametrize('change', [
    lambda rows:
    [r.replace('=', '=A', 1) if r.startswith(OURS) else r for r in rows],
    lambda rows: [r + '0' if r.startswith(OURS) else r for r in rows],
    lambda rows: [r for r in rows if not r.startswith(OURS)],
    lambda rows: [*rows, 'torch_xla/none.py,sha256=x,1'],
    lambda rows: [*rows, 'a,b'],
    lambda rows: rows[::-1],
])
def test_record_that_the_builder_does_not_write(change, workshop, wheel):
  found = with_record(workshop, wheel, change)
  assert found.keys() == {RECORD}
  assert 'is not the list of the files' in found[RECORD]


def test_no_record(workshop, wheel):
  contents = read(wheel)
  del contents[RECORD]
  found = problems(workshop, workshop.write(wheel, contents))
  assert found.keys() == {RECORD}


# The archive itself.


def rewritten(wheel, change) -> None:
  """Writes a wheel with zipfile, whose members may be of any kind."""
  with zipfile.ZipFile(wheel) as file:
    members = [(info, file.read(info)) for info in file.infolist()]
  with zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as file:
    for info, data in members:
      file.writestr(info, data)
    change(file)


@pytest.mark.filterwarnings('ignore:Duplicate name')
def test_member_twice(workshop, wheel):
  ours = read(wheel)[OURS]
  rewritten(wheel, lambda file: file.writestr(OURS, ours))
  assert 'stands in the archive twice' in problems(workshop, wheel)[OURS]


@pytest.mark.parametrize('name', [
    '../evil.py', '/etc/evil', 'C:/evil.py', 'torch_xla\\..\\evil.py', './a.py',
    'torch_xla/folder/'
])
def test_name_that_is_not_of_the_wheel(name, workshop, wheel):
  rewritten(wheel, lambda file: file.writestr(zipfile.ZipInfo(name), b''))
  assert 'does not belong into the wheel' in problems(workshop, wheel)[name]


def test_what_a_wheel_holds_cannot_steer_a_terminal(workshop, wheel):
  evil = 'torch_xla/\x1b[2K\r\u202eok'
  contents = read(wheel)
  contents[evil] = b''
  text = str(workshop.verify(workshop.write(wheel, contents)))
  assert r'error: torch_xla/\x1b[2K\r\u202eok: ' in text
  assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize('mode', [0o120777, 0o100755, 0o104755])
def test_member_that_is_no_plain_file(mode, workshop, wheel):
  with zipfile.ZipFile(wheel) as file:
    members = [archive.carry(file, n, n) for n in file.namelist()]
  plain = archive.FILE_MODE
  try:
    archive.FILE_MODE = mode
    archive.write_whole(wheel, members, STAMP)
  finally:
    archive.FILE_MODE = plain
  assert 'two readers' in problems(workshop, wheel)['(archive)']


@pytest.mark.parametrize('where', ['before', 'behind'])
def test_bytes_of_no_file(where, workshop, wheel):
  data = wheel.read_bytes()
  if where == 'before':
    wheel.write_bytes(b'#!/bin/sh\n' + data)
  else:
    wheel.write_bytes(data[:-2] + b'\4\0more')  # as the archive's comment
  found = problems(workshop, wheel)
  assert found.keys() == {'(archive)'}
  assert 'is not what the builder writes' in found['(archive)']


def test_header_with_another_name(workshop, wheel):
  """Readers that stream a wheel go by the headers, others by the directory."""
  data = wheel.read_bytes()
  wheel.write_bytes(data.replace(OURS.encode(), b'X' * len(OURS), 1))
  assert 'cannot be read' in problems(workshop, wheel)[OURS]


def test_damaged_content(workshop, wheel):
  with zipfile.ZipFile(wheel) as file:
    at = file.getinfo('torch_xla/runtime.py').header_offset + 200
  data = bytearray(wheel.read_bytes())
  data[at] ^= 0xff
  wheel.write_bytes(data)
  found = problems(workshop, wheel)
  assert 'cannot be read' in found['torch_xla/runtime.py']


# What the packed bytes of a member hold besides the file that zipfile sees.


def deflate(data: bytes) -> bytes:
  return archive.pack('', data).packed


def evil_of_the_same_crc(good: bytes) -> bytes:
  """`good` with more behind it, which has the CRC of `good` alone."""
  data = good + b'print("evil")  #'
  table = [zlib.crc32(bytes([i]), 0xffffffff) ^ 0xffffffff for i in range(256)]
  # From the wanted end back, which byte moves the CRC how; then forward.
  places = {entry >> 24: i for i, entry in enumerate(table)}
  crc, wanted = zlib.crc32(data) ^ 0xffffffff, zlib.crc32(good) ^ 0xffffffff
  steps = []
  for _ in range(4):
    steps.insert(0, places[wanted >> 24])
    wanted = (wanted ^ table[steps[0]]) << 8 & 0xffffffff
  for step in steps:
    data += bytes([crc & 0xff ^ step])
    crc = table[step] ^ crc >> 8
  return data


def with_packed(wheel, method, pack) -> None:
  """Packs a file of a wheel otherwise; what the directory says of it stays."""
  with zipfile.ZipFile(wheel) as file:
    good = file.read(OURS)
    members = [archive.carry(file, n, n) for n in file.namelist()]
  members = [
      archive.Member(OURS, method, m.crc, m.size, pack(good))
      if m.name == OURS else m for m in members
  ]
  archive.write_whole(wheel, members, STAMP)


MORE = 'its packed bytes hold more than the'


@pytest.mark.parametrize('method, pack', [
    (zipfile.ZIP_DEFLATED, lambda d: deflate(evil_of_the_same_crc(d))),
    (zipfile.ZIP_STORED, lambda d: d + b'evil'),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d) + b'evil'),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d)[:-1]),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d[:-1])),
    (zipfile.ZIP_STORED, lambda d: d[:-1] + b'x'),
    (zipfile.ZIP_BZIP2, bz2.compress),
    (99, bytes),
])
def test_member_that_readers_see_otherwise(method, pack, workshop, wheel):
  with_packed(wheel, method, pack)
  found = problems(workshop, wheel)
  assert found.keys() == {OURS}
  assert 'cannot be read' in found[OURS]


def test_forged_member_is_what_zipfile_takes(wheel):
  """So that the test above tests what it says."""
  good = read(wheel)[OURS]
  with_packed(wheel, zipfile.ZIP_DEFLATED,
              lambda data: deflate(evil_of_the_same_crc(data)))
  assert read(wheel)[OURS] == good
  evil = evil_of_the_same_crc(good)
  assert zlib.crc32(evil) == zlib.crc32(good) and evil != good


def test_stored_member(workshop, wheel):
  with_packed(wheel, zipfile.ZIP_STORED, bytes)
  verdict = workshop.verify(wheel)
  assert verdict.ok, str(verdict)


def test_directory_that_tells_of_no_place(workshop, wheel):
  data = bytearray(wheel.read_bytes())
  entry = data.rindex(OURS.encode()) - 46
  struct.pack_into('<I', data, entry + 42, 0xfffffff0)  # where its header is
  wheel.write_bytes(data)
  assert 'cannot be read' in problems(workshop, wheel)[OURS]


@pytest.mark.parametrize('offset, value', [(8, 1), (10, 99)])
def test_bill_of_materials_that_cannot_be_read(offset, value, workshop, wheel):
  """It is read before the others: encrypted, and by an unknown method."""
  data = bytearray(wheel.read_bytes())
  name = next(name for name in read(wheel) if '/sboms/' in name)
  entry = data.rindex(name.encode()) - 46
  struct.pack_into('<H', data, entry + offset, value)
  wheel.write_bytes(data)
  assert 'cannot be read' in problems(workshop, wheel)[name]


def test_bill_of_materials_that_is_no_deflate_stream(workshop, wheel):
  name = next(name for name in read(wheel) if '/sboms/' in name)
  with zipfile.ZipFile(wheel) as file:
    at = file.getinfo(name).header_offset + 30 + len(name)
  data = bytearray(wheel.read_bytes())
  data[at] = 0xff  # a block of a type that there is not
  wheel.write_bytes(data)
  assert 'cannot be read' in problems(workshop, wheel)[name]
