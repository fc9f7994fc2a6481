"""A branch that was exported and edited, brought back as a series."""

from pathlib import Path
import shutil

from infra_project import CONFIG
from infra_project import copy_checkout
from infra_project import edit_file
from infra_project import git
from infra_project import insert
from infra_project import one_patch
from infra_project import problem
from infra_project import Project
from infra_project import replace
from infra_project import ROOT
from infra_project import RUNTIME
from infra_project import TAG
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.apply import patched_files
from infra.patchset.check import check
from infra.patchset.export import export
from infra.patchset.import_branch import import_branch
from infra.patchset.manifest import load_manifest
from infra.patchset.manifest import WHEEL
from infra.patchset.patch import load_patches

pytestmark = pytest.mark.slow  # The core has series_test.


@pytest.fixture(scope='module')
def exported_template(official_wheel, upstream_template,
                      tmp_path_factory) -> tuple[Project, Path]:
  """Two series, one of which depends on the other, and their branches."""
  folder = tmp_path_factory.mktemp('exported')
  upstream = shutil.copytree(upstream_template, folder / 'upstream')
  project = Project(folder / 'project', official_wheel)
  one_patch(project)
  project.file('torch_xla/shardy/a.py')
  project.file('test/shardy/a_test.py')
  project.file('test/tools.py')
  project.test_base.append('test/tools.py')
  project.series('one', overlay=['torch_xla/shardy/*'], tests=['test/shardy/*'])
  project.patch('two', 'runtime: add a line', RUNTIME, insert(2, '# ours'))
  project.patch(
      'two',
      'runtime: add a second line',
      RUNTIME,
      insert(9, '# ours 2'),
      base=patched(project, RUNTIME))
  project.series('two', depends_on=['one'])
  assert check(project.root, project.read) == []
  export(project.root, upstream, 'one', WHEEL)
  export(project.root, upstream, 'two', WHEEL)
  return project, upstream


@pytest.fixture(name='project')
def project_fixture(exported_template, tmp_path) -> Project:
  return exported_template[0].copy(tmp_path / 'project')


@pytest.fixture(name='exported')
def exported_fixture(exported_template, tmp_path) -> Path:
  return shutil.copytree(exported_template[1], tmp_path / 'exported')


def patched(project, path: str) -> bytes:
  """What the patches there are make of a file."""
  patches = [
      patch for series in load_manifest(project.root).series
      for patch in load_patches(project.root, series)
  ]
  return patched_files(project.read, patches)[path]


def files_in(root: Path) -> dict[str, bytes]:
  """All that import may write."""
  return {
      path.relative_to(root).as_posix(): path.read_bytes()
      for folder in ('patches', 'torch_xla', 'torch_xla_shardy', 'test')
      for path in (root / folder).rglob('*')
      if path.is_file()
  }


def brought_back(project,
                 upstream: Path,
                 branch: str,
                 series: str | None = None) -> list[str]:
  """What import says; the series are in order after it."""
  said: list[str] = []
  import_branch(project.root, upstream, branch, series, said.append)
  assert check(project.root, project.read) == []
  return said


def refusal(project, upstream: Path, branch: str, **options) -> str:
  """Why import refuses; nothing is written then."""
  before = files_in(project.root)
  record = git(upstream, 'for-each-ref', 'refs/exported')
  with pytest.raises(BuildError) as raised:
    import_branch(project.root, upstream, branch, **options)
  assert files_in(project.root) == before
  assert git(upstream, 'for-each-ref', 'refs/exported') == record
  return str(raised.value)


