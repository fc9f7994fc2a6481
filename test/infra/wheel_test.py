"""The wheel builder, with the official wheel, real tools and real faults."""

import email.parser
import os
from pathlib import Path
import subprocess
import sys
import zipfile

from infra_project import output_of, ROOT, run
import pytest
from small_wheels import INFO, OFFICIAL_INFO, PLUGINS

from infra.errors import BuildError
from infra.patchset.apply import patched_files
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import wheel_patches
from infra.wheel import archive, metadata, official, overlay, pins, plugins
from infra.wheel.build import build_wheel, running_python

pytestmark = pytest.mark.slow  # The core has series_test.


def setup_py(*arguments: str, **environ: str) -> subprocess.CompletedProcess:
  """Runs the checkout's setup.py."""
  return run(sys.executable, ROOT / 'setup.py', *arguments, env=environ)


def build(project, dist: Path, **options) -> Path:
  """Builds a throwaway project's wheel from the checkout's cache."""
  options = dict(
      cache=official.default_cache(ROOT),
      built_plugins=PLUGINS,
      say=lambda line: None) | options
  return build_wheel(project.root, dist, **options)


def names_in(folder: Path) -> list[str]:
  return sorted(os.listdir(folder)) if folder.exists() else []


def read_fields(wheel: Path):
  with zipfile.ZipFile(wheel) as file:
    text = file.read(f'{INFO}/METADATA').decode()
  return email.parser.Parser().parsestr(text)


# What the wheel holds.


@pytest.fixture(scope='module', name='read')
def read_fixture(built) -> dict[str, tuple[str, str]]:
  """Hash and size of each member, as RECORD has them; each CRC was right.

  The extension module is 305 MB and so is read just once.
  """
  with zipfile.ZipFile(built) as wheel:
    names = wheel.namelist()
    members = zip(names, map(wheel.read, names))
    return {
        name: (metadata.hash_field(data), str(len(data)))
        for name, data in members
    }


@pytest.mark.slow
def test_name_and_archive(built, read):
  python = 'cp' + running_python().replace('.', '')
  assert built.name == (f'torch_xla-2.9.0+shardy.1-{python}-{python}-'
                        'manylinux_2_28_x86_64.whl')
  with zipfile.ZipFile(built) as wheel:
    assert sorted(read) == sorted(wheel.namelist())


def test_record_lists_every_member_with_its_hash_and_size(built, read):
  with zipfile.ZipFile(built) as wheel:
    rows = [
        line.rsplit(',', 2)
        for line in wheel.read(f'{INFO}/RECORD').decode().splitlines()
    ]
    assert sorted(row[0] for row in rows) == sorted(wheel.namelist())
    assert len(set(wheel.namelist())) == len(wheel.namelist())
  for name, digest, size in rows:
    if name == f'{INFO}/RECORD':
      assert (digest, size) == ('', '')
      continue
    assert (digest, size) == read[name], name


def test_metadata(built, official_wheel):
  fields = read_fields(built)
  assert fields['Name'] == 'torch-xla'
  assert fields['Version'] == '2.9.0+shardy.1'
  assert 'fork distribution' in fields['Summary']
  assert fields.get_all('License-File') == ['LICENSE', 'LICENSE.shardy']
  assert set(fields.get_all('Provides-Extra')) == {
      'tpu', 'pallas', 'cpu', 'stablehlo'
  }
  with zipfile.ZipFile(official_wheel) as wheel:
    upstream = email.parser.Parser().parsestr(
        wheel.read(f'{OFFICIAL_INFO}/METADATA').decode())
  ours = set(fields.get_all('Requires-Dist'))
  theirs = set(upstream.get_all('Requires-Dist'))
  assert theirs < ours
  assert ours - theirs == {
      'protobuf>=5.26,<8', 'xla-cpu-pjrt==0.0.1; extra == "cpu"',
      'jaxlib>=0.7.1,<0.13; extra == "stablehlo"'
  }
  for name in set(upstream.keys()) - {'Version', 'Summary'}:
    assert set(upstream.get_all(name)) <= set(fields.get_all(name)), name
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  assert fields.get_payload() == readme


