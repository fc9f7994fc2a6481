"""Links to the checkout's Python in an installed wheel."""

from pathlib import Path
import shutil
import sys
import zipfile

from infra_project import output_of, Project
import pytest
from small_wheels import INFO

from infra import develop
from infra.errors import BuildError
from infra.wheel import pins
from infra.wheel.overlay import wheel_files

pytestmark = pytest.mark.slow  # The core has series_test.

OFFICIAL = ('torch_xla/__init__.py', 'torch_xla/runtime.py')


@pytest.fixture(name='checkout')
def checkout_fixture(project) -> Project:
  for name in ('torch_xla/shardy/__init__.py', 'torch_xla/shardy/old/a.py',
               'torch_xla/shardy/old/data.txt', 'torch_xla/csrc/a.c',
               'torch_xla_shardy/old/c.py'):
    project.file(name)
  return project


@pytest.fixture(name='wheel')
def wheel_fixture(checkout, tmp_path) -> Path:
  """A wheel that is as small as can be."""
  wheel = tmp_path / pins.wheel_name(pins.VERSION, '3.11')
  files = {name: b'official = True\n' for name in OFFICIAL}
  files |= {member: b'\x7fELF' for member in pins.PLUGINS}
  for name in wheel_files(checkout.root):
    files[name] = (checkout.root / name).read_bytes()
  files[f'{INFO}/METADATA'] = (
      f'Metadata-Version: 2.1\nName: torch_xla\nVersion: {pins.VERSION}\n'
  ).encode()
  files[f'{INFO}/WHEEL'] = (
      b'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
  files[f'{INFO}/RECORD'] = ''.join(
      f'{name},,\n' for name in [*files, f'{INFO}/RECORD']).encode()
  with zipfile.ZipFile(wheel, 'w') as archive:
    for name, data in files.items():
      archive.writestr(name, data)
  return wheel


@pytest.fixture(name='site')
def site_fixture(wheel, tmp_path) -> Path:
  """Where that wheel is installed: in an environment of its own."""
  environment = tmp_path / 'environment'
  output_of(sys.executable, '-m', 'venv', '--without-pip', environment)
  [site] = environment.glob('lib/python*/site-packages')
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(site)
  return site


def pip(environment: Path, *arguments: str) -> None:
  """Runs pip on another environment than this one."""
  output_of(sys.executable, '-m', 'pip', '--disable-pip-version-check',
            '--no-input', '--python', environment, *arguments)


def links_in(site: Path) -> dict[str, Path]:
  """What each link points to."""
  return {
      path.relative_to(site).as_posix(): path.readlink()
      for path in site.glob('torch_xla*/**/*')
      if path.is_symlink()
  }


def targets(checkout: Project) -> dict[str, Path]:
  """What the links should be: all that goes into the wheel."""
  return {name: checkout.root / name for name in wheel_files(checkout.root)}


def test_pip_takes_away_links_and_not_what_they_point_to(checkout, site):
  assert develop.link(checkout.root, site, OFFICIAL, ()) == 4
  # A file that came after the wheel was built.
  checkout.file('torch_xla/shardy/new/b.py')
  assert develop.link(checkout.root, site, OFFICIAL, ()) == 1
  assert links_in(site) == targets(checkout)
  assert develop.link(checkout.root, site, OFFICIAL, ()) == 0

  before = sorted(checkout.root.rglob('*'))
  pip(site.parents[2], 'uninstall', '--yes', 'torch_xla')
  assert sorted(checkout.root.rglob('*')) == before
  assert all(path.is_file() for path in targets(checkout).values())
  assert not (site / 'torch_xla').exists()
  assert not (site / INFO).exists()


def test_pip_installs_over_links(checkout, site, wheel):
  develop.link(checkout.root, site, OFFICIAL, ())
  checkout.file('torch_xla/shardy/old/a.py', 'edited = True\n')
  pip(site.parents[2], 'install', '--no-deps', '--force-reinstall', str(wheel))
  assert not links_in(site)
  assert (site / 'torch_xla/shardy/old/a.py').read_text() == 'ours = True\n'
  assert (checkout.root /
          'torch_xla/shardy/old/a.py').read_text() == 'edited = True\n'


def test_removed_files_go_and_other_files_stay(checkout, site):
  cache = site / 'torch_xla/shardy/old/__pycache__'
  cache.mkdir(exist_ok=True)
  (cache / 'a.cpython-311.pyc').write_bytes(b'')
  shutil.rmtree(checkout.root / 'torch_xla/shardy/old')
  assert develop.link(checkout.root, site, OFFICIAL, ()) == 4
  # Not even an empty package is left that could be imported.
  assert not (site / 'torch_xla/shardy/old').exists()
  assert links_in(site) == targets(checkout)
  for name in (*OFFICIAL, *pins.PLUGINS):
    assert (site / name).is_file()
  # Likewise of a file that was linked.
  (checkout.root / 'torch_xla/shardy/__init__.py').unlink()
  assert develop.link(checkout.root, site, OFFICIAL, ()) == 1
  assert links_in(site) == targets(checkout)


def test_nothing_is_linked_where_it_would_be_wrong(checkout, site, tmp_path):
  with pytest.raises(BuildError, match='infra/develop.sh does'):
    develop.link(checkout.root, tmp_path, OFFICIAL, ())
  checkout.file('torch_xla/runtime.py')
  with pytest.raises(BuildError, match='runtime.py would overwrite'):
    develop.link(checkout.root, site, OFFICIAL, ())
  assert not links_in(site)
