"""Verification: whatever is done to a wheel, it is found by name."""

import shutil
import subprocess
import sys
import zipfile

from infra_project import ROOT, run
import pytest
from small_wheels import (INFO, OFFICIAL_INFO, OURS, problems, PYTHON, read,
                          RECORD, set_record, vendor, vendor_series)

from infra.errors import BuildError
from infra.wheel import archive, official, pins

CONFIG = 'torch_xla/_dynamo/config.py'
BOM = f'{INFO}/sboms/torch_xla.cdx.json'
XLAC = '_XLAC.cpython-{}-x86_64-linux-gnu.so'.format(PYTHON.replace('.', ''))
SHIM = 'torch_xla/shardy/libpjrt_shardy.so'

# A wheel that is right.


def test_each_file_is_told_where_it_is_from(workshop, wheel):
  verdict = workshop.verify(wheel)
  assert not verdict.problems, str(verdict)
  found = {n: (where.value, by) for n, (where, by) in verdict.members.items()}
  assert found.keys() == read(wheel).keys()
  assert found[CONFIG] == ("upstream's, patched",
                           ('one: config-add-a-line.patch',))
  assert found[XLAC] == found['torch_xla/runtime.py'] == (
      "upstream's, byte for byte", ())
  assert found[OURS][0] == "this project's"
  assert found[SHIM][0] == "this project's, built from its C sources"
  for name in (RECORD, BOM, 'torch_xla/version.py', f'{INFO}/METADATA'):
    assert found[name][0].startswith('metadata')
  text = str(verdict)
  assert 'one: config-add-a-line.patch' in text
  assert text.endswith(f'all {len(found)} files are what they should be')


def test_wheel_of_another_time(workshop, monkeypatch):
  monkeypatch.setenv('SOURCE_DATE_EPOCH', '1700000000')
  wheel = workshop.build()
  monkeypatch.delenv('SOURCE_DATE_EPOCH')
  verdict = workshop.verify(wheel)
  assert not verdict.problems, str(verdict)


def test_wheel_of_a_profile(workshop, tmp_path):
  vendor_series(workshop.project, tmp_path / 'vendor')
  profile = vendor(
      tmp_path / 'vendor', name='"acme-xla"', series='"patches/series.toml"')
  wheel = workshop.build(profile)
  verdict = workshop.verify(wheel, profile)
  assert not verdict.problems, str(verdict)
  found = {n: (where.value, by) for n, (where, by) in verdict.members.items()}
  assert found['acme/libacme.so'][0] == "the vendor's, from the profile"
  assert found[CONFIG][1] == ('one: config-add-a-line.patch',
                              'acme-line: config-add-a-line-of-acme.patch')
  with profile.file('libacme.so').open('ab') as library:
    library.write(b'later')
  found = problems(workshop, wheel, profile=profile)
  assert "not the vendor's, from the profile" in found['acme/libacme.so']


@pytest.mark.nightly
def test_the_checkouts_wheel_by_the_command(built):
  done = verify(str(built))
  assert done.returncode == 0, done.stdout + done.stderr
  assert 'sharding-priority: sync-bind-annotated-tensors.patch' in done.stdout
  assert 'applying the patches' in done.stderr


# A wheel that somebody changed, who made RECORD right again.


@pytest.mark.parametrize('name, said', [
    ('torch_xla/runtime.py', "is not upstream's, byte for byte."),
    (XLAC, "is not upstream's, byte for byte."),
    (CONFIG, "is not upstream's, patched by one: config-add-a-line.patch."),
    (OURS, "is not this project's."),
    (SHIM, "is not this project's, built from its C sources."),
    ('torch_xla/version.py', 'is not metadata'),
    (f'{INFO}/METADATA', 'is not metadata'),
    (f'{INFO}/entry_points.txt', 'is not metadata'),
    (f'{INFO}/licenses/LICENSE', "is not upstream's, byte for byte"),
])
def test_changed_byte(name, said, workshop, wheel):

  def change(contents):
    data = contents[name]
    contents[name] = data[:8] + bytes([data[8] ^ 1]) + data[9:]

  found = problems(workshop, workshop.damage(wheel, change))
  assert found.keys() == {name, RECORD}
  assert said in found[name]


def test_patch_left_out(workshop, wheel):
  theirs = read(workshop.official)[CONFIG]
  found = problems(workshop,
                   workshop.damage(wheel, lambda c: c.update({CONFIG: theirs})))
  assert found.keys() == {CONFIG, RECORD}


@pytest.mark.parametrize('name', ['torch_xla/evil.py', 'sitecustomize.py'])
def test_added_file(name, workshop, wheel):
  found = problems(workshop,
                   workshop.damage(wheel, lambda c: c.update({name: b'evil'})))
  assert found.keys() == {name, RECORD}
  assert "neither upstream's, nor this project's, nor named by" in found[name]


