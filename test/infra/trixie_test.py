"""The root of Debian trixie: what is refused, how it is made and entered."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import subprocess

from infra_project import ROOT
from machine import Machine
import pytest

from infra.release import smoke
from infra.release.trial import try_wheel
from infra.wheel.build import build_wheel

SCRIPTS = ('infra/trixie.sh', 'infra/trixie_enter.sh')
TRIXIE = ROOT / 'build' / 'trixie'
# What the scripts take from a machine, besides what the tests put there.
TOOLS = ('bash', 'cat', 'cp', 'dirname', 'env', 'flock', 'grep', 'mkdir', 'mv',
         'realpath', 'rm', 'sed', 'tail', 'true')
SKIPPED = 77


class Trixie(Machine):
  """A machine with what the scripts run, as stubs."""

  def __init__(self, folder: Path):
    super().__init__(folder, SCRIPTS, TOOLS)
    self.stub('id', 'echo 0')
    self.stub('unshare', 'shift 3; exec "$@"')
    self.stub('apt-config', 'echo \'Acquire::Check-Date "false";\'')
    self.stub('apt-get', '[ "$1" != indextargets ] || echo mirror://debian/')
    # Where it is told to, the packages of a base system.
    self.stub(
        'debootstrap', 'mkdir -p "$4/etc/apt/apt.conf.d" '
        '"$4/usr/local/share"; echo "I: done"')
    self.stub('chroot', 'exit 0')

  def run(self,
          *arguments: str,
          folder: Path | None = None) -> subprocess.CompletedProcess:
    """Runs infra/trixie.sh, in a folder if one is given."""
    return self.script(SCRIPTS[0], *arguments, folder=folder)


@pytest.fixture(name='machine')
def machine_fixture(tmp_path) -> Trixie:
  return Trixie(tmp_path)


def test_help(machine):
  done = machine.run('--help')
  assert (done.returncode, done.stderr) == (0, '')
  assert 'usage: bash infra/trixie.sh' in done.stdout
  assert 'status 77' in done.stdout


@pytest.mark.parametrize('arguments, message',
                         (((), "there is no command ''"),
                          (('nonsense',), "there is no command 'nonsense'"),
                          (('run',), 'run takes a program'),
                          (('--root',), '--root takes a folder')))
def test_wrong_arguments(arguments, message, machine):
  done = machine.run(*arguments)
  assert done.returncode == 1
  assert message in done.stderr
  assert not machine.ran('unshare')


def not_root(machine):
  machine.stub('id', 'echo 1000')


def not_allowed(machine):
  machine.stub('unshare', 'echo "unshare: not permitted" >&2; exit 1')


@pytest.mark.parametrize('command',
                         (('make',), ('run', 'true'), ('examples',), ('test',)))
@pytest.mark.parametrize(
    'spoil, reason',
    ((not_root, 'run it as root'), (not_allowed, 'mounting is not allowed'),
     (lambda machine: machine.remove('chroot'), 'there is no chroot'),
     (lambda machine: machine.remove('apt-get'), 'there is no apt'),
     (lambda machine: machine.stub('apt-get', 'true'), 'no mirror of Debian')))
def test_a_machine_that_cannot(spoil, reason, command, machine):
  spoil(machine)
  done = machine.run(*command)
  assert done.returncode == SKIPPED
  assert done.stderr.startswith('skipped: ') and reason in done.stderr
  assert len(done.stderr.splitlines()) == 1
  assert not (machine.root / 'build/trixie').exists()


def test_the_root_is_made_once(machine):
  for _ in range(2):
    done = machine.run('make')
    assert done.returncode == 0, done.stderr
  [made] = machine.ran('debootstrap')
  folder = machine.root / 'build' / 'trixie'
  assert made.split()[-3:] == ['trixie', f'{folder}.part', 'mirror://debian/']
  assert 'libpython3.13' in made
  assert 'Check-Date' in (folder / 'etc/apt/apt.conf.d/90outside').read_text()
  # In a namespace of mounts of its own.
  assert any('debootstrap' in line for line in machine.ran('unshare'))
  assert not machine.ran('apt-get update')


def test_another_folder(machine, tmp_path):
  assert machine.run('--root', str(tmp_path / 'other'), 'make').returncode == 0
  assert (tmp_path / 'other' / 'etc').is_dir()
  assert not (machine.root / 'build').exists()


def test_a_folder_counts_from_where_one_is(machine, tmp_path):
  """The caller's folder, not the checkout, which the script goes into."""
  here = tmp_path / 'here and there'
  here.mkdir()
  for name in ('other', '../other', './a b'):
    done = machine.run('--root', name, 'make', folder=here)
    assert done.returncode == 0, done.stderr
    assert (here / name / 'etc').is_dir()
  assert machine.run('make', folder=here).returncode == 0
  assert (machine.root / 'build/trixie/etc').is_dir()
  assert {p.name for p in machine.root.iterdir()} == {'infra', 'build'}


