"""The release: what it refuses, what it makes, and what it says of itself."""

from __future__ import annotations

import ast
from collections.abc import Callable
from collections.abc import Iterator
import functools
import itertools
import json
import os
from pathlib import Path
import shlex
import shutil
import signal
import subprocess
import sys

from infra_project import git
from infra_project import Project
from infra_project import ROOT
import pytest

from infra.errors import BuildError
from infra.release import __main__ as command
from infra.release import checks
from infra.release import environment
from infra.release import interpreters
from infra.release import place
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
from infra.wheel.verdict import Problem
from infra.wheel.verdict import Verdict

CHANGELOG = f"""\
# Changelog

## {pins.VERSION} (2026-01-31)

- The new one.

## 1.0 (2025-01-31)

- The old one.

## 0.9
"""
DATED = Section('(2026-01-31)', '- The new one.')
PASSED = smoke.Outcome(smoke.PASSED, 'loss 2.0 -> 1.0')
FAILED = smoke.Outcome(smoke.FAILED, 'the loss did not fall')
_REPLACE = os.replace

# What the changelog says.


def test_a_section_ends_where_the_next_begins():
  assert section(CHANGELOG, pins.VERSION) == DATED
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


# What stands in the way.


@pytest.fixture(name='repository')
def repository_fixture(tmp_path) -> Path:
  """A checkout with a commit."""
  root = tmp_path / 'repository'
  root.mkdir()
  (root / 'CHANGELOG.md').write_text(CHANGELOG)
  (root / '.gitignore').write_text('build/\n/dist/\n')
  for name, text in (('patches/series.toml', 'series = []\n'),
                     ('torch_xla/ours.py', 'ours = True\n'), ('LICENSE',
                                                              'BSD\n')):
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)
  git(root, 'init', '-q')
  git(root, 'add', '.')
  git(root, 'commit', '-q', '-m', 'all')
  return root


def test_a_clean_checkout_can_be_released(repository):
  checks.check_checkout(repository, pins.VERSION, DATED)
  git(repository, 'tag', f'v{pins.VERSION}')
  checks.check_checkout(repository, pins.VERSION, DATED)
  assert checks.commit_of(repository) == git(repository, 'rev-parse', 'HEAD')


def test_a_dirty_checkout_cannot(repository):
  (repository / 'new.py').write_text('')
  with pytest.raises(BuildError, match=r'(?s)differ.*new\.py.*Commit'):
    checks.check_checkout(repository, pins.VERSION, DATED)
  assert checks.commit_of(repository).endswith(', with changes')


def test_an_unreleased_section_cannot(repository):
  with pytest.raises(BuildError, match=r'\(unreleased\)`: put the date'):
    checks.check_checkout(repository, pins.VERSION,
                          Section('(unreleased)', '- text'))


def test_a_tag_elsewhere_is_in_the_way(repository):
  git(repository, 'tag', f'v{pins.VERSION}')
  git(repository, 'commit', '-q', '--allow-empty', '-m', 'more')
  with pytest.raises(BuildError, match='names another commit.*raise VERSION'):
    checks.check_checkout(repository, pins.VERSION, DATED)


def test_no_wheel_is_replaced_by_another(tmp_path):
  wheel = tmp_path / 'made' / 'a.whl'
  wheel.parent.mkdir()
  wheel.write_bytes(b'one')
  dist = tmp_path / 'dist'
  checks.check_target(dist, [wheel])
  dist.mkdir()
  (dist / 'a.whl').write_bytes(b'one')
  checks.check_target(dist, [wheel])
  (dist / 'a.whl').write_bytes(b'two')
  with pytest.raises(BuildError, match=r'a\.whl is another wheel of the same'):
    checks.check_target(dist, [wheel])


# Which Pythons there are.


def program(path: Path, text: str) -> Path:
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(f'#!/bin/sh\n{text}\n')
  path.chmod(0o755)
  return path


def look(root: Path, python: str) -> interpreters.Interpreter | str:
  """What is found on a PATH of root/bin, or the reason for nothing."""
  found = interpreters.find(root, python, {'PATH': str(root / 'bin')})
  return found.reason if isinstance(found, interpreters.Missing) else found


def test_a_python_on_the_path(tmp_path):
  python = program(tmp_path / 'bin/python3.12', 'echo 3.12')
  assert look(tmp_path, '3.12') == interpreters.Interpreter(
      (str(python),), 'python3.12 on the PATH')


