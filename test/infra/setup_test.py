"""The scripts on machines that lack something: each says what to do."""

from __future__ import annotations

import subprocess

from machine import Machine
import pytest

SCRIPTS = ('infra/setup.sh', 'infra/demo.sh', 'infra/test.sh',
           'test/core_test.sh', 'infra/requirements.txt',
           'infra/requirements-test.txt')
TOOLS = ('bash', 'basename', 'chmod', 'cp', 'dirname', 'env', 'find', 'ln',
         'mkdir', 'readlink', 'sha256sum', 'sort', 'true', 'xargs')
# What the digest of the wheel's inputs is made of, besides.
INPUTS = ('infra/__init__.py', 'infra/errors.py', 'infra/bazel/a',
          'infra/patchset/a', 'infra/wheel/a', 'setup.py', 'pyproject.toml',
          'BUILD', 'WORKSPACE', '.bazelrc', '.bazelversion', 'patches/a',
          'torch_xla/csrc/a', 'torch_xla/shardy/pjrt_abi.inc',
          'torch_xla_shardy/a', 'behaviour/a', 'conformance/a',
          'test/behaviour/a')
# A Python that makes an environment of itself.
PYTHON = '''\
if [[ "$*" == '-m venv .venv' ]]; then
  mkdir -p .venv/bin
  cp "$0" .venv/bin/python
  cp "$0" .venv/bin/pip
fi'''


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


def _no_sudo(machine: Machine) -> None:
  machine.stub('id', 'echo 1000')


def _sudo_with_a_password(machine: Machine) -> None:
  machine.stub('id', 'echo 1000')
  machine.stub('sudo', 'echo "sudo: a password is required" >&2; exit 1')


def _no_debian(machine: Machine) -> None:
  machine.remove('apt-get')


def _no_mirror(machine: Machine) -> None:
  machine.stub('apt-get', '[[ "$1" != install ]]')


@pytest.mark.parametrize('spoil, to_do',
                         ((_no_sudo, "have root run 'apt-get install "),
                          (_sudo_with_a_password, "have root run 'apt-get "),
                          (_no_debian, 'there is no apt-get here: install '),
                          (_no_mirror, "apt's mirror must be reachable")))
@pytest.mark.parametrize('script, program', (('infra/demo.sh', 'bazel'),
                                             ('infra/test.sh', 'valgrind')))
def test_what_cannot_be_installed(script, program, spoil, to_do, machine):
  machine.remove(program)
  spoil(machine)
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
