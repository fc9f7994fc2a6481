"""The release: what it refuses, what it makes, and what it says of itself."""

from __future__ import annotations

import json
from pathlib import Path
import zipfile

from infra_project import git, output_of, Project, ROOT
import pytest
from small_wheels import PLUGINS

from infra.errors import BuildError
from infra.release import __main__ as release
from infra.wheel import pins
from infra.wheel.build import running_python
from infra.wheel.pure_wheel import PureWheel

CHANGELOG = f"""\
# Changelog

## {pins.VERSION} (2026-01-31)

- The new one.

## 1.0 (2025-01-31)

- The old one.

## 0.9
"""
_TOOL = PureWheel('torch-xla-tool', 'A tool.', 'CHANGELOG.md', (),
                  {'torch_xla_tool/LICENSE': 'LICENSE'})
_WHEEL = pins.wheel_name(pins.VERSION, running_python())


def test_a_section_ends_where_the_next_begins():
  assert release.section(CHANGELOG,
                         pins.VERSION) == ('(2026-01-31)', '- The new one.')
  assert release.section(CHANGELOG, '1.0')[1] == '- The old one.'
  for version in '2.0', '0.9':
    with pytest.raises(BuildError, match=f'says nothing of {version}'):
      release.section(CHANGELOG, version)


def test_this_checkout_has_a_section_for_its_version():
  changelog = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
  assert release.section(changelog, pins.VERSION)[1].startswith('- ')


@pytest.fixture(name='python')
def python_fixture(tmp_path, monkeypatch) -> Path:
  """A python3.12, the only program on the PATH."""
  path = tmp_path / 'bin/python3.12'
  path.parent.mkdir()
  monkeypatch.setenv('PATH', f'{path.parent}:/bin')
  return path


def _try(python: Path, script: str) -> str:
  """Tries a wheel on a Python that is a script, as its environments' are."""
  python.write_text('#!/bin/sh\n[ "$2" = venv ] && mkdir "$3/bin" && '
                    f'cp "$0" "$3/bin/python" && exit\n{script}\n')
  python.chmod(0o755)
  return release.try_wheel('3.12', Path('a.whl'), Path('training.py'))


def test_a_wheel_is_tried(python):
  assert _try(python, 'echo noise; echo "$@"') == 'training.py'
  assert _try(python, 'echo offline; exit 1') == 'not tried: offline'
  with pytest.raises(BuildError, match='a.whl does not work: no loss fell'):
    _try(python, '[ "$1" = -m ] || { echo no loss fell; exit 1; }')


def test_a_wheel_without_python_is_not_tried(python):
  del python
  assert release.try_wheel(
      '3.9', Path('a.whl'),
      Path('t.py')) == ('not tried: there is no python3.9 on the PATH')


@pytest.fixture(name='small')
def small_fixture(project, monkeypatch) -> Project:
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
  monkeypatch.setattr(release, 'try_wheel', lambda *_: 'passed')
  return project


def _release(root: Path, dist: Path | None = None) -> Path:
  """Makes a release for this Python, with plugins that are none."""
  return release.make_release(
      root,
      dist=dist,
      pythons=[running_python()],
      built_plugins=PLUGINS,
      tools=(_TOOL,),
      say=print)


@pytest.mark.slow
def test_the_commit_is_released_and_no_other_file(small):
  """Whatever git is told not to show."""
  git(small.root, 'config', 'status.showUntrackedFiles', 'no')
  git(small.root, 'update-index', '--assume-unchanged',
      'torch_xla/shardy/__init__.py')
  small.file('torch_xla/shardy/__init__.py', 'edited = True\n')
  small.file('torch_xla/shardy/new.py')
  before = set(small.root.iterdir())
  folder = _release(small.root)
  assert set(small.root.iterdir()) == before
  assert folder == small.root / 'build/release' / pins.VERSION
  assert {path.name for path in folder.iterdir()
         } == {*_FILES, f'{_WHEEL}.cdx.json', _TOOL.wheel_name}
  assert json.loads((folder / f'{_WHEEL}.cdx.json').read_bytes())
  text = (folder / 'NOTES.md').read_text()
  assert '- The new one.' in text and ': passed' in text
  assert f'Built from {git(small.root, "rev-parse", "HEAD").strip()}.' in text
  checked = output_of(
      'sha256sum', '--check', '--strict', 'SHA256SUMS', cwd=folder)
  assert len(checked.splitlines()) == 4
  with zipfile.ZipFile(folder / _WHEEL) as file:
    assert 'torch_xla/shardy/new.py' not in file.namelist()
    assert b'edited' not in file.read('torch_xla/shardy/__init__.py')
  assert git(small.root, 'worktree', 'list').count('\n') == 0


_FILES = (_WHEEL, 'NOTES.md', 'SHA256SUMS')


@pytest.mark.slow
def test_a_release_is_written(small, monkeypatch):
  dist = small.root / 'dist'
  _release(small.root, dist)
  assert {*_FILES} < {path.name for path in dist.iterdir()}
  _release(small.root, dist)
  wheel = dist / _WHEEL
  wheel.write_bytes(b'given to somebody')
  with pytest.raises(BuildError, match='another wheel of the same version'):
    _release(small.root, dist)
  assert wheel.read_bytes() == b'given to somebody'
  builds = iter([b'1', b'2'])

  def build_wheel(root, into, python, **kwargs) -> Path:
    del root, kwargs
    built = into / pins.wheel_name(pins.VERSION, python)
    built.write_bytes(next(builds))
    return built

  monkeypatch.setattr(release, 'build_wheel', build_wheel)
  monkeypatch.setattr(release, 'read_bom', lambda wheel: b'{}')
  with pytest.raises(BuildError, match='two builds gave different bytes'):
    _release(small.root)


@pytest.mark.slow
def test_writing_is_refused(small, capsys):
  root = small.root

  def refusal() -> str:
    assert release.main(['--write'], root) == 1
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
  assert refusal().startswith('error: CHANGELOG.md says nothing of')
  assert not (root / 'dist').exists()


@pytest.mark.nightly
def test_a_dry_run_of_this_checkout(built_plugins):
  """It builds, installs and trains, for this Python."""
  folder = release.make_release(
      ROOT, pythons=[running_python()], built_plugins=built_plugins, say=print)
  text = (folder / 'NOTES.md').read_text()
  assert 'partitioned by shardy' in text