@pytest.mark.parametrize(
    'text, reason',
    (('echo 3.9', 'it is Python 3.9'),
     ('printf "pyenv: not found\\nNote: see help\\n" >&2; exit 127',
      'pyenv: not found'),
     ('printf "Traceback (most\\nNo module named venv\\n" >&2; exit 1',
      'No module named venv'), ('exit 3', 'status 3')))
def test_a_python_that_is_none(text, reason, tmp_path):
  program(tmp_path / 'bin/python3.12', text)
  assert look(tmp_path, '3.12').endswith(f'does not work: {reason}')


def test_no_python(tmp_path):
  assert look(tmp_path, '3.12') == 'no python3.12 on the PATH'
  assert look(tmp_path, '3.13').startswith(
      'no python3.13 on the PATH, and no root of Debian trixie')


def test_the_python_of_a_root(tmp_path):
  (tmp_path / 'build/trixie').mkdir(parents=True)
  script = program(tmp_path / 'infra/trixie.sh',
                   '[ "$1 $2" = "run python3.13" ] && echo 3.13')
  assert look(tmp_path, '3.13') == interpreters.Interpreter(
      ('bash', str(script), 'run', 'python3.13'),
      'Debian trixie in build/trixie')
  program(script, 'echo "skipped: run it as root" >&2; exit 77')
  assert look(tmp_path, '3.13').endswith('skipped: run it as root')


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
          f'case "$1" in -c) echo 3.12;; *) {says};; esac')
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
  assert str(trial) == 'Python 3.12: not run: no python3.12 on the PATH'


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
  assert any('verifying the wheel' in line for line in said)
  return result


@pytest.mark.slow
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
  small.file('new.py')
  with pytest.raises(BuildError, match='Commit'):
    made(small.root, small.root / 'dist', PASSED)
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


def test_two_builds_that_differ(repository, monkeypatch):
  monkeypatch.setattr(release, 'build_wheel',
                      build_that_writes(iter([b'1', b'2'])))
  with pytest.raises(BuildError, match='two builds gave different bytes'):
    made(repository, None, PASSED)


def test_a_wheel_that_does_not_verify(repository, monkeypatch):
  monkeypatch.setattr(release, 'build_wheel',
                      build_that_writes(itertools.repeat(b'1')))
  monkeypatch.setattr(
      release, 'verify_wheel', lambda *args, **kwargs: Verdict(
          wheel='a.whl',
          members=(),
          problems=(Problem('torch_xla/a.py', 'is not ours'),)))
  with pytest.raises(
      BuildError, match='what it should be:\ntorch_xla/a.py: is not ours\n'):
    made(repository, repository / 'dist', PASSED)
  assert not (repository / 'dist').exists()


# The command line.


def test_help(capsys):
  with pytest.raises(SystemExit) as ended:
    command.main(['--help'])
  assert ended.value.code == 0
  assert '--write' in capsys.readouterr().out


def test_an_error_is_a_sentence(repository, capsys):
  (repository / 'CHANGELOG.md').write_text('# Changelog\n')
  assert command.main([], repository) == 1
  error = capsys.readouterr().err
  assert error.startswith('error: CHANGELOG.md has no section for')
  assert 'nothing was written to dist/' in error


def test_writing_refuses_a_dirty_checkout(repository, capsys):
  (repository / 'new.py').write_text('')
  assert command.main(['--write'], repository) == 1
  assert 'differ from it:\nnew.py: in no commit\n' in capsys.readouterr().err
  assert not (repository / 'dist').exists()


# What `--write` takes, and how it leaves dist/.


@pytest.fixture(name='write')
def write_fixture(repository, monkeypatch) -> Callable[..., int]:
  """Runs `--write` there, on wheels that are none; returns the exit status.

  It takes what happens while a wheel is tried.
  """
  monkeypatch.setattr(release, 'build_wheel',
                      build_that_writes(itertools.repeat(b'1')))
  monkeypatch.setattr(release, 'verify_wheel',
                      lambda *args, **kwargs: Verdict('a.whl', (), ()))
  monkeypatch.setattr(release, 'read_bom', lambda wheel: b'{}')

  def write(meanwhile: Callable[[], object] = lambda: None) -> int:

    def attempt(root, python, wheel) -> Trial:
      del root, wheel
      meanwhile()
      return Trial(python, 'here', PASSED)

    monkeypatch.setattr(
        command, 'make_release',
        functools.partial(
            release.make_release,
            pythons=[running_python()],
            built_plugins={'plugin': b''},
            tools=(),
            attempt=attempt))
    return command.main(['--write'], repository)

  return write


def hidden_by_exclude(root: Path) -> None:
  (root / '.git/info/exclude').write_text('*.log\n')
  (root / 'torch_xla/junk.log').write_text('junk\n')


