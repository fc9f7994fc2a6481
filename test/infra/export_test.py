"""A series as a branch of a checkout of upstream."""

from pathlib import Path

from infra_project import CONFIG
from infra_project import edit_file
from infra_project import git
from infra_project import insert
from infra_project import one_patch
from infra_project import replace
from infra_project import ROOT
from infra_project import RUNTIME
from infra_project import TAG
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.export import export
from infra.patchset.manifest import load_manifest
from infra.patchset.manifest import WHEEL
from infra.patchset.patch import blob_id
from infra.patchset.patch import load_patches
from infra.wheel.overlay import own_files

pytestmark = pytest.mark.slow  # The core has series_test.


def moved_on(upstream: Path, path: str, *edits) -> str:
  """Adds a commit to upstream's main branch; returns its id."""
  for edit in edits:
    edit_file(upstream / path, edit)
  git(upstream, 'commit', '-q', '-a', '-m', 'upstream moves on')
  return git(upstream, 'rev-parse', 'HEAD')


@pytest.mark.parametrize('name', [
    pytest.param(series.name, marks=[pytest.mark.nightly] * bool(at))
    for at, series in enumerate(load_manifest(ROOT).series)
    if series.wheel or series.overlay
])
def test_export_of_the_checkouts_series(name, checkout, upstream):
  head = git(upstream, 'rev-parse', 'HEAD')
  # The user is at work in a file that no series touches, without a commit.
  (upstream / 'notes.txt').write_text('untracked\n')
  made = export(checkout, upstream, name, WHEEL)
  branch = f'fork/{name}'
  assert made.following(upstream).endswith(f'{TAG}..{branch}')
  assert git(upstream, 'rev-parse', 'HEAD') == head
  assert git(upstream, 'status', '--porcelain') == '?? notes.txt'
  assert len(git(upstream, 'worktree', 'list').splitlines()) == 1

  manifest = load_manifest(checkout)
  chosen = manifest.with_dependencies(name)
  patches = [p for series in chosen for p in load_patches(checkout, series)]
  blobs = {c.path: c.new for patch in patches for c in patch.changes}
  for path, blob in blobs.items():
    assert git(upstream, 'rev-parse', f'{branch}:{path}') == blob
  names = {series.name for series in chosen}
  overlay = [
      path for path in own_files(checkout)
      if names & set(manifest.owners_of_overlay(path))
  ]
  for path in overlay:
    assert git(upstream, 'rev-parse', f'{branch}:{path}') == blob_id(
        (checkout / path).read_bytes())
  changed = git(upstream, 'diff', '--name-only', TAG, branch).splitlines()
  assert set(changed) >= set(blobs) | set(overlay)
  assert all(
      c in blobs or c in overlay or c.startswith('test/') for c in changed)

  log = git(upstream, 'log', '--reverse', '--format=%s', f'{TAG}..{branch}')
  subjects = [s for s in log.splitlines() if ': add the new files' not in s]
  assert subjects == [patch.subject for patch in patches]
  messages = git(upstream, 'log', '--format=%an <%ae>%n%B', f'{TAG}..{branch}')
  assert 'The User <user@example.org>' in messages
  for field in ('Forwarded:', 'Applies-to:', 'Why-not-overlay:', '[PATCH]'):
    assert field not in messages
  assert f'Bug: {patches[0].fields["Bug"]}' in messages.splitlines()


def test_export_puts_dependencies_files_and_tests_in(project, upstream):
  one_patch(project)
  project.file('torch_xla/shardy/a.py')
  project.file('test/shardy/a_test.py')
  project.series(
      'one', overlay=['torch_xla/shardy/a.py'], tests=['test/shardy/**'])
  project.patch('two', 'runtime: add a line', RUNTIME, insert(2, '# ours'))
  project.series('two', depends_on=['one'])
  export(project.root, upstream, 'two', WHEEL, branch='mine')
  log = git(upstream, 'log', '--reverse', '--format=%s', f'{TAG}..mine')
  assert log.splitlines() == [
      'config: add a line', 'one: add the new files and tests',
      'runtime: add a line'
  ]
  assert git(upstream, 'show', 'mine:torch_xla/shardy/a.py') == 'ours = True'
  assert git(upstream, 'show', 'mine:test/shardy/a_test.py') == 'ours = True'


def test_export_brings_the_test_tools_once(project, upstream):
  project.file('test/tools.py')
  project.test_base.append('test/tools.py')
  project.series('one')
  for name in ('two', 'three'):
    project.file(f'test/{name}_test.py')
    project.series(name, tests=[f'test/{name}_test.py'])
  project.patch('one', 'config: add a line', CONFIG, insert(2, '# ours'))
  project.series('three', depends_on=['one', 'two'])
  export(project.root, upstream, 'one', WHEEL)
  assert not git(upstream, 'ls-tree', '-r', 'fork/one', 'test')
  export(project.root, upstream, 'three', WHEEL)
  log = git(upstream, 'log', '--reverse', '--format=%s', f'{TAG}..fork/three')
  assert log.splitlines() == [
      'config: add a line', 'test: add the new files that tests share',
      'two: add the new files and tests', 'three: add the new files and tests'
  ]
  for name in ('tools', 'two_test', 'three_test'):
    assert git(upstream, 'show', f'fork/three:test/{name}.py') == 'ours = True'


