"""Links to the checkout's Python in an installed wheel, and when they come."""

import os
from pathlib import Path
import shutil
import subprocess
import sys
import zipfile

from infra_project import Project, ROOT
import pytest

from infra import develop
from infra.errors import BuildError
from infra.wheel import pins
from infra.wheel.overlay import wheel_files

pytestmark = pytest.mark.slow  # The core has series_test.

OFFICIAL = ('torch_xla/__init__.py', 'torch_xla/runtime.py')
INFO = f'torch_xla-{pins.VERSION}.dist-info'


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
  subprocess.run([sys.executable, '-m', 'venv', '--without-pip', environment],
                 check=True)
  [site] = environment.glob('lib/python*/site-packages')
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(site)
  return site


def pip(environment: Path, *arguments: str) -> None:
  """Runs pip on another environment than this one."""
  subprocess.run([
      sys.executable, '-m', 'pip', '--quiet', '--disable-pip-version-check',
      '--no-input', '--python', environment, *arguments
  ],
                 check=True)


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


# The scripts, with programs that only say what they were asked for.

_PROGRAM = '''\
#!/bin/bash
echo "$(basename "$0") $*" >> called
installed=.venv/lib/python3.11/site-packages/torch_xla/shardy/__init__.py
case "$*" in
  *"pip install"*torch_xla*) mkdir -p "$(dirname $installed)"
    rm -f $installed; echo > $installed ;;
  infra/develop.py) ln -sf /dev/null $installed ;;
esac
'''


class Scripts:
  """A checkout with the scripts, and no tool that does anything."""

  def __init__(self, project: Project):
    self.project = project
    self._bin = project.root.parent / 'bin'
    for name in ('setup.sh', 'test.sh', 'develop.sh', 'demo.sh',
                 'requirements.txt', 'requirements-test.txt'):
      project.file(f'infra/{name}', (ROOT / 'infra' / name).read_text())
    for name in ('infra/__init__.py', 'infra/errors.py', 'infra/bazel/a',
                 'infra/patchset/a.py', 'infra/wheel/a.py', 'setup.py',
                 'pyproject.toml', 'BUILD', 'WORKSPACE', '.bazelrc',
                 '.bazelversion', 'patches/series.toml', 'torch_xla/csrc/a.c',
                 'torch_xla/shardy/a.py', 'torch_xla/shardy/pjrt_abi.inc',
                 'torch_xla_shardy/a.py', 'behaviour/a.py', 'conformance/a.py',
                 'test/behaviour/a.py', 'test/a_test.py'):
      project.file(name)
    self._bin.mkdir()
    venv = project.root / '.venv/bin'
    venv.mkdir(parents=True)
    for program in (venv / 'python',
                    *(self._bin / name
                      for name in ('python3.11', 'bazel', 'gcc', 'valgrind',
                                   'chromium'))):
      program.write_text(_PROGRAM)
      program.chmod(0o755)

  def run(self, script: str, *arguments: str) -> tuple[list[str], str]:
    """What .venv's Python was asked for, shortened, and what was printed."""
    called = self.project.root / 'called'
    called.unlink(missing_ok=True)
    done = subprocess.run(['bash', f'infra/{script}', *arguments],
                          cwd=self.project.root,
                          env={
                              'PATH': f'{self._bin}:{os.environ["PATH"]}',
                              'PYTHON': 'python3.11'
                          },
                          capture_output=True,
                          text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    calls = []
    for line in called.read_text().splitlines():
      for name, mark in (('build', 'bdist_wheel'), ('install', 'torch_xla-'),
                         ('link', 'infra/develop.py'), ('test', '-m pytest')):
        if line.startswith('python ') and mark in line:
          calls.append(
              line.removeprefix('python -m pytest').strip() if name ==
              'test' else name)
    return calls, done.stdout


@pytest.fixture(name='scripts')
def scripts_fixture(project) -> Scripts:
  return Scripts(project)


def test_wheel_is_built_when_what_it_is_made_of_changes(scripts):
  calls, printed = scripts.run('test.sh')
  assert calls == ['build', 'install', '']
  assert 'linking' not in printed
  assert scripts.run('test.sh')[0] == ['']
  for name in ('infra/patchset/a.py', 'infra/wheel/a.py', 'setup.py',
               'pyproject.toml', 'patches/series.toml', 'torch_xla/csrc/a.c',
               'torch_xla/shardy/pjrt_abi.inc'):
    scripts.project.file(name, 'changed\n')
    assert scripts.run('test.sh')[0] == ['build', 'install', ''], name
  for name in ('README.md', 'LICENSE', 'CHANGELOG.md', 'test/a_test.py',
               'infra/series.py'):
    scripts.project.file(name, 'changed\n')
    assert scripts.run('test.sh')[0] == [''], name


def test_python_is_linked_when_it_alone_changes(scripts):
  scripts.run('test.sh')
  scripts.project.file('torch_xla/shardy/a.py', 'changed\n')
  calls, printed = scripts.run('test.sh')
  assert calls == ['link', '']
  assert "==> linking the checkout's Python into .venv" in printed
  # What is linked stays linked, whatever comes.
  assert scripts.run('test.sh')[0] == ['link', '']
  scripts.project.file('torch_xla/csrc/a.c', 'changed\n')
  assert scripts.run('test.sh')[0] == ['build', 'install', 'link', '']


def test_develop_links_always(scripts):
  assert scripts.run('develop.sh')[0] == ['build', 'install', 'link']
  assert scripts.run('develop.sh')[0][-1] == 'link'


def test_a_tier_comes_first_and_other_arguments_pass(scripts):
  scripts.run('demo.sh')
  assert scripts.run('test.sh', '--core')[0] == ['--tier=core']
  assert scripts.run('test.sh', '--all', '-x',
                     'test/infra')[0] == ['--tier=all -x test/infra']
  assert scripts.run('test.sh', '-k', 'a')[0] == ['-k a']


@pytest.mark.parametrize('script', ['demo.sh', 'develop.sh', 'test.sh'])
def test_help_does_nothing_else(script, tmp_path):
  done = subprocess.run(['bash', ROOT / 'infra' / script, '--help'],
                        cwd=tmp_path,
                        capture_output=True,
                        text=True,
                        check=True)
  assert done.stdout.startswith(f'usage: bash infra/{script}')
  assert '==>' not in done.stdout