def hidden_by_gitignore(root: Path) -> None:
  (root / 'patches/build').mkdir()
  (root / 'patches/build/junk').write_text('junk\n')


def hidden_by_settings(root: Path) -> None:
  git(root, 'config', 'status.showUntrackedFiles', 'no')
  (root / 'torch_xla/new.py').write_text('')


def hidden_by_assumption(root: Path) -> None:
  git(root, 'update-index', '--assume-unchanged', 'torch_xla/ours.py')
  (root / 'torch_xla/ours.py').write_text('edited = True\n')


def hidden_by_skipping(root: Path) -> None:
  git(root, 'update-index', '--skip-worktree', 'torch_xla/ours.py')
  (root / 'torch_xla/ours.py').unlink()


def hidden_by_line_ends(root: Path) -> None:
  git(root, 'config', 'core.autocrlf', 'true')
  (root / 'torch_xla/ours.py').write_bytes(b'ours = True\r\n')
  git(root, 'add', '.')


def hidden_among_the_series(root: Path) -> None:
  """A patch that the wheel gets, under a name that is litter elsewhere."""
  (root / 'patches/series.toml').write_text("""\
[[series]]
name = 'one'
description = 'one'
bug = 'https://example.org/1'
depends_on = []
wheel = ['one.patch~']
overlay = []
tests = []
""")
  (root / '.git/info/exclude').write_text('*~\n')
  git(root, 'commit', '-q', '-a', '-m', 'series')
  (root / 'patches/one.patch~').write_text('')


@pytest.mark.parametrize(
    'hide, told',
    ((hidden_by_exclude, 'torch_xla/junk.log: in no commit'),
     (hidden_by_gitignore, 'patches/build/junk: in no commit'),
     (hidden_by_settings, 'torch_xla/new.py: in no commit'),
     (hidden_by_assumption, 'torch_xla/ours.py: changed since the commit'),
     (hidden_by_skipping, 'torch_xla/ours.py: missing here'),
     (hidden_by_line_ends, 'torch_xla/ours.py: changed since the commit'),
     (hidden_among_the_series, 'patches/one.patch~: in no commit')))
def test_nothing_is_released_that_git_hides(hide, told, repository, write,
                                            capsys):
  assert write() == 0
  hide(repository)
  assert not git(repository, 'status', '--porcelain')
  shutil.rmtree(repository / 'dist')
  assert write() == 1
  assert f'differ from it:\n{told}\nCommit or remove' in capsys.readouterr().err
  assert not (repository / 'dist').exists()


def test_what_is_not_shipped_may_be_ignored(repository, write):
  (repository / '.git/info/exclude').write_text('.idea/\n*.log\n')
  (repository / '.idea').mkdir()
  for name in ('.idea/a.xml', 'a.log', 'torch_xla/.ours.py.swp.log'):
    (repository / name).write_text('')
  assert write() == 0


def contents(dist: Path) -> dict[str, str]:
  return {path.name: path.read_text() for path in dist.iterdir()}


def test_the_tag_is_of_the_commit_that_was_built(repository, write, capsys):
  commit = git(repository, 'rev-parse', 'HEAD')
  assert write() == 0
  [line] = [
      line for line in capsys.readouterr().out.splitlines()
      if line.startswith('now tag it: git ')
  ]
  assert f'Built from {commit}.' in contents(repository / 'dist')['NOTES.md']
  git(repository, 'commit', '-q', '--allow-empty', '-m', 'more')
  git(repository, *shlex.split(line)[4:])
  assert git(repository, 'rev-parse', f'v{pins.VERSION}^{{commit}}') == commit


def edit(root: Path) -> None:
  (root / 'torch_xla/ours.py').write_text('edited = True\n')


def commit_more(root: Path) -> None:
  git(root, 'commit', '-q', '--allow-empty', '-m', 'more')


def tag_another(root: Path) -> None:
  other = git(root, 'commit-tree', 'HEAD^{tree}', '-m', 'other')
  git(root, 'tag', f'v{pins.VERSION}', other)


@pytest.mark.parametrize(
    'change, told',
    ((edit, 'torch_xla/ours.py: changed since the commit\n'),
     (commit_more, 'error: the release was begun on commit '),
     (tag_another, f'error: tag v{pins.VERSION} names another commit')))
def test_a_checkout_that_changes_meanwhile(change, told, repository, write,
                                           capsys):
  assert write(lambda: change(repository)) == 1
  error = capsys.readouterr().err
  assert told in error and 'nothing was written to dist/' in error
  assert not (repository / 'dist').exists()