def test_export_onto_a_commit_where_lines_moved(project, upstream):
  project.patch('one', 'runtime: add a line', RUNTIME, insert(60, '# ours'))
  # Far enough not to conflict, near enough to move the place of the patch.
  onto = moved_on(upstream, RUNTIME, insert(3, '# theirs'),
                  insert(3, '# theirs'), replace(48, '# theirs'))
  made = export(project.root, upstream, 'one', WHEEL, 'main')
  assert made.following(upstream).endswith('main..fork/one')
  assert git(upstream, 'rev-parse', 'fork/one~1') == onto
  lines = git(upstream, 'show', f'fork/one:{RUNTIME}').splitlines()
  assert lines[62] == '# ours' and lines[48] == '# theirs'
  # And what comes next does what is said.
  git(upstream,
      *made.following(upstream).replace('OUTPUT_FOLDER', 'out').split()[3:])
  [made] = (upstream / 'out').iterdir()
  assert made.name == '0001-runtime-add-a-line.patch'


def test_export_onto_a_commit_that_conflicts(project, upstream):
  one_patch(project)
  project.patch('one', 'runtime: change a line', RUNTIME, replace(60, '# ours'))
  moved_on(upstream, RUNTIME, replace(60, '# theirs'))
  head = git(upstream, 'rev-parse', 'HEAD')
  with pytest.raises(BuildError) as raised:
    export(project.root, upstream, 'one', WHEEL, 'main')
  message = str(raised.value)
  assert '"runtime: change a line" conflicts with main' in message
  assert RUNTIME in message and CONFIG not in message
  assert 'fork/one stays as it is on v2.9.0' in message
  assert git(upstream, 'rev-parse',
             'fork/one~2') == git(upstream, 'rev-parse', f'{TAG}^{{commit}}')
  assert git(upstream, 'rev-parse', 'HEAD') == head
  assert git(upstream, 'status', '--porcelain') == ''
  assert len(git(upstream, 'worktree', 'list').splitlines()) == 1


def test_export_onto_a_commit_that_has_the_patch(project, upstream):
  one_patch(project)
  project.patch('one', 'runtime: add a line', RUNTIME, insert(60, '# ours'))
  moved_on(upstream, CONFIG, insert(2, '# ours 1'))
  export(project.root, upstream, 'one', WHEEL, 'main')
  log = git(upstream, 'log', '--format=%s', 'main..fork/one')
  assert log == 'runtime: add a line'


def test_export_runs_no_hooks(project, upstream):
  one_patch(project)
  for name in ('pre-commit', 'post-checkout', 'pre-rebase'):
    hook = upstream / '.git' / 'hooks' / name
    hook.write_text('#!/bin/sh\nexit 1\n')
    hook.chmod(0o755)
  export(project.root, upstream, 'one', WHEEL)


def test_export_refuses_an_unfit_checkout(project, upstream, tmp_path, capsys):
  one_patch(project)
  project.series('empty')

  def refused(*arguments: str) -> str:
    full = ['export', '--wheel', '--upstream', str(upstream), *arguments]
    assert command_line.main(full, project.root) == 1
    branches = git(upstream, 'branch', '--format=%(refname:short)')
    assert 'fork/' not in branches
    return capsys.readouterr().err

  assert 'there is no series three' in refused('three')
  assert 'has no commit nowhere' in refused('one', '--onto', 'nowhere')
  assert 'has a branch main already' in refused('one', '--branch', 'main')
  assert 'is no name for a branch' in refused('one', '--branch', 'a..b')
  assert 'no patches and no files' in refused('empty')
  project.file('torch_xla/stablehlo.py')
  project.series('one', overlay=['torch_xla/stablehlo.py'])
  assert 'would overwrite a file of upstream' in refused('one')

  edit_file(upstream / CONFIG, insert(0, '# at work'))
  assert 'has uncommitted changes' in refused('one')
  git(upstream, 'checkout', '-q', '.')

  git(upstream, 'tag', '-d', TAG)
  assert 'has no tag v2.9.0' in refused('one')
  # A tag of that name on something else is no base either.
  moved_on(upstream, CONFIG, insert(0, '# theirs'))
  git(upstream, 'tag', TAG)
  assert 'and the checkout has' in refused('one')

  upstream_of_nobody = tmp_path / 'empty'
  upstream_of_nobody.mkdir()
  with pytest.raises(BuildError, match='is no git checkout'):
    export(project.root, upstream_of_nobody, 'one', WHEEL)
