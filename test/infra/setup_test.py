"""The scripts: what they run, and on machines that lack something what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import shutil
import subprocess

from infra_project import ROOT
import pytest

SCRIPTS = ('infra/setup.sh', 'infra/demo.sh', 'infra/develop.sh',
           'infra/test.sh', 'test/core_test.sh', 'infra/requirements.txt',
           'infra/requirements-test.txt')
TOOLS = ('bash', 'basename', 'cat', 'chmod', 'cp', 'dirname', 'env', 'find',
         'ln', 'mkdir', 'readlink', 'rm', 'sha256sum', 'sort', 'true', 'xargs')
# What the digest of the wheel's inputs is made of, besides.
INPUTS = ('infra/__init__.py', 'infra/errors.py', 'infra/bazel/a',
          'infra/patchset/a', 'infra/wheel/a', 'setup.py', 'pyproject.toml',
          'BUILD', 'WORKSPACE', '.bazelrc', '.bazelversion', 'patches/a',
          'torch_xla/csrc/a', 'torch_xla/shardy/pjrt_abi.inc',
          'torch_xla_shardy/a', 'behaviour/a', 'conformance/a',
          'test/behaviour/a')
# A Python that makes an environment of itself, and notes what is installed.
PYTHON = '''\
installed=.venv/lib/python3.11/site-packages/torch_xla/shardy/__init__.py
case "$*" in
  '-m venv .venv') mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    cp "$0" .venv/bin/pip ;;
  *"pip install"*torch_xla*) mkdir -p "$(dirname $installed)"
    rm -f $installed; echo > $installed ;;
  infra/develop.py) ln -sf /dev/null $installed ;;
esac'''


class Machine:
  """A folder of programs, and a checkout whose scripts see no others.

  Attributes:
    root: the checkout.
    bin: the programs.
  """

  def __init__(self, folder: Path, files: Sequence[str], tools: Sequence[str]):
    """Copies files of the checkout, and links programs of this machine."""
    self.root = folder / 'checkout'
    self.bin = folder / 'bin'
    self.log = folder / 'log'
    self.bin.mkdir()
    self.log.touch()
    for name in files:
      to = self.root / name
      to.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(ROOT / name, to)
    for tool in tools:
      (self.bin / tool).symlink_to(shutil.which(tool))

  def stub(self, name: str, script: str) -> None:
    """Puts a program on the machine that is logged when it runs."""
    path = self.bin / name
    path.unlink(missing_ok=True)
    path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.log}\n{script}\n')
    path.chmod(0o755)

  def remove(self, name: str) -> None:
    (self.bin / name).unlink()

  def script(self,
             name: str,
             *arguments: str,
             folder: Path | None = None,
             **variables: str) -> subprocess.CompletedProcess:
    """Runs a script of the checkout, in a folder if one is given."""
    return subprocess.run([self.bin / 'bash', self.root / name, *arguments],
                          env={
                              'PATH': str(self.bin),
                              'HOME': '/nowhere'
                          } | variables,
                          cwd=folder,
                          capture_output=True,
                          text=True,
                          check=False)

  def ran(self, name: str) -> list[str]:
    """How often, and with what, a stub ran."""
    return [
        line for line in self.log.read_text().splitlines()
        if line.startswith(f'{name} ')
    ]


@pytest.fixture(name='machine')
def machine_fixture(tmp_path) -> Machine:
  """One that has all that is needed, and whose user is root."""
  machine = Machine(tmp_path, SCRIPTS, TOOLS)
  for name in INPUTS:
    path = machine.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
  machine.stub('id', 'echo 0')
  machine.stub('apt-get', '')
  machine.stub('python3.11', PYTHON)
  for name in ('bazel', 'chromium', 'gcc', 'git', 'valgrind'):
    machine.stub(name, '')
  return machine


def _installs(machine: Machine, name: str) -> None:
  """Has apt install what is missing, as it does: without a word."""
  there = machine.bin / name
  there.rename(machine.bin / 'elsewhere')
  machine.stub('apt-get',
               f'[[ "$1" != install ]] || cp {machine.bin}/elsewhere {there}')


def _failed(done: subprocess.CompletedProcess) -> str:
  """What a script says to do."""
  assert done.returncode
  _, said, to_do = done.stderr.partition('what to do: ')
  assert said, done.stderr
  return to_do


@pytest.mark.parametrize('missing, to_do',
                         (('python3.11', 'install CPython 3.11'),
                          ('gcc', "install gcc and the C library's headers")))
def test_what_has_to_be_there(missing, to_do, machine):
  machine.remove(missing)
  assert to_do in _failed(machine.script('infra/demo.sh'))
  assert not machine.ran('apt-get')


@pytest.mark.parametrize('program, package',
                         (('bazel', 'bazel-bootstrap'), ('git', 'git'),
                          ('valgrind', 'valgrind'), ('chromium', 'chromium')))
def test_what_debian_has(program, package, machine):
  """It is said before it is installed, and what for."""
  _installs(machine, program)
  done = machine.script('infra/test.sh')
  assert done.returncode == 0, done.stderr
  assert f"==> installing Debian's package {package}, which " in done.stdout
  assert [line.split()[-1] for line in machine.ran('apt-get')
         ] == ['-qq', package]
  # Once.
  assert 'Debian' not in machine.script('infra/test.sh').stdout


def test_a_bazel_that_is_named(machine):
  machine.remove('bazel')
  done = machine.script('infra/demo.sh', BAZEL='/somewhere/bazel')
  assert done.returncode == 0 and 'Debian' not in done.stdout


def test_root_by_sudo(machine):
  _installs(machine, 'bazel')
  machine.stub('id', 'echo 1000')
  machine.stub('sudo', '[[ "$1" == -n ]] && shift && exec "$@"')
  done = machine.script('infra/demo.sh')
  assert done.returncode == 0, done.stderr
  assert len(machine.ran('apt-get')) == 2


# Programs that are other ones, or are not there.
_USER = {'id': 'echo 1000'}
_SUDO_WITH_A_PASSWORD = 'echo "sudo: a password is required" >&2; exit 1'


@pytest.mark.parametrize(
    'programs, to_do', ((_USER, "have root run 'apt-get install "), (_USER | {
        'sudo': _SUDO_WITH_A_PASSWORD
    }, "have root run 'apt-get "), ({
        'apt-get': None
    }, 'there is no apt-get here: install '), ({
        'apt-get': '[[ "$1" != install ]]'
    }, "apt's mirror must be reachable")),
    ids=['no-sudo', 'password', 'no-debian', 'no-mirror'])
@pytest.mark.parametrize('script, program', (('infra/demo.sh', 'bazel'),
                                             ('infra/test.sh', 'valgrind')))
def test_what_cannot_be_installed(script, program, programs, to_do, machine):
  machine.remove(program)
  for name, text in programs.items():
    machine.remove(name) if text is None else machine.stub(name, text)
  said = _failed(machine.script(script))
  assert to_do in said and f"'{program}' is on the PATH" in said


def test_no_venv_module(machine):
  machine.stub('python3.11', f'[[ "$*" != *ensurepip* ]] || exit 1\n{PYTHON}')
  assert 'python3.11-venv' in _failed(machine.script('infra/demo.sh'))
  assert not (machine.root / '.venv').exists()
  # And what was ended before it had its pip is made again.
  machine.stub('python3.11', PYTHON)
  (machine.root / '.venv/bin').mkdir(parents=True)
  assert machine.script('infra/demo.sh').returncode == 0
  assert (machine.root / '.venv/bin/pip').exists()


def test_no_network(machine):
  """At first it is needed, for a later run not."""
  gone = machine.root / 'gone'
  machine.stub(
      'python3.11',
      f'[[ "$*" != *" install "* || ! -e {gone} ]] || exit 1\n{PYTHON}')
  machine.stub('apt-get', f'[[ ! -e {gone} ]]')
  gone.touch()
  assert 'it needs the network' in _failed(machine.script('infra/demo.sh'))
  gone.unlink()
  assert machine.script('infra/test.sh').returncode == 0
  gone.touch()
  for script in ('infra/demo.sh', 'infra/test.sh'):
    done = machine.script(script)
    assert done.returncode == 0, done.stderr


def test_packages_of_the_tests_that_fail_beside_the_build(machine):
  machine.stub('python3.11',
               f'[[ "$*" != *requirements-test* ]] || exit 1\n{PYTHON}')
  done = machine.script('infra/test.sh')
  assert 'it needs the network' in _failed(done)
  assert 'the packages of infra/requirements-test.txt' in done.stderr
  assert not any(
      'pytest' in line or 'dist/' in line for line in machine.ran('python3.11'))


def test_what_bazel_runs(machine):
  """The core, where infra/test.sh has run; else what to run."""
  done = machine.script('test/core_test.sh')
  assert done.returncode == 1
  assert 'error: no .venv with pytest' in done.stderr
  assert 'bash infra/develop.sh' in done.stderr
  assert machine.script('infra/test.sh').returncode == 0
  assert machine.script('test/core_test.sh').returncode == 0
  assert machine.ran('python3.11')[-1].endswith(
      ' -m pytest --tier=core -p no:budgets')


# What runs again when something has changed.

_CALLS = (('bdist_wheel', 'build'), ('torch_xla-', 'install'),
          ('infra/develop.py', 'link'))


def _calls(machine: Machine, script: str, *arguments: str) -> list[str]:
  """What a script asks of .venv's Python, shortened."""
  machine.log.write_text('')
  done = machine.script(f'infra/{script}', *arguments)
  assert done.returncode == 0, done.stderr
  calls = []
  for line in machine.ran('python3.11'):
    calls += [name for mark, name in _CALLS if mark in line]
    if ' -m pytest' in line:
      calls.append(line.partition(' -m pytest')[2].strip())
  return calls