@pytest.mark.parametrize('name', [CONFIG, XLAC, OURS, BOM, f'{INFO}/WHEEL'])
def test_removed_file(name, workshop, wheel):
  found = problems(workshop, workshop.damage(wheel, lambda c: c.pop(name)))
  assert found.keys() == {name, RECORD}
  assert 'is missing' in found[name]


def test_files_of_another_python(workshop, wheel):
  """A wheel for one Python under the name of another one."""
  other = '3.12' if PYTHON != '3.12' else '3.13'
  cache = workshop.official.parent
  base = cache / pins.wheel_name(pins.OFFICIAL_VERSION, other)
  contents = read(workshop.official)
  there = XLAC.replace(PYTHON.replace('.', ''), other.replace('.', ''))
  contents[there] = contents.pop(XLAC)
  set_record(contents, OFFICIAL_INFO)
  members = [archive.pack(name, data) for name, data in contents.items()]
  archive.write_whole(base, members, (1980, 1, 1, 0, 0, 0))
  renamed = wheel.with_name(pins.wheel_name(pins.VERSION, other))
  shutil.copyfile(wheel, renamed)
  found = problems(workshop, renamed, pinned={other: official.sha256(base)})
  assert "neither upstream's" in found[XLAC]
  assert 'is missing' in found[there]


# A RECORD or an archive that misleads.


@pytest.mark.slow
@pytest.mark.parametrize('change', [
    lambda rows: [r + '0' if r.startswith(OURS) else r for r in rows],
    lambda rows: [*rows, 'torch_xla/none.py,sha256=x,1'],
    lambda rows: rows[::-1],
])
def test_record_that_the_builder_does_not_write(change, workshop, wheel):
  contents = read(wheel)
  rows = change(contents[RECORD].decode().splitlines())
  contents[RECORD] = ''.join(f'{row}\n' for row in rows).encode()
  assert problems(workshop, workshop.write(wheel, contents)).keys() == {RECORD}


def rewritten(wheel, name, data) -> None:
  """Writes a wheel with zipfile, and a further member of any name."""
  contents = read(wheel)
  with zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as file:
    for member in (*contents.items(), (name, data)):
      file.writestr(*member)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:Duplicate name')
def test_member_twice(workshop, wheel):
  rewritten(wheel, OURS, read(wheel)[OURS])
  assert 'two readers' in problems(workshop, wheel)['(archive)']


@pytest.mark.slow
@pytest.mark.parametrize('name', ['../evil.py', '/etc/evil', './a.py'])
def test_name_that_is_not_of_the_wheel(name, workshop, wheel):
  rewritten(wheel, name, b'')
  assert 'does not belong into the wheel' in problems(workshop, wheel)[name]


@pytest.mark.slow
def test_names_in_a_wheel_cannot_steer_a_terminal(workshop, wheel):
  rewritten(wheel, 'torch_xla/\x1b[2K\r\u202eok', b'')
  text = str(workshop.verify(wheel))
  assert r'error: torch_xla/\x1b[2K\r\u202eok: ' in text
  assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.slow
def test_bytes_of_no_file(workshop, wheel):
  data = wheel.read_bytes()
  wheel.write_bytes(b'#!/bin/sh\n' + data)
  assert problems(workshop, wheel).keys() == {'(archive)'}
  # Readers that stream a wheel go by the headers, others by the directory.
  wheel.write_bytes(data.replace(OURS.encode(), b'X' * len(OURS), 1))
  assert 'cannot be read' in problems(workshop, wheel)[OURS]


# Nothing that could be judged.


def test_no_wheel(workshop, wheel, tmp_path):
  with pytest.raises(BuildError, match='none.whl is no file: name a wheel'):
    workshop.verify(tmp_path / 'none.whl')
  wheel.write_bytes(b'text')
  with pytest.raises(BuildError, match='is not a wheel'):
    workshop.verify(wheel)


def test_wheel_of_another_name(workshop, wheel, tmp_path):
  profile = vendor(tmp_path)
  other = workshop.build(profile)
  with pytest.raises(
      BuildError,
      match="not the name of this checkout's wheel"
      '.*name its profile with --profile'):
    workshop.verify(other)
  with pytest.raises(BuildError, match='not the name of a wheel of acme.toml'):
    workshop.verify(wheel, profile)


def verify(*arguments) -> subprocess.CompletedProcess:
  return run(
      sys.executable, '-m', 'infra.wheel', 'verify', *arguments, cwd=ROOT)


def test_the_command_says_why_it_cannot_judge(tmp_path):
  done = verify(str(tmp_path / 'none.whl'))
  assert done.returncode == 2
  assert done.stderr.startswith('error: ') and 'is no file' in done.stderr
  done = verify('a.whl', '--profile', str(tmp_path / 'none.toml'))
  assert done.returncode == 2
  assert 'none.toml: cannot be read' in done.stderr


def test_help():
  done = verify('--help')
  assert done.returncode == 0
  assert '--profile' in done.stdout and 'exit status is 0' in done.stdout
