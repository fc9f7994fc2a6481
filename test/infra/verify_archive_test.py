"""Verification: a wheel's RECORD and archive that mislead are found by name."""

import zipfile

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
  assert problems(workshop, wheel).keys() == {'(archive)'}


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


@pytest.mark.parametrize('method, pack', [
    (zipfile.ZIP_STORED, lambda data: data + b'evil'),
    (zipfile.ZIP_DEFLATED,
     lambda data: archive.pack('', data).packed + b'evil'),
    (zipfile.ZIP_STORED, bytes),
])
def test_member_that_is_packed_otherwise(method, pack, workshop, wheel):
  """Readers that go to the end of the packed bytes could see another file."""
  with zipfile.ZipFile(wheel) as file:
    good = file.read(OURS)
    members = [archive.carry(file, n, n) for n in file.namelist()]
  members = [
      archive.Member(OURS, method, m.crc, m.size, pack(good))
      if m.name == OURS else m for m in members
  ]
  archive.write_whole(wheel, members, STAMP)
  assert not workshop.verify(wheel).ok