def test_other_metadata_files(built, official_wheel):
  with zipfile.ZipFile(built) as ours, zipfile.ZipFile(
      official_wheel) as theirs:
    assert not any(name.startswith(OFFICIAL_INFO) for name in ours.namelist())
    assert ours.read(f'{INFO}/licenses/LICENSE') == theirs.read(
        f'{OFFICIAL_INFO}/licenses/LICENSE')
    for name, line in (('entry_points.txt',
                        'torch-xla-shardy = torch_xla_shardy.main:main'),
                       ('top_level.txt', 'torch_xla_shardy')):
      lines = ours.read(f'{INFO}/{name}').decode().splitlines()
      lines.remove(line)
      assert lines == theirs.read(
          f'{OFFICIAL_INFO}/{name}').decode().splitlines()
    assert ours.read(f'{INFO}/licenses/LICENSE.shardy') == (
        ROOT / 'LICENSE').read_bytes()
    wheel = ours.read(f'{INFO}/WHEEL').decode().splitlines()
    upstream = theirs.read(f'{OFFICIAL_INFO}/WHEEL').decode().splitlines()
    changed = set(wheel) ^ set(upstream)
    assert len(changed) == 2
    assert all(line.startswith('Generator: ') for line in changed)
    assert f'Generator: {pins.GENERATOR}' in wheel
    scope: dict = {}
    exec(ours.read('torch_xla/version.py'), scope)
    assert scope['__version__'] == '2.9.0+shardy.1'
    assert '__xla_gitrev__' in scope


def test_every_file_is_upstreams_or_patched_or_ours(built, official_wheel):
  series = load_manifest(ROOT).series
  patches = [patch for s in series for patch in wheel_patches(ROOT, s)]
  with zipfile.ZipFile(built) as ours, zipfile.ZipFile(
      official_wheel) as theirs:
    patched = patched_files(theirs.read, patches)
    own = {
        name: (ROOT / name).read_bytes() for name in overlay.wheel_files(ROOT)
    }
    actual = {n for n in ours.namelist() if not n.startswith(INFO)}
    official_names = {
        n for n in theirs.namelist() if not n.startswith(OFFICIAL_INFO)
    }
    assert actual == official_names | own.keys() | pins.PLUGINS.keys()
    assert 'torch_xla/shardy/__init__.py' in actual
    assert 'torch_xla_shardy/main.py' in actual
    assert not any(name.startswith('torch_xla/csrc/') for name in actual)
    for name, data in (patched | own).items():
      assert ours.read(name) == data, name
    for name in official_names - patched.keys() - {'torch_xla/version.py'}:
      # As compressed, so the same when it is not.
      assert archive.carry(ours, name,
                           name) == archive.carry(theirs, name, name), name
    for member in pins.PLUGINS:
      assert ours.read(member).startswith(b'\x7fELF')


def test_plugins_run_with_the_glibc_of_the_tag(built):
  with zipfile.ZipFile(built) as wheel:
    for member in pins.PLUGINS:
      plugins.check_glibc(member, wheel.read(member))
  with pytest.raises(BuildError, match=r'a.so needs glibc 2\.34'):
    plugins.check_glibc('a.so', b'..GLIBC_2.2.5\0GLIBC_2.34\0')


# Same inputs, same bytes.


def test_same_inputs_give_the_same_bytes(built, built_plugins, tmp_path):
  again = build_wheel(ROOT, tmp_path, built_plugins=built_plugins)
  assert again.read_bytes() == built.read_bytes()


@pytest.mark.nightly
def test_setup_py_gives_the_same_bytes(built, tmp_path):
  done = setup_py('bdist_wheel', '--dist-dir', str(tmp_path))
  assert done.returncode == 0, done.stderr
  assert names_in(tmp_path) == [built.name]
  assert (tmp_path / built.name).read_bytes() == built.read_bytes()
  steps = [line for line in done.stdout.splitlines() if line[:1] == '[']
  assert '[3/6] applying series dynamo-replicated-spec' in steps
  assert steps[-1].startswith('[6/6] writing ')


@pytest.mark.nightly
def test_pip_wheel_gives_the_same_bytes(built, tmp_path):
  output_of(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--wheel-dir',
            tmp_path, ROOT)
  assert names_in(tmp_path) == [built.name]
  assert (tmp_path / built.name).read_bytes() == built.read_bytes()


def test_members_are_sorted_dated_and_plain(built, project, tmp_path,
                                            monkeypatch):
  with zipfile.ZipFile(built) as wheel:
    infos = wheel.infolist()
  assert {info.external_attr >> 16 for info in infos} == {0o100644}
  assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
  names = [info.filename for info in infos]
  package = [name for name in names if not name.startswith(INFO)]
  assert names[:len(package)] == sorted(package)
  assert names[-1] == f'{INFO}/RECORD'

  project.series('empty')
  monkeypatch.setenv('SOURCE_DATE_EPOCH', '1700000000')
  with zipfile.ZipFile(build(project, tmp_path / 'dist')) as wheel:
    dates = {info.date_time for info in wheel.infolist()}
  assert dates == {(2023, 11, 14, 22, 13, 20)}