@pytest.mark.parametrize('name', [
    pytest.param(series.name, marks=[pytest.mark.nightly] if at else [])
    for at, series in enumerate(load_manifest(ROOT).series)
    if series.wheel or series.overlay
])
def test_export_and_import_give_the_same_bytes(name, upstream, tmp_path,
                                               monkeypatch):
  settings = tmp_path / 'gitconfig'
  settings.write_text('[diff]\n  noprefix = true\n  algorithm = patience\n'
                      '  context = 5\n[color]\n  ui = always\n'
                      '[log]\n  showSignature = true\n')
  monkeypatch.setenv('GIT_CONFIG_GLOBAL', str(settings))
  root = copy_checkout(tmp_path / 'checkout')
  before = files_in(root)
  export(root, upstream, name, WHEEL)
  branch = f'fork/{name}'
  exported = git(upstream, 'rev-parse', branch)
  said: list[str] = []
  import_branch(root, upstream, branch, say=said.append)
  nothing = [f'nothing of {name} was changed on {branch} since the export']
  assert said == nothing
  assert files_in(root) == before

  # Every commit changed, and changed back.
  monkeypatch.setenv('FILTER_BRANCH_SQUELCH_WARNING', '1')
  series = load_manifest(root).find(name)
  git(upstream, 'switch', '-q', branch)
  git(upstream, 'filter-branch', '--msg-filter', "sed '3s/$/ More./'",
      f'{TAG}..{branch}')
  said.clear()
  import_branch(root, upstream, branch, say=said.append)
  # A patch for the source may be called after the same subject.
  changed = [
      line for line in said if 'patches of its own, which stay' not in line
  ]
  assert sorted(changed) == sorted(
      f'changed patches/{patch}' for patch in series.wheel) or (
          not series.wheel and said == nothing)
  git(upstream, 'reset', '-q', '--hard', exported)
  import_branch(root, upstream, branch, say=said.append)
  assert files_in(root) == before


def commit(upstream: Path, message: str, *options: str) -> None:
  """Commits everything on the branch that is checked out."""
  git(upstream, 'add', '--all', '--force')
  git(upstream, 'commit', '-q', '-m', message, *options)


FIELDS = """\
Description: one line more
Bug: https://example.org/3
Forwarded: no
Applies-to: torch_xla 2.9.0
Why-not-overlay: it is a test
Remove-when: the test ends"""


def test_import_an_amended_commit(project, exported):
  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / RUNTIME, insert(70, '# ours 3'))
  commit(
      exported, 'runtime: add a second line\n\nTwo are not enough.\n\n'
      'Three are.\n\nBug: https://example.org/2\n'
      'Signed-off-by: The User <user@example.org>', '--amend')
  [patch] = project.root.glob('patches/wheel/two/*second*')
  before = patch.read_text()
  assert brought_back(project, exported, 'fork/two') == [
      f'changed patches/wheel/two/{patch.name}',
  ]
  head, diff = patch.read_text().split('---\n', 1)
  # The bug is the commit's, the other fields are those of before, unfolded.
  assert head == before.split('---\n', 1)[0].replace('\n ', ' ').replace(
      'A throwaway patch.',
      'Two are not enough.\n\nThree are.').replace('org/1', 'org/2')
  assert [line for line in diff.splitlines() if line[0] in '+-@'][2:] == [
      '@@ -9,0 +10 @@', '+# ours 2', '@@ -69,0 +71 @@', '+# ours 3'
  ]


def test_import_new_commits(project, exported):
  project.series('two', overlay=['torch_xla/b.py'])
  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / CONFIG, insert(5, '# ours 3'))
  (exported / 'torch_xla/b.py').write_text('ours = 3\n')
  commit(exported, f'config: add a third line\n\nThree are enough.\n\n{FIELDS}')
  assert brought_back(project, exported, 'fork/two') == [
      'changed patches/series.toml',
      'added patches/wheel/two/config-add-a-third-line.patch',
      'added torch_xla/b.py'
  ]
  series = load_manifest(project.root).find('two')
  assert series.wheel[2:] == ('wheel/two/config-add-a-third-line.patch',)
  patch = load_patches(project.root, series)[2]
  assert patch.body == 'Three are enough.'
  assert [c.path for c in patch.changes] == [CONFIG]

  # And once more on the same branch: each time what changed since.
  edit_file(exported / 'torch_xla/b.py', insert(0, '# ours 4'))
  commit(exported, 'two: more')
  assert brought_back(project, exported,
                      'fork/two') == ['changed torch_xla/b.py']


def test_import_a_new_commit_without_fields(project, exported):
  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / CONFIG, insert(5, '# ours 3'))
  commit(exported, 'config: add a third line\n\nBug: https://example.org/3')
  found = refusal(project, exported, 'fork/two')
  assert '"config: add a third line" is no patch yet' in found
  assert ('lacks Description, Forwarded, Applies-to, Why-not-overlay, '
          'Remove-when') in found
  commit(exported, f'config: add a third line\n\n{FIELDS}', '--amend')
  assert 'no text that says why' in refusal(project, exported, 'fork/two')