def test_a_root_is_made_whole_or_not_at_all(machine):
  machine.stub('debootstrap', 'mkdir -p "$4/etc"; echo "E: no mirror"; exit 1')
  done = machine.run('make')
  assert done.returncode == 1
  assert done.stderr.startswith('error: debootstrap failed; the end of ')
  assert 'E: no mirror' in done.stderr
  assert not (machine.root / 'build/trixie').exists()


def test_debootstrap_is_installed(machine):
  there = machine.bin / 'debootstrap'
  there.rename(machine.bin / 'elsewhere')
  machine.stub(
      'apt-get', f'[ "$1" != install ] || mv {machine.bin}/elsewhere {there}\n'
      '[ "$1" != indextargets ] || echo mirror://debian/')
  done = machine.run('make')
  assert done.returncode == 0
  assert "==> installing Debian's packages debootstrap and " in done.stderr
  [installed] = machine.ran('apt-get install')
  assert installed.endswith(' debootstrap debian-archive-keyring')


def test_debootstrap_that_cannot_be_installed(machine):
  machine.remove('debootstrap')
  machine.stub('apt-get', '[ "$1" != install ]')
  done = machine.run('make')
  assert done.returncode == SKIPPED
  assert 'debootstrap is missing' in done.stderr


def test_no_venv_to_build_with(machine):
  done = machine.run('examples')
  assert done.returncode == 1
  assert done.stderr.endswith('which bash infra/develop.sh makes\n')


# With a real root, where somebody has made one.


@pytest.fixture(name='trixie')
def trixie_fixture() -> None:
  if os.geteuid() != 0:
    pytest.skip('a root directory is entered as root')
  if not TRIXIE.is_dir():
    pytest.skip('no root of Debian trixie: bash infra/trixie.sh make')
  done = enter('true')
  if done.returncode == SKIPPED:
    pytest.skip(done.stderr.strip())


def enter(*command: str) -> subprocess.CompletedProcess:
  return subprocess.run(['bash', ROOT / SCRIPTS[0], 'run', *command],
                        capture_output=True,
                        text=True,
                        check=False)


def mounted() -> list[str]:
  return [
      line for line in Path('/proc/self/mounts').read_text().splitlines()
      if str(TRIXIE) in line
  ]


@pytest.mark.usefixtures('trixie')
def test_a_program_runs_there():
  done = enter(
      'python3.13', '-c', 'import os, sys; print(sys.version_info[:2], '
      'os.path.samefile(os.getcwd(), sys.argv[1])); sys.exit(5)', str(ROOT))
  assert (done.stdout, done.returncode) == ('(3, 13) True\n', 5), done.stderr
  assert not mounted()


@pytest.mark.usefixtures('trixie')
def test_the_checkout_is_read_only_there():
  done = enter('touch', str(ROOT / 'README.md'))
  assert done.returncode != 0 and 'Read-only file system' in done.stderr


@pytest.mark.usefixtures('trixie')
def test_a_program_that_is_ended_leaves_nothing_mounted():
  with subprocess.Popen(
      ['bash', ROOT / SCRIPTS[0], 'run', 'sh', '-c', 'echo $$; exec sleep 60'],
      stdout=subprocess.PIPE) as process:
    inside = Path('/proc') / process.stdout.readline().decode().strip()
    assert inside.is_dir()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
  assert not inside.exists()
  assert not mounted()


@pytest.mark.nightly
@pytest.mark.usefixtures('trixie')
def test_the_wheel_trains_there(built_plugins):
  wheel = build_wheel(
      ROOT, TRIXIE / 'wheels', '3.13', built_plugins=built_plugins)
  inside = Path('/') / wheel.relative_to(TRIXIE)
  trial = try_wheel(ROOT, '3.13', inside)
  if trial.outcome.verdict == smoke.NOT_RUN:
    pytest.skip(trial.outcome.text)
  assert trial.outcome.verdict == smoke.PASSED, trial.outcome.text