def test_a_checkout_that_was_another_for_a_while(repository, write, monkeypatch,
                                                 capsys):
  """The wheels are made of an edit that is taken back before the end."""

  def verify(*args, **kwargs) -> Verdict:
    del args, kwargs
    edit(repository)
    return Verdict('a.whl', (), ())

  monkeypatch.setattr(release, 'verify_wheel', verify)
  assert write(lambda: git(repository, 'checkout', '-q', '.')) == 1
  assert 'torch_xla/ours.py: changed since' in capsys.readouterr().err


def test_a_wheel_that_another_puts_there_meanwhile(repository, write, capsys):
  wheel = pins.wheel_name(pins.VERSION, running_python())
  dist = repository / 'dist'
  dist.mkdir()
  assert write(lambda: (dist / wheel).write_text('given to somebody')) == 1
  assert 'another wheel of the same version' in capsys.readouterr().err
  assert contents(dist) == {wheel: 'given to somebody'}


@pytest.mark.parametrize('name', ('NOTES.md', 'SHA256SUMS', 'wheel.cdx.json'))
def test_a_folder_in_the_way(name, repository, write, capsys):
  wheel = pins.wheel_name(pins.VERSION, running_python())
  there = repository / 'dist' / name.replace('wheel', wheel)
  there.mkdir(parents=True)
  assert write(pytest.fail) == 1  # Before the trials, which take minutes.
  error = capsys.readouterr().err
  assert f'{there} is no file: move it away' in error
  assert 'nothing was written to dist/' in error
  assert list((repository / 'dist').iterdir()) == [there]


def test_dist_that_is_a_file(repository, write, capsys):
  (repository / 'dist').write_text('')
  (repository / '.git/info/exclude').write_text('/dist\n')
  assert write() == 1
  assert 'dist is no folder: move it away\nnothing' in capsys.readouterr().err


def replace_that_fails(errors: dict[int, BaseException]):
  """A stand-in for os.replace: some of its calls, counted, fail."""
  calls = itertools.count(1)

  def replace(source, target) -> None:
    if error := errors.get(next(calls)):
      raise error
    _REPLACE(source, target)

  return replace


@pytest.mark.parametrize(
    'error, status, told',
    ((KeyboardInterrupt(), 130, 'interrupted; dist/ is as it was'),
     (OSError(28, 'No space left'), 1, 'nothing was written to dist/')))
@pytest.mark.parametrize('at', (1, 3, 4))
def test_dist_is_as_it_was_if_it_cannot_be_written(at, error, status, told,
                                                   repository, write, capsys,
                                                   monkeypatch):
  dist = repository / 'dist'
  monkeypatch.setattr(place.os, 'replace', replace_that_fails({at: error}))
  assert write() == status
  assert told in capsys.readouterr().err
  assert not dist.exists()
  before = {'NOTES.md': 'older', 'SHA256SUMS': 'older', 'other.whl': 'other'}
  dist.mkdir()
  for name, text in before.items():
    (dist / name).write_text(text)
  monkeypatch.setattr(place.os, 'replace', replace_that_fails({at: error}))
  assert write() == status
  assert contents(dist) == before


def test_what_is_left_of_a_release_is_said(repository, write, capsys,
                                           monkeypatch):
  full = OSError(28, 'No space left')
  (repository / 'dist').mkdir()
  (repository / 'dist/NOTES.md').write_text('older')
  monkeypatch.setattr(place.os, 'replace', replace_that_fails({
      3: full,
      4: full
  }))
  assert write() == 1
  error = capsys.readouterr().err
  assert 'could not be taken back:\nNOTES.md: ' in error
  assert 'nothing was written' not in error
  assert list(contents(repository / 'dist')) == ['NOTES.md']


def test_a_second_ctrl_c_waits_until_all_is_taken_back(repository, write,
                                                       monkeypatch):
  """The first comes at the third file, the second at the first one back."""
  dist = repository / 'dist'
  dist.mkdir()
  (dist / 'NOTES.md').write_text('older')
  interrupt = replace_that_fails({3: KeyboardInterrupt()})

  def replace(source, target) -> None:
    if Path(source).parent.name == 'old':
      signal.raise_signal(signal.SIGINT)
    interrupt(source, target)

  monkeypatch.setattr(place.os, 'replace', replace)
  assert write() == 130
  assert contents(dist) == {'NOTES.md': 'older'}


def test_a_file_that_is_there_is_not_written_again(repository, write):
  assert write() == 0
  stamps = {p: p.stat().st_ino for p in (repository / 'dist').iterdir()}
  assert len(stamps) == 4
  assert write() == 0
  assert {p: p.stat().st_ino for p in stamps} == stamps