@pytest.mark.parametrize(
    'epoch', ['4354819200', '9' * 5000, '-1'], ids=lambda epoch: epoch[:12])
def test_time_that_no_wheel_can_have(epoch, project, tmp_path, monkeypatch):
  project.series('empty')
  monkeypatch.setenv('SOURCE_DATE_EPOCH', epoch)
  with pytest.raises(BuildError) as raised:
    build(project, tmp_path / 'dist')
  said = str(raised.value)
  assert f'SOURCE_DATE_EPOCH={epoch[:64]!r} is no time that a wheel' in said
  assert said.endswith('write seconds from 0 to 4354819199')
  assert not names_in(tmp_path / 'dist')


# Other Pythons.


@pytest.mark.nightly
def test_setup_py_builds_for_several_pythons(tmp_path):
  done = setup_py('bdist_wheel', '--python', running_python(), '--python',
                  '3.12', '--dist-dir', str(tmp_path))
  assert done.returncode == 0, done.stderr
  expected = [
      str(tmp_path / pins.wheel_name(pins.VERSION, python))
      for python in (running_python(), '3.12')
  ]
  lines = done.stdout.splitlines()
  assert lines[-2:] == expected
  assert names_in(tmp_path) == [Path(path).name for path in expected]
  assert lines[0] == 'building the plugins with Bazel'


def test_python_that_the_profile_leaves_out(tmp_path):
  profile = tmp_path / 'acme.toml'
  profile.write_text('version = "2.9.0+acme.3"\npythons = ["3.12"]\n')
  done = setup_py('bdist_wheel', '--profile', str(profile), '--python', '3.13',
                  '-d', str(tmp_path / 'dist'))
  assert done.returncode == 1
  assert (f'error: --python 3.13: the pythons of {profile} are 3.12: add it '
          'there, or name one of them') in done.stderr
  assert not names_in(tmp_path / 'dist')


@pytest.mark.parametrize('python', ['3.9', 'three'])
def test_python_without_a_pinned_wheel(python, tmp_path):
  done = setup_py('bdist_wheel', '--python', python, '-d', str(tmp_path))
  assert done.returncode == 1
  assert f'Python {python} has no pinned official wheel' in done.stderr
  assert '3.10, 3.11, 3.12, 3.13' in done.stderr
  assert 'Traceback' not in done.stderr
  assert not names_in(tmp_path)


def test_every_official_wheel_holds_the_same_python_files():
  cache = official.default_cache(ROOT)
  cached = [
      wheel for python in pins.OFFICIAL_SHA256
      if (wheel := cache /
          pins.wheel_name(pins.OFFICIAL_VERSION, python)).exists()
  ]
  sources = []
  for wheel in cached:
    with zipfile.ZipFile(wheel) as file:
      sources.append({
          i.filename: i.CRC
          for i in file.infolist()
          if i.filename.endswith('.py')
      })
  assert all(source == sources[0] for source in sources)


# The official wheel's fetch.


@pytest.mark.nightly
def test_damaged_cache_is_reported_removed_and_fetched_again(tmp_path):
  python = running_python()
  wheel = tmp_path / pins.wheel_name(pins.OFFICIAL_VERSION, python)
  wheel.write_bytes(b'half a wheel')
  said: list[str] = []
  assert official.official_wheel(python, tmp_path, said.append) == wheel
  assert official.sha256(wheel) == pins.OFFICIAL_SHA256[python]
  assert 'is damaged' in said[0] and str(wheel) in said[0]
  assert names_in(tmp_path) == [wheel.name]


def test_wrong_hash_stops_the_build_and_leaves_nothing(project, tmp_path):
  python = running_python()
  project.series('empty')
  with pytest.raises(BuildError) as raised:
    build(
        project,
        tmp_path / 'dist',
        cache=tmp_path / 'cache',
        pinned={python: '0' * 64})
  message = str(raised.value)
  assert pins.wheel_name(pins.OFFICIAL_VERSION, python) in message
  assert '0' * 64 in message and pins.OFFICIAL_SHA256[python] in message
  assert not names_in(tmp_path / 'cache')
  assert not names_in(tmp_path / 'dist')


