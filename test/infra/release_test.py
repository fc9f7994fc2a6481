"""The release: what it refuses, what it makes, and what it says of itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
import json
from pathlib import Path
import subprocess
import sys
import zipfile

from infra_project import git
from infra_project import Project
from infra_project import ROOT
import pytest

from infra.errors import BuildError
from infra.release import __main__ as command
from infra.release import environment
from infra.release import release
from infra.release import smoke
from infra.release.notes import checksums
from infra.release.notes import notes
from infra.release.notes import section
from infra.release.notes import Section
from infra.release.trial import Trial
from infra.release.trial import try_wheel
from infra.wheel import pins
from infra.wheel.build import running_python
from infra.wheel.pure_wheel import PureWheel
from infra.wheel.official import sha256

CHANGELOG = f"""\
# Changelog

## {pins.VERSION} (2026-01-31)

- The new one.

## 1.0 (2025-01-31)

- The old one.

## 0.9
"""
PASSED = smoke.Outcome(smoke.PASSED, 'loss 2.0 -> 1.0')
FAILED = smoke.Outcome(smoke.FAILED, 'the loss did not fall')

# What the changelog says.


def test_a_section_ends_where_the_next_begins():
  assert section(CHANGELOG, pins.VERSION) == Section('(2026-01-31)',
                                                     '- The new one.')
  assert section(CHANGELOG, '1.0').text == '- The old one.'


@pytest.mark.parametrize('version, message', (
    ('2.0', rf'no section for 2\.0 \(it has {pins.VERSION.replace("+", ".")}, '
     '1.0, 0.9'),
    ('0.9', r'says nothing under 0\.9'),
))
def test_no_section(version, message):
  with pytest.raises(BuildError, match=message):
    section(CHANGELOG, version)


@pytest.mark.parametrize('heading, released',
                         (('(2026-01-31)', True), ('(unreleased)', False),
                          ('', False)))
def test_only_a_dated_section_is_released(heading, released):
  assert Section(heading, '- text').released == released


def test_this_checkout_has_a_section_for_its_version():
  changelog = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
  assert section(changelog, pins.VERSION).text.startswith('- ')


def program(path: Path, text: str) -> Path:
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(f'#!/bin/sh\n{text}\n')
  path.chmod(0o755)
  return path


# Environments.


@pytest.mark.parametrize('version, lends',
                         (('3.11', ['nvidia', 'nvidia_a-1.dist-info', 'torch']),
                          ('3.12', ['nvidia', 'nvidia_a-1.dist-info'])))
def test_an_environment_borrows_what_fits(version, lends, tmp_path):
  site = tmp_path / '.venv/lib/python3.11/site-packages'
  for name in ('nvidia', 'nvidia_a-1.dist-info', 'torch', 'numpy'):
    (site / name).mkdir(parents=True)
  folder = tmp_path / 'new'
  own = folder / f'lib/python{version}/site-packages'
  own.mkdir(parents=True)
  program(folder / 'bin/python', '')
  for _ in range(2):  # A second run keeps what is there.
    environment.make_environment(folder, tmp_path)
  lent = Path((own / 'lent.pth').read_text().strip())
  assert (folder / 'bin/python').read_text() == '#!/bin/sh\n\n'
  assert sorted(link.name for link in lent.iterdir()) == lends
  assert all(link.resolve() == site / link.name for link in lent.iterdir())


def test_an_environment_without_lender(tmp_path):
  own = tmp_path / 'new/lib/python3.11/site-packages'
  own.mkdir(parents=True)
  python = program(tmp_path / 'new/bin/python', '')
  assert environment.make_environment(tmp_path / 'new', tmp_path) == python
  assert not list(own.iterdir())


# Trying a wheel.


@pytest.mark.parametrize('name', ('environment', 'smoke'))
def test_what_runs_in_the_wheels_python_takes_any(name):
  script = ROOT / 'infra/release' / f'{name}.py'
  ast.parse(script.read_text(), feature_version=(3, 10))
  # Isolated: neither the checkout nor the script's folder is on its path.
  done = subprocess.run([sys.executable, '-I', script, '--help'],
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, done.stderr


def trained(losses=(2.0, 1.0), partitioners=('shardy',)) -> smoke.Outcome:
  return smoke.judge({
      'python': '3.11.7',
      'torch': '2.9.0',
      'modules': 232,
      'losses': losses,
      'partitioners': partitioners
  })


def test_training_is_judged():
  assert trained().verdict == smoke.PASSED
  assert '232 modules imported, loss 2.0000 -> 1.0000 in 2 steps' in (
      trained().text)
  assert 'did not fall' in trained(losses=(1.0, 1.0)).text
  assert trained(losses=(1.0, float('nan'))).verdict == smoke.FAILED
  assert 'by gspmd' in trained(partitioners=('shardy', 'gspmd')).text
  assert trained(partitioners=()).verdict == smoke.FAILED


@pytest.fixture(name='checkout')
def checkout_fixture(tmp_path, monkeypatch) -> Path:
  """A checkout whose requirements pin torch; the PATH has its bin/ alone."""
  requirements = tmp_path / 'infra/requirements.txt'
  requirements.parent.mkdir()
  requirements.write_text(
      '# Why torch: see README.\ntorch==2.9.0\nnumpy==2.4.6\n')
  monkeypatch.setenv('PATH', str(tmp_path / 'bin'))
  return tmp_path


def python_that(says: str, root: Path) -> Trial:
  """Tries a wheel on a Python that says something when it runs a module."""
  program(root / 'bin/python3.12',
          f'case "$1" in -c) exit 0;; *) {says};; esac')
  return try_wheel(root, '3.12', root / 'a.whl')


def test_a_wheel_is_tried(checkout):
  line = json.dumps({'verdict': smoke.PASSED, 'text': 'all well'})
  trial = python_that(f"echo \"$@\" >&2; echo noise; echo '{line}'", checkout)
  assert trial.outcome == smoke.Outcome(smoke.PASSED, 'all well')
  asked = python_that('echo "$@" >&2; exit 1', checkout)
  assert asked.outcome.text.endswith(
      f'infra/release/smoke.py {checkout / "a.whl"} torch==2.9.0')


@pytest.mark.parametrize('says', ('exit 1', 'echo 7', 'echo "{}"', 'echo no'))
def test_a_trial_that_says_nothing_has_failed(says, checkout):
  assert python_that(says, checkout).outcome.verdict == smoke.FAILED


def test_a_wheel_without_python_is_not_tried(checkout):
  trial = try_wheel(checkout, '3.12', checkout / 'a.whl')
  assert str(trial) == ('Python 3.12: not run: no python3.12 on the PATH '
                        'that makes environments')
  program(checkout / 'bin/python3.12', 'exit 1')
  assert str(try_wheel(checkout, '3.12', checkout / 'a.whl')) == str(trial)


def test_requirements_that_pin_no_torch(checkout):
  program(checkout / 'bin/python3.12', 'echo 3.12')
  (checkout / 'infra/requirements.txt').write_text('torchvision==0.24.0\n')
  with pytest.raises(BuildError, match='pins no torch: add a line'):
    try_wheel(checkout, '3.12', checkout / 'a.whl')


@pytest.mark.nightly
def test_offline_nothing_is_tried(tmp_path, monkeypatch):
  monkeypatch.setenv('PIP_NO_INDEX', '1')
  outcome = smoke.smoke(tmp_path / 'a.whl', 'torch==0.0.1', tmp_path)
  assert outcome.verdict == smoke.NOT_RUN
  assert 'could not install torch==0.0.1' in outcome.text


# The files beside the wheels.


def test_sha256sum_reads_the_checksums(tmp_path):
  (tmp_path / 'a.whl').write_bytes(b'one')
  digests = {'a.whl': sha256(tmp_path / 'a.whl')}
  (tmp_path / 'SHA256SUMS').write_text(checksums(digests))
  check = ['sha256sum', '--check', '--strict', 'SHA256SUMS']
  assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
  (tmp_path / 'a.whl').write_bytes(b'two')
  assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 1


def test_notes():
  text = notes('1.0', 'abc', '- A change.', {'a.whl': '12'}, [
      Trial('3.11', 'here', PASSED),
      Trial('3.12', '-', smoke.Outcome(smoke.NOT_RUN, 'no\npython | 3.12'))
  ])
  assert '# torch_xla 1.0\n\nBuilt from abc.\n' in text
  assert '## Changes\n\n- A change.\n' in text
  assert '| `a.whl` | `12` |' in text
  assert '| 3.11 | here | passed | loss 2.0 -> 1.0 |' in text
  assert '| 3.12 | - | not run | no python \\| 3.12 |' in text


# All of it.


@pytest.fixture(name='small')
def small_fixture(project) -> Project:
  """A small project whose commit can be released."""
  project.series('none')
  project.file('torch_xla/shardy/__init__.py')
  project.file('CHANGELOG.md', CHANGELOG)
  project.file('.gitignore', '/build/\n/dist/\n')
  (project.root / 'build').mkdir()
  (project.root / 'build/wheels').symlink_to(ROOT / 'build/wheels')
  git(project.root, 'init', '-q')
  git(project.root, 'add', '.')
  git(project.root, 'commit', '-q', '-m', 'all')
  return project


_TOOL = PureWheel('torch-xla-tool', 'A tool.', 'CHANGELOG.md', (),
                  {'torch_xla_tool/LICENSE': 'LICENSE'})


def made(root: Path, dist: Path | None,
         outcome: smoke.Outcome) -> release.Release:
  """Makes a release for this Python, with plugins that are none."""
  said: list[str] = []
  result = release.make_release(
      root,
      dist=dist,
      pythons=[running_python()],
      built_plugins={member: b'\x7fELF' for member in pins.PLUGINS},
      tools=(_TOOL,),
      say=said.append,
      attempt=lambda root, python, wheel: Trial(python, 'here', outcome))
  assert any('again' in line for line in said)
  return result


@pytest.mark.nightly
def test_a_dry_run_changes_build_alone(small):
  before = set(small.root.iterdir())
  result = made(small.root, None, PASSED)
  assert set(small.root.iterdir()) == before
  assert not git(small.root, 'status', '--porcelain')
  wheel = pins.wheel_name(pins.VERSION, running_python())
  assert result.folder == small.root / 'build/release' / pins.VERSION
  assert set(result.files) == {
      wheel, f'{wheel}.cdx.json', _TOOL.wheel_name, 'NOTES.md', 'SHA256SUMS'
  }
  assert json.loads((result.folder / f'{wheel}.cdx.json').read_bytes())
  notes_text = (result.folder / 'NOTES.md').read_text()
  assert '- The new one.' in notes_text and _TOOL.wheel_name in notes_text
  done = subprocess.run(['sha256sum', '--check', '--strict', 'SHA256SUMS'],
                        cwd=result.folder,
                        capture_output=True,
                        text=True,
                        check=True)
  assert len(done.stdout.splitlines()) == 4


@pytest.mark.slow
def test_a_release_is_written(small):
  dist = small.root / 'dist'
  result = made(small.root, dist, PASSED)
  assert sorted(path.name for path in dist.iterdir()) == list(result.files)
  assert made(small.root, dist, PASSED) == result
  wheel = dist / pins.wheel_name(pins.VERSION, running_python())
  wheel.write_bytes(b'given to somebody')
  with pytest.raises(BuildError, match='another wheel of the same version'):
    made(small.root, dist, PASSED)
  assert wheel.read_bytes() == b'given to somebody'


@pytest.mark.slow
def test_what_does_not_work_is_not_written(small):
  with pytest.raises(BuildError, match='does not work:\n.*did not fall'):
    made(small.root, small.root / 'dist', FAILED)
  assert not (small.root / 'dist').exists()


@pytest.mark.nightly
def test_a_dry_run_of_this_checkout(built_plugins):
  """It builds, verifies, installs and trains, for this Python."""
  python = running_python()
  result = release.make_release(
      ROOT, pythons=[python], built_plugins=built_plugins, say=print)
  [trial] = result.trials
  if trial.outcome.verdict == smoke.NOT_RUN:
    pytest.skip(str(trial))
  assert trial.outcome.verdict == smoke.PASSED, str(trial)
  assert pins.wheel_name(pins.VERSION, python) in result.files


def build_that_writes(contents: Iterator[bytes]):
  """A stand-in for the builder: each of its wheels has the next content."""

  def build_wheel(root, dist, python, **kwargs) -> Path:
    del root, kwargs
    wheel = dist / pins.wheel_name(pins.VERSION, python)
    wheel.write_bytes(next(contents))
    return wheel

  return build_wheel


@pytest.mark.slow
def test_two_builds_that_differ(small, monkeypatch):
  monkeypatch.setattr(release, 'build_wheel',
                      build_that_writes(iter([b'1', b'2'])))
  monkeypatch.setattr(release, 'read_bom', lambda wheel: b'{}')
  with pytest.raises(BuildError, match='two builds gave different bytes'):
    made(small.root, None, PASSED)


@pytest.mark.slow
def test_the_commit_is_released_and_no_other_file(small):
  """Whatever git is told not to show."""
  result = made(small.root, None, PASSED)
  git(small.root, 'config', 'status.showUntrackedFiles', 'no')
  git(small.root, 'update-index', '--assume-unchanged',
      'torch_xla/shardy/__init__.py')
  small.file('torch_xla/shardy/__init__.py', 'edited = True\n')
  small.file('torch_xla/shardy/new.py')
  other = made(small.root, None, PASSED)
  wheel = pins.wheel_name(pins.VERSION, running_python())
  notes_text = (other.folder / 'NOTES.md').read_text()
  assert f'Built from {result.commit}.' in notes_text
  with zipfile.ZipFile(other.folder / wheel) as file:
    assert 'torch_xla/shardy/new.py' not in file.namelist()
    assert b'edited' not in file.read('torch_xla/shardy/__init__.py')
  assert git(small.root, 'worktree', 'list').count('\n') == 0


# The command line.


def test_help(capsys):
  with pytest.raises(SystemExit) as ended:
    command.main(['--help'])
  assert ended.value.code == 0
  assert '--write' in capsys.readouterr().out


@pytest.mark.slow
def test_writing_is_refused(small, capsys):
  root, dist = small.root, small.root / 'dist'

  def refusal() -> str:
    assert command.main(['--write'], root) == 1
    return capsys.readouterr().err

  git(root, 'tag', f'v{pins.VERSION}')
  git(root, 'commit', '-q', '--allow-empty', '-m', 'more')
  assert 'names another commit' in refusal()
  git(root, 'tag', '-d', f'v{pins.VERSION}')
  small.file('CHANGELOG.md', f'## {pins.VERSION} (unreleased)\n\n- New.\n')
  git(root, 'commit', '-q', '-am', 'no date')
  assert 'no date: put it there' in refusal()
  small.file('CHANGELOG.md', '# Changelog\n')
  git(root, 'commit', '-q', '-am', 'no section')
  assert refusal().startswith('error: CHANGELOG.md has no section for')
  assert not dist.exists()
  git(root, 'revert', '-n', 'HEAD', 'HEAD~1')
  git(root, 'commit', '-q', '-m', 'put back')
  dist.write_text('')
  with pytest.raises(BuildError, match='dist is no folder'):
    made(root, dist, PASSED)
  dist.unlink()
  (dist / 'NOTES.md').mkdir(parents=True)
  with pytest.raises(BuildError, match='NOTES.md is no file'):
    made(root, dist, PASSED)
  assert [p.name for p in dist.iterdir()] == ['NOTES.md']