def test_import_removed_and_reordered_commits(project, exported):
  git(exported, 'switch', '-q', '-C', 'fork/two', 'fork/two~2')
  edit_file(exported / RUNTIME, insert(9, '# ours 2'))
  commit(exported, 'runtime: add a second line\n\nA throwaway patch.')
  assert brought_back(project, exported, 'fork/two') == [
      'changed patches/series.toml',
      'removed patches/wheel/two/runtime-add-a-line.patch',
      'changed patches/wheel/two/runtime-add-a-second-line.patch',
  ]
  edit_file(exported / CONFIG, insert(9, '# ours 3'))
  commit(exported, f'config: add a third line\n\nA third.\n\n{FIELDS}')
  brought_back(project, exported, 'fork/two')
  git(exported, 'reset', '-q', '--hard', 'HEAD~2')
  for old in ('ORIG_HEAD', 'ORIG_HEAD~1'):
    git(exported, 'cherry-pick', git(exported, 'rev-parse', old))
  assert brought_back(project, exported,
                      'fork/two') == ['changed patches/series.toml']
  assert load_manifest(project.root).find('two').wheel == (
      'wheel/two/config-add-a-third-line.patch',
      'wheel/two/runtime-add-a-second-line.patch')


def test_import_new_files_and_test_tools(project, exported):
  git(exported, 'switch', '-q', 'fork/one')
  for name in ('torch_xla/shardy/a.py', 'test/tools.py'):
    edit_file(exported / name, insert(1, '# changed'))
  (exported / 'test/shardy/new_test.py').write_text('new = True\n')
  git(exported, 'rm', '-q', 'test/shardy/a_test.py')
  commit(exported, 'one: change the files')
  assert brought_back(project, exported, 'fork/one') == [
      'removed test/shardy/a_test.py', 'added test/shardy/new_test.py',
      'changed test/tools.py', 'changed torch_xla/shardy/a.py'
  ]
  for name in ('torch_xla/shardy/a.py', 'test/tools.py'):
    assert (project.root / name).read_text() == 'ours = True\n# changed\n'


def test_import_leaves_alone_what_the_branch_did_not_change(project, exported):
  git(exported, 'switch', '-q', 'fork/one')
  edit_file(exported / 'torch_xla/shardy/a.py', insert(0, '# changed'))
  commit(exported, 'one: change a file')
  patch = project.root / 'patches/wheel/one/config-add-a-line.patch'
  patch.write_text(patch.read_text().replace('A throwaway', 'A newer'))
  project.file('test/shardy/a_test.py', 'newer = True\n')
  project.file('torch_xla/shardy/newer.py')
  before = files_in(project.root)
  assert brought_back(project, exported,
                      'fork/one') == ['changed torch_xla/shardy/a.py']
  after = files_in(project.root)
  assert after.pop('torch_xla/shardy/a.py') == b'# changed\nours = True\n'
  assert before.items() >= after.items()


def test_import_refuses_what_changed_in_both_places(project, exported):
  git(exported, 'switch', '-q', 'fork/one')
  edit_file(exported / 'torch_xla/shardy/a.py', insert(0, '# changed'))
  commit(exported, 'one: change a file')
  project.file('torch_xla/shardy/a.py', '# changed too\n')
  found = refusal(project, exported, 'fork/one')
  assert 'torch_xla/shardy/a.py was changed here as well' in found
  # Unless both did the same.
  project.file('torch_xla/shardy/a.py', '# changed\nours = True\n')
  assert brought_back(project, exported, 'fork/one') == [
      'nothing of one was changed on fork/one since the export'
  ]

  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / RUNTIME, insert(70, '# ours 3'))
  commit(exported, 'runtime: add a second line\n\nMore.', '--amend')
  [patch] = project.root.glob('patches/wheel/two/*second*')
  patch.write_text(patch.read_text().replace('A throwaway', 'A newer'))
  found = refusal(project, exported, 'fork/two')
  assert f'the patch two/{patch.name} was changed here as well' in found


def test_import_names_commits_behind_another_series(project, exported):
  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / RUNTIME, insert(4, '# late'))
  commit(exported, 'runtime: mend one, late')
  said = brought_back(project, exported, 'fork/two', 'one')
  assert said[0].startswith('not taken: the commit "runtime: mend one, late"')
  assert said[1].startswith('nothing of one was changed')


def test_import_writes_over_no_patch_that_is_not_listed(project, exported):
  draft = project.root / 'patches/wheel/two/runtime-a-draft.patch'
  draft.write_text('mine')
  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / RUNTIME, insert(12, '# theirs'))
  commit(exported, f'runtime: a draft\n\nA draft.\n\n{FIELDS}')
  found = refusal(project, exported, 'fork/two')
  assert 'patches/wheel/two/runtime-a-draft.patch is there and not listed' in found
  assert draft.read_text() == 'mine'