def test_fetch_without_an_index(tmp_path, monkeypatch):
  monkeypatch.setenv('PIP_NO_INDEX', '1')
  with pytest.raises(
      BuildError, match='pip could not fetch .*[\\s\\S]*network'):
    official.official_wheel('3.11', tmp_path, print)
  assert not names_in(tmp_path)


# Faults of the checkout and of the machine.


def test_patch_that_does_not_apply_is_named(project, tmp_path):
  patch = project.patch('bad', 'config: add a line',
                        'torch_xla/_dynamo/config.py',
                        lambda lines: lines[:2] + ['# ours\n'] + lines[2:])
  assert '+# ours' in patch.read_text()
  patch.write_text(patch.read_text().replace('+# ours', '+# others'))
  with pytest.raises(BuildError) as raised:
    build(project, tmp_path / 'dist')
  assert 'applying the patches: ' in str(raised.value)
  assert 'bad/config-add-a-line.patch' in str(raised.value)
  assert not names_in(tmp_path / 'dist')


def test_overlay_never_overwrites_an_official_file(project, tmp_path):
  project.series('empty')
  project.file('torch_xla/runtime.py')
  with pytest.raises(BuildError, match='torch_xla/runtime.py would overwrite'):
    build(project, tmp_path / 'dist')
  assert not names_in(tmp_path / 'dist')


def test_overlay_leaves_out_what_is_no_part_of_the_package(project):
  for name in ('shardy/a.py', 'shardy/a.py~', 'shardy/__pycache__/a.pyc.17',
               'shardy/a.pyc', 'shardy/.hidden', 'csrc/pjrt_shardy/a.c',
               'shardy/BUILD'):
    project.file(f'torch_xla/{name}')
  assert overlay.wheel_files(project.root) == ['torch_xla/shardy/a.py']
  (project.root / 'torch_xla/shardy/link.py').symlink_to('a.py')
  with pytest.raises(BuildError, match='link.py is a symbolic link'):
    overlay.wheel_files(project.root)


@pytest.mark.parametrize('name', ['README.md', 'LICENSE'])
def test_file_missing_from_the_checkout(name, project, tmp_path):
  project.series('empty')
  (project.root / name).unlink()
  with pytest.raises(BuildError, match=f'No such file or directory: .*/{name}'):
    build(project, tmp_path / 'dist')


def test_no_bazel(tmp_path):
  done = setup_py(
      'bdist_wheel', '-d', str(tmp_path), BAZEL=str(tmp_path / 'bazel'))
  assert done.returncode == 1
  assert 'is no program' in done.stderr
  assert 'apt-get install bazel-bootstrap' in done.stderr
  assert 'BAZEL=' in done.stderr
  assert 'Traceback' not in done.stderr


def test_no_git(project, tmp_path, monkeypatch):
  project.series('empty')
  monkeypatch.setenv('PATH', str(tmp_path))
  with pytest.raises(BuildError, match='git is not on the path'):
    build(project, tmp_path / 'dist')


@pytest.mark.parametrize('script, message', [
    ('echo no such target >&2; exit 1', 'no such target'),
    ('exit 0', 'built no libgraph_identity.so'),
    ('d=build/bazel-bin/torch_xla/csrc/graph_identity; mkdir -p $d; '
     'echo text > $d/libgraph_identity.so', 'not a shared library'),
])
def test_bazel_that_fails(script, message, project, tmp_path, monkeypatch):
  project.series('empty')
  bazel = project.file('bazel', f'#!/bin/sh\n{script}\n')
  bazel.chmod(0o755)
  monkeypatch.setenv('BAZEL', str(bazel))
  with pytest.raises(BuildError) as raised:
    build(project, tmp_path / 'dist', built_plugins=None)
  assert 'building the plugins with Bazel: ' in str(raised.value)
  assert message in str(raised.value)
  assert not names_in(tmp_path / 'dist')


@pytest.mark.parametrize('fault', [OSError('disk full'), KeyboardInterrupt()])
def test_half_a_wheel_is_never_left(fault, project, tmp_path, monkeypatch):
  project.series('empty')
  dist = tmp_path / 'dist'
  write = archive.write

  def fail_at_the_end(file, members, stamp):
    write(file, members[:-1], stamp)
    file.flush()
    assert len(names_in(dist)) == 1  # so there was something to clear away
    raise fault

  monkeypatch.setattr(archive, 'write', fail_at_the_end)
  kind = BuildError if isinstance(fault, OSError) else KeyboardInterrupt
  with pytest.raises(kind):
    build(project, dist)
  assert not names_in(dist)
