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
from infra.wheel import zip_form

pytestmark = pytest.mark.slow  # The core has verify_test.

# RECORD.


def with_record(workshop, wheel, change):
  contents = read(wheel)
  rows = contents[RECORD].decode().splitlines()
  contents[RECORD] = ''.join(f'{row}\n' for row in change(rows)).encode()
  return problems(workshop, workshop.write(wheel, contents))


def test_record_with_another_hash(workshop, wheel):
  found = with_record(
      workshop, wheel, lambda rows:
      [r.replace('=', '=A', 1) if r.startswith(OURS) else r for r in rows])
  assert found.keys() == {OURS}
  assert 'RECORD says sha256=A' in found[OURS]


def test_record_with_another_size(workshop, wheel):
  found = with_record(
      workshop, wheel,
      lambda rows: [r + '0' if r.startswith(OURS) else r for r in rows])
  assert found.keys() == {OURS}
  assert '0 bytes, and it is sha256=' in found[OURS]


@pytest.mark.parametrize('change, name, said', [
    (lambda rows: [r for r in rows if not r.startswith(OURS)], OURS,
     'stands in the wheel and not in RECORD'),
    (lambda rows: [*rows, 'torch_xla/none.py,sha256=x,1'], 'torch_xla/none.py',
     'stands in RECORD and not in the wheel'),
    (lambda rows: [*rows, rows[0]], None, 'stands in RECORD more than once'),
    (lambda rows: [*rows, 'a,b'], RECORD, 'a line that is no row of three'),
    (lambda rows: [f'{r}x' if r.startswith(RECORD) else r for r in rows],
     RECORD, 'RECORD says'),
])
def test_record_with_other_lines(change, name, said, workshop, wheel):
  first = read(wheel)[RECORD].decode().split(',')[0]
  found = with_record(workshop, wheel, change)
  assert said in found[name or first]


@pytest.mark.parametrize(
    'change', [
        lambda text: '\n'.join(text.splitlines()[::-1]) + '\n',
        lambda text: text.replace('\n', '\r\n'),
        lambda text: '"' + text.replace(',', '",', 1),
    ],
    ids=['order', 'line-ends', 'quotes'])
def test_record_that_is_right_and_written_otherwise(change, workshop, wheel):
  contents = read(wheel)
  contents[RECORD] = change(contents[RECORD].decode()).encode()
  found = problems(workshop, workshop.write(wheel, contents))
  assert found.keys() == {RECORD}
  assert 'in another order or form than the builder writes' in found[RECORD]


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
  assert 'stands in the archive 2 times' in problems(workshop, wheel)[OURS]


@pytest.mark.parametrize('name', [
    '../evil.py', '/etc/evil', 'torch_xla/../../evil.py', 'C:/evil.py',
    'torch_xla\\..\\evil.py'
])
def test_name_that_leads_out(name, workshop, wheel):
  rewritten(wheel, lambda file: file.writestr(zipfile.ZipInfo(name), b'evil'))
  assert 'leads out of the environment' in problems(workshop, wheel)[name]


@pytest.mark.parametrize('name', ['torch_xla//a.py', './a.py', 'a\nb.py'])
def test_name_that_is_no_plain_path(name, workshop, wheel):
  rewritten(wheel, lambda file: file.writestr(zipfile.ZipInfo(name), b'evil'))
  assert 'is no plain path' in problems(workshop, wheel)[name]


@pytest.mark.parametrize('name, shown', [
    ('\0evil.py', r'\x00evil.py'),
    ('', '(no name)'),
])
def test_name_that_begins_with_nul_or_is_none(name, shown, workshop, wheel):
  with zipfile.ZipFile(wheel) as file:
    members = [archive.carry(file, n, n) for n in file.namelist()]
  members.append(archive.pack(name, b'evil'))
  archive.write_whole(wheel, members, STAMP)
  assert f'error: {shown}: is no plain path' in str(workshop.verify(wheel))


def test_what_a_wheel_holds_cannot_steer_a_terminal(workshop, wheel):
  evil = 'torch_xla/\x1b[2K\r\u202eok'
  contents = read(wheel)
  contents[evil] = b''
  contents[RECORD] += f'{OURS},\x1b]0;a\x07,\u202e1\n'.encode()
  text = str(workshop.verify(workshop.write(wheel, contents)))
  assert r'error: torch_xla/\x1b[2K\r\u202eok: ' in text
  assert r'RECORD says \x1b]0;a\x07, \u202e1 bytes' in text
  assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize('mode, said', [
    (0o120777, 'is a symbolic link'),
    (0o100755, 'has mode 100755'),
    (0o104755, 'has mode 104755'),
])
def test_member_that_is_no_plain_file(mode, said, workshop, wheel):
  info = zipfile.ZipInfo('torch_xla/link.py')
  info.external_attr = mode << 16
  rewritten(wheel, lambda file: file.writestr(info, '/etc/passwd'))
  assert said in problems(workshop, wheel)['torch_xla/link.py']


def test_folder(workshop, wheel):
  rewritten(wheel, lambda file: file.mkdir('torch_xla/folder'))
  assert 'is a folder' in problems(workshop, wheel)['torch_xla/folder/']


@pytest.mark.parametrize('where', ['before', 'behind'])
def test_bytes_of_no_file(where, workshop, wheel):
  data = wheel.read_bytes()
  if where == 'before':
    wheel.write_bytes(b'#!/bin/sh\n' + data)
  else:
    wheel.write_bytes(data[:-2] + b'\4\0more')  # as the archive's comment
  found = problems(workshop, wheel)
  assert found.keys() == {zip_form.ARCHIVE}
  assert 'bytes that belong to no file' in found[zip_form.ARCHIVE]


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


@pytest.mark.parametrize('method, pack, said', [
    (zipfile.ZIP_DEFLATED, lambda d: deflate(evil_of_the_same_crc(d)), MORE),
    (zipfile.ZIP_STORED, lambda d: d + b'evil', MORE),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d) + b'evil',
     'behind its packed bytes are others'),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d) + bytes(1 << 18),
     'behind its packed bytes are others'),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d) + deflate(b'evil'),
     'behind its packed bytes are others'),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d)[:-1],
     'its packed bytes end too early'),
    (zipfile.ZIP_DEFLATED, lambda d: deflate(d[:-1]),
     'its packed bytes hold less than the'),
    (zipfile.ZIP_STORED, lambda d: d[:-1] + b'x', 'the CRC is another one'),
    (zipfile.ZIP_BZIP2, bz2.compress, 'it is packed by method 12'),
    (99, bytes, 'cannot be read'),
])
def test_member_that_readers_see_otherwise(method, pack, said, workshop, wheel):
  with_packed(wheel, method, pack)
  found = problems(workshop, wheel)
  assert found.keys() == {OURS}
  assert said in found[OURS]


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