def test_import_takes_one_series_alone(project, exported):
  git(exported, 'switch', '-q', 'fork/two')
  edit_file(exported / 'torch_xla/shardy/a.py', insert(0, '# changed'))
  commit(exported, 'two: change a file of one')
  assert brought_back(project, exported, 'fork/two') == [
      'not taken: torch_xla/shardy/a.py, which belongs to one',
      'nothing of two was changed on fork/two since the export'
  ]
  assert brought_back(project, exported, 'fork/two',
                      'one') == ['changed torch_xla/shardy/a.py']
  (exported / 'torch_xla/nobody.py').write_text('')
  commit(exported, 'two: and a file of nobody')
  found = refusal(project, exported, 'fork/two')
  assert 'torch_xla/nobody.py on the branch belongs to no series' in found


def test_import_what_the_branch_builds_on(project, exported):
  tip = git(exported, 'rev-parse', 'fork/two')
  git(exported, 'checkout', '-q', f'{tip}~4')
  edit_file(exported / CONFIG, replace(2, '# changed'))
  edit_file(exported / RUNTIME, insert(90, '# ours 1'))
  commit(exported, 'config: add a line\n\nA throwaway patch.', '--amend')
  git(exported, 'rebase', '-q', '--onto', 'HEAD', f'{tip}~4', 'fork/two')
  found = refusal(project, exported, 'fork/two')
  assert 'or one otherwise than the patches here' in found

  import_branch(project.root, exported, 'fork/two', 'one')
  assert 'series two alone' in problem(project)
  assert brought_back(project, exported, 'fork/two') == [
      'changed patches/wheel/two/runtime-add-a-line.patch',
      'changed patches/wheel/two/runtime-add-a-second-line.patch',
  ]
  # A change that stands before all that is known as a series' commit.
  git(exported, 'checkout', '-q', TAG)
  edit_file(exported / CONFIG, insert(50, '# ours'))
  commit(exported, 'config: more')
  git(exported, 'rebase', '-q', 'HEAD', 'fork/two')
  found = refusal(project, exported, 'fork/two')
  assert 'before the first commit of the series' in found


def test_import_of_a_patch_that_is_none(project, exported):
  git(exported, 'switch', '-q', 'fork/two')
  git(exported, 'rm', '-q', CONFIG)
  commit(exported, f'config: remove it\n\nA try.\n\n{FIELDS}')
  found = refusal(project, exported, 'fork/two')
  assert 'config-remove-it.patch' in found and 'neither removed' in found

  git(exported, 'reset', '-q', '--hard', 'HEAD~1')
  for at in (3, 5):
    edit_file(exported / CONFIG, insert(at, '# ours 3'))
    commit(exported, 'config: add\n\nTwice.')
  found = refusal(project, exported, 'fork/two')
  assert 'have one subject, "config: add"' in found


def test_import_refuses_an_unfit_branch(project, exported, capsys):

  def refused(*arguments: str) -> str:
    full = ['import', '--upstream', str(exported), *arguments]
    assert command_line.main(full, project.root) == 1
    return capsys.readouterr().err

  assert 'has no branch fork/nothing' in refused('fork/nothing', '--series',
                                                 'one')
  assert 'there is no series nothing' in refused('fork/nothing')
  git(exported, 'branch', 'mine', 'fork/one')
  assert 'does not say which series' in refused('mine')
  assert ('does not know mine as it was exported'
          in refused('mine', '--series', 'one'))

  git(exported, 'switch', '-q', 'fork/one')
  edit_file(exported / CONFIG, insert(9, '# ours'))
  commit(exported, 'config: more')
  git(exported, 'switch', '-q', 'fork/two')
  git(exported, 'merge', '-q', '--no-edit', 'fork/one')
  assert 'and a merge is no patch' in refused('fork/two')

  git(exported, 'checkout', '-q', '--orphan', 'fork/new')
  commit(exported, 'another beginning')
  for record in ('base/wheel', 'series/one'):
    git(exported, 'update-ref', f'refs/exported/fork/new/{record}', TAG)
  assert f'git rebase --onto {git(exported, "rev-parse", TAG)[:12]}' in refused(
      'fork/new', '--series', 'one')