def test_wheel_is_built_when_what_it_is_made_of_changes(machine):
  built = ['build', 'install', '']
  assert _calls(machine, 'test.sh') == built
  assert _calls(machine, 'test.sh') == ['']
  for name in ('infra/patchset/a', 'infra/wheel/a', 'setup.py',
               'pyproject.toml', 'patches/a', 'torch_xla/csrc/a',
               'torch_xla/shardy/pjrt_abi.inc'):
    (machine.root / name).write_text('changed')
    assert _calls(machine, 'test.sh') == built, name
  for name in ('README.md', 'LICENSE', 'test/a_test.py', 'infra/series.py'):
    (machine.root / name).write_text('changed')
    assert _calls(machine, 'test.sh') == [''], name


def test_python_is_linked_when_it_alone_changes(machine):
  assert _calls(machine, 'develop.sh') == ['build', 'install', 'link']
  assert _calls(machine, 'develop.sh')[-1] == 'link'
  (machine.root / 'torch_xla_shardy/a').write_text('changed')
  # What is linked stays linked, whatever comes.
  assert _calls(machine, 'test.sh') == ['link', '']
  (machine.root / 'torch_xla/csrc/a').write_text('changed')
  assert _calls(machine, 'test.sh') == ['build', 'install', 'link', '']


def test_a_tier_comes_first_and_other_arguments_pass(machine):
  _calls(machine, 'demo.sh')
  assert _calls(machine, 'test.sh', '--core') == ['--tier=core']
  assert _calls(machine, 'test.sh', '--all', '-x',
                'test/infra') == ['--tier=all -x test/infra']
  for script in ('demo.sh', 'develop.sh', 'test.sh'):
    done = machine.script(f'infra/{script}', '--help')
    assert done.stdout.startswith(f'usage: bash infra/{script}')
    assert '==>' not in done.stdout
