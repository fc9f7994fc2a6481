"""Series for people with the source: branches on their bases, and back."""

from pathlib import Path

from infra_project import BASES
from infra_project import edit_file
from infra_project import git
from infra_project import insert
from infra_project import MODULE
from infra_project import NEW_TEST
from infra_project import Project
from infra_project import replace
from infra_project import TAG
from infra_project import TESTS
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.check import check
from infra.patchset.export import export
from infra.patchset.import_branch import import_branch
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import load_patches

pytestmark = pytest.mark.slow  # The core has series_test.

RELEASE, PICKED, MASTER = BASES
SHARED = 'upstream/one/module-be-ours.patch'
MORE = 'upstream/two/module-be-more.patch'

FIELDS = """\
Description: one line more
Bug: https://example.org/3
Forwarded: no
Applies-to: v2.9.0, v2.9.0+feature, master
Remove-when: the test ends"""


@pytest.fixture(name='project')
def project_fixture(project, sources) -> Project:
  """`one` for the release and for master, and `two` upon it where picked."""
  project.wider_patch('one', 'module: be ours', {
      MODULE: insert(10, 'ours = 1'),
      TESTS: insert(7, NEW_TEST)
  }, [RELEASE])
  path = project.wider_patch(
      'one',
      'module: be ours', {
          MODULE: insert(10, 'ours = 1  # Picked.'),
          TESTS: insert(7, NEW_TEST)
      }, [PICKED],
      folder=f'upstream/one/{PICKED}')
  text = path.read_text()
  master = project.wider_patch(
      'one',
      'module: be ours', {
          MODULE: insert(11, 'ours = 1  # Master.'),
          TESTS: insert(7, NEW_TEST)
      }, [MASTER],
      folder=f'upstream/one/{MASTER}')
  assert text != master.read_text()
  project.series('two', depends_on=['one'])
  project.wider_patch('two', 'module: be more', {
      MODULE: insert(15, 'more = 1'),
  }, [PICKED])
  project.series('three')
  for name in ('one', 'two'):
    project.file(f'patches/upstream/{name}/COVER.md', '# Be ours\n\nBecause.\n')
  assert check(project.root, project.read) == []
  return project


def commit(upstream: Path, message: str, *options: str) -> None:
  """Commits everything on the branch that is checked out."""
  git(upstream, 'add', '--all')
  git(upstream, 'commit', '-q', '-m', message, *options)


def log(upstream: Path, commits: str) -> list[str]:
  return git(upstream, 'log', '--reverse', '--format=%s', commits).splitlines()


def on_bases(project: Project) -> None:
  """Fails unless all patches apply, on all their bases."""
  assert check(project.root, project.read) == []
  for series in load_manifest(project.root).series:
    for base in series.upstream:
      project.laid_here(series.name, base, MODULE)


# export


def test_export_to_the_newest_base(project, sources, capsys):
  head = git(sources, 'rev-parse', 'HEAD')
  arguments = ['export', 'one', '--upstream', str(sources)]
  assert command_line.main(arguments, project.root) == 0
  master = git(sources, 'rev-parse', 'base/master')
  assert log(sources, f'{master}..fork/one') == ['module: be ours']
  assert git(sources, 'rev-parse', 'HEAD') == head
  assert 'moved_on' in git(sources, 'show', f'fork/one:{MODULE}')
  message = git(sources, 'log', '-1', '--format=%B', 'fork/one')
  assert message == ('module: be ours\n\nA throwaway patch.\n\n'
                     'Bug: https://example.org/1')
  # There are no test tools of ours, and no other files.
  assert git(sources, 'diff', '--name-status', master,
             'fork/one').splitlines() == [f'M\t{TESTS}', f'M\t{MODULE}']
  text = project.root / 'build/pr/one.md'
  assert text.read_text() == ('# Be ours\n\nBecause.\n\n## Commits\n\n'
                              f'On master, {master}:\n\n- module: be ours\n')
  printed = capsys.readouterr().out
  assert f'text of the pull request: {text}' in printed
  assert printed.endswith(f'next: git -C {sources} format-patch -o '
                          f'OUTPUT_FOLDER {master}..fork/one\n')


def test_export_to_a_base_with_picked_commits(project, sources, capsys):
  file = project.root / 'two.md'
  arguments = [
      'export', 'two', '--base', PICKED, '--pr',
      str(file), '--upstream',
      str(sources)
  ]
  assert command_line.main(arguments, project.root) == 0
  # A vendor who has the release gets all that is needed, in order.
  release = git(sources, 'rev-parse', TAG)
  assert log(sources, f'{release}..fork/two') == [
      'feature', 'module: be ours', 'module: be more'
  ]
  assert f'{release}..fork/two' in capsys.readouterr().out
  picked = git(sources, 'log', '-1', '--format=%B', 'fork/two~2')
  assert f'(cherry picked from commit {git(sources, "rev-parse", "feature")})' in (
      picked)
  assert file.read_text().endswith(
      f'- {git(sources, "rev-parse", "feature")}, as it is upstream\n'
      '- module: be ours (of https://example.org/1)\n- module: be more\n')


def test_export_onto_a_commit_with_what_is_picked(project, sources):
  export(project.root, sources, 'two', PICKED, 'base/master')
  assert log(sources,
             'base/master..fork/two') == ['module: be ours', 'module: be more']
  git(sources, 'branch', '-D', 'fork/two')
  git(sources, 'switch', '-q', '-c', 'vendor', TAG)
  edit_file(sources / MODULE, insert(29, 'vendor = 1'))
  commit(sources, 'vendor')
  export(project.root, sources, 'two', PICKED, 'vendor')
  assert log(sources, 'vendor..fork/two') == [
      'feature', 'module: be ours', 'module: be more'
  ]


@pytest.mark.parametrize('ours, theirs, message', [
    ('def f():\n  pass', 'def f():\n  pass', f'{MODULE} defines f 2 times'),
    ('if feature:', '  pass', 'IndentationError'),
])
def test_export_notices_a_rebase_that_is_wrong(ours, theirs, message, project,
                                               sources):
  git(sources, 'switch', '-q', '-c', 'next', TAG)
  edit_file(sources / MODULE, insert(2, theirs))
  if theirs == '  pass':
    edit_file(sources / MODULE, replace(2, 'pass'))
  commit(sources, 'theirs')
  project.wider_patch('three', 'module: define', {MODULE: insert(25, ours)},
                      [RELEASE])
  with pytest.raises(BuildError) as raised:
    export(project.root, sources, 'three', RELEASE, 'next')
  assert 'no conflict, and its result is wrong all the same' in str(
      raised.value)
  assert message in str(raised.value)
  assert 'fork/three stays as it is on v2.9.0' in str(raised.value)
  assert git(sources, 'rev-parse',
             'fork/three~1') == git(sources, 'rev-parse', TAG)
  assert len(git(sources, 'worktree', 'list').splitlines()) == 1


def test_export_refuses(project, sources, capsys):

  def refused(*arguments: str) -> str:
    full = ['export', '--upstream', str(sources), *arguments]
    assert command_line.main(full, project.root) == 1
    assert not git(sources, 'branch', '--list', 'fork/*')
    return capsys.readouterr().err

  found = refused('two', '--base', MASTER)
  assert 'series two has no patches for the base master' in found
  assert 'bases that it has some for: v2.9.0+feature' in found
  assert 'has no commit v3, and it is no base' in refused('two', '--base', 'v3')
  found = refused('three')
  assert 'series three has no patches for people with the source' in found
  cover = project.root / 'patches/upstream/one/COVER.md'
  cover.write_text('Be ours\n')
  assert 'has to begin with "# " and the title' in refused('one')
  cover.unlink()
  assert 'COVER.md is missing' in refused('one')
  cover.write_text('# Be ours\n\nBecause.\n')
  commit_id = '1' * 40
  project.base('master', sources, commit_id)
  project.series('one')
  assert f'fetch <upstream> {commit_id}' in refused('one')


# import


def brought_back(project: Project,
                 sources: Path,
                 branch: str,
                 series: str | None = None) -> list[str]:
  """What import says; all patches apply after it."""
  said: list[str] = []
  import_branch(project.root, sources, branch, series, said.append)
  on_bases(project)
  return said


def lists(project: Project, series: str) -> dict[str, tuple[str, ...]]:
  return dict(load_manifest(project.root).find(series).upstream)


def test_import_of_what_did_not_change(project, sources):
  for base in (PICKED, MASTER):
    export(project.root, sources, 'one', base)
    assert brought_back(project, sources, 'one') == [
        'nothing of one was changed on fork/one since the export'
    ]
    git(sources, 'branch', '-D', 'fork/one')


def test_import_changes_the_list_of_that_base_alone(project, sources):
  before = lists(project, 'one')
  export(project.root, sources, 'one', MASTER)
  git(sources, 'switch', '-q', 'fork/one')
  edit_file(sources / MODULE, replace(11, 'ours = 2'))
  commit(sources, 'module: be ours\n\nTwo.', '--amend')
  edit_file(sources / MODULE, insert(25, 'last = 1'))
  commit(sources, f'module: be last\n\nA line.\n\n{FIELDS}')
  assert brought_back(project, sources, 'one') == [
      f'{RELEASE} has patches of its own, which stay: {SHARED}',
      f'{PICKED} has patches of its own, which stay: '
      f'upstream/one/{PICKED}/module-be-ours.patch',
      'changed patches/series.toml',
      f'changed patches/upstream/one/{MASTER}/module-be-ours.patch',
      'added patches/upstream/one/module-be-last.patch',
  ]
  after = lists(project, 'one')
  assert after == before | {
      MASTER: (*before[MASTER], 'upstream/one/module-be-last.patch')
  }
  last, = load_patches(project.root,
                       load_manifest(project.root).find('one'), MASTER)[1:]
  assert last.fields['Applies-to'] == 'v2.9.0, v2.9.0+feature, master'

  # Removed and put in another order.
  git(sources, 'reset', '-q', '--hard', 'fork/one~2')
  edit_file(sources / MODULE, insert(25, 'last = 1'))
  commit(sources, 'module: be last\n\nA line.')
  said = brought_back(project, sources, 'one')
  assert f'removed patches/upstream/one/{MASTER}/module-be-ours.patch' in said
  assert lists(project, 'one')[MASTER] == ('upstream/one/module-be-last.patch',)


def test_import_refuses_new_files(project, sources):
  export(project.root, sources, 'one', MASTER)
  git(sources, 'switch', '-q', 'fork/one')
  (sources / 'test/test_new.py').write_text('')
  commit(sources, f'test: add\n\nA file.\n\n{FIELDS}')
  with pytest.raises(BuildError, match='adds test/test_new.py. A patch adds'):
    import_branch(project.root, sources, 'fork/one')


# What several forms share.


def share(project: Project, path: str = TESTS, line: int = 0) -> None:
  """Gives a series `four` one patch for all bases."""
  project.wider_patch('four', 'test: be more', {path: insert(line, '# Ours')},
                      list(BASES))


def test_import_carries_a_change_over_to_all_that_share_it(project, sources):
  share(project)
  project.wider_patch('four', 'test: be most', {TESTS: insert(5, '')}, [MASTER])
  export(project.root, sources, 'four', RELEASE)
  git(sources, 'switch', '-q', 'fork/four')
  edit_file(sources / TESTS, insert(0, '# Ours too'))
  commit(sources, 'test: be more\n\nMuch more.', '--amend')
  assert brought_back(project, sources, 'four') == [
      f'made for {PICKED} as well: four: test-be-more.patch',
      f'made for {MASTER} as well: four: test-be-more.patch, '
      'four: test-be-most.patch',
      'changed patches/upstream/four/test-be-more.patch',
      'changed patches/upstream/four/test-be-most.patch',
  ]
  more, most, last = (f'upstream/four/{name}.patch'
                      for name in ('test-be-more', 'test-be-most',
                                   'module-be-last'))
  assert lists(project, 'four') == {
      RELEASE: (more,),
      PICKED: (more,),
      MASTER: (more, most)
  }
  # A new commit goes where the list is the same.
  edit_file(sources / TESTS, insert(1, '# Last'))
  commit(sources, f'module: be last\n\nA line.\n\n{FIELDS}')
  assert brought_back(project, sources, 'four') == [
      f'made for {PICKED} as well: four: module-be-last.patch',
      'changed patches/series.toml',
      f'added patches/{last}',
  ]
  assert lists(project, 'four') == {
      RELEASE: (more, last),
      PICKED: (more, last),
      MASTER: (more, most)
  }


def test_import_tells_blobs_and_lines_of_each_base(project, sources):
  """The other bases have other blobs of a file that is changed now."""
  share(project)
  export(project.root, sources, 'four', PICKED)
  git(sources, 'switch', '-q', 'fork/four')
  edit_file(sources / MODULE, replace(3, 'line_3 = 5'))
  commit(sources, 'test: be more\n\nMore.', '--amend')
  name = 'test-be-more.patch'
  assert brought_back(project, sources, 'four') == [
      f'made for {RELEASE} as well: four: {name}',
      f'made for {MASTER} as well: four: {name}',
      f'changed patches/upstream/four/{name}',
  ]
  assert lists(project, 'four') == {
      base: (f'upstream/four/{name}',) for base in BASES
  }
  for base in BASES:
    assert b'\nline_3 = 5\n' in project.laid_here('four', base, MODULE)
  path = project.root / f'patches/upstream/four/{name}'
  text = path.read_text()
  assert text.count(f'\n{MASTER} @@ ') == text.count(f'\n{MASTER} index ') == 1
  # One that differs in words alone is to be the same file.
  twin = path.with_name(MASTER) / name
  twin.parent.mkdir()
  twin.write_text(text.replace('More.', 'Less.'))
  problems = check(project.root, project.read)
  assert problems[-1].endswith('are the same: keep one')


def test_import_keeps_what_conflicts(project, sources):
  share(project)
  export(project.root, sources, 'four', MASTER)
  git(sources, 'switch', '-q', 'fork/four')
  edit_file(sources / MODULE, replace(0, 'moved_on = 5'))
  commit(sources, 'test: be more\n\nMore.', '--amend')
  said = brought_back(project, sources, 'four')
  assert said[0] == (
      f'{RELEASE} keeps its patches: "test: be more" conflicts there in '
      f'{MODULE}. To change them as well, export four --base {RELEASE} and '
      'import the branch')
  assert said[1].startswith(f'{PICKED} keeps its patches')
  name = 'test-be-more.patch'
  assert lists(project, 'four') == {
      RELEASE: (f'upstream/four/{name}',),
      PICKED: (f'upstream/four/{name}',),
      MASTER: (f'upstream/four/{MASTER}/{name}',),
  }


def test_import_without_the_sources_of_a_base(project, sources):
  share(project)
  project.base(MASTER, sources, '1' * 40)
  project.series('four')
  export(project.root, sources, 'four', RELEASE)
  git(sources, 'switch', '-q', 'fork/four')
  # Words need no sources.
  commit(sources, 'test: be more\n\nMore.', '--amend')
  assert brought_back(project, sources, 'four') == [
      'changed patches/upstream/four/test-be-more.patch'
  ]
  edit_file(sources / TESTS, insert(0, '# Ours too'))
  commit(sources, 'test: be more\n\nMore.', '--amend')
  said = brought_back(project, sources, 'four')
  assert f'{MASTER} keeps its patches: {sources} has no commit' in said[1]


def test_import_makes_later_series_again(project, sources):
  before = project.laid_here('two', PICKED, MODULE)
  export(project.root, sources, 'one', PICKED)
  git(sources, 'switch', '-q', 'fork/one')
  edit_file(sources / MODULE, insert(2, 'early = 1'))
  commit(sources, 'module: be ours\n\nEarlier.', '--amend')
  said = brought_back(project, sources, 'one')
  assert said[2:] == [
      f'changed patches/upstream/one/{PICKED}/module-be-ours.patch',
      f'changed patches/{MORE}',
  ]
  lines = before.decode().splitlines()
  assert project.laid_here('two', PICKED, MODULE).decode().splitlines() == [
      *lines[:2], 'early = 1', *lines[2:]
  ]


def test_import_of_the_wheels_form(project, sources):
  """A file of the official wheel, which the sources have as well."""
  name = 'torch_xla/_dynamo/config.py'
  git(sources, 'switch', '-q', '--orphan', 'official')
  for path, data in ((name, project.read(name)),
                     (TESTS, project.laid_here('one', RELEASE, TESTS))):
    (sources / path).parent.mkdir(parents=True, exist_ok=True)
    (sources / path).write_bytes(data)
  commit(sources, 'official release')
  git(sources, 'tag', '-f', TAG)
  git(sources, 'tag', '-f', f'base/{RELEASE}')
  project.base(RELEASE, sources, git(sources, 'rev-parse', 'HEAD'))
  for series in ('one', 'two'):
    project.series(series, upstream={}, depends_on=[])
  for path in (project.root / 'patches').rglob('*.patch'):
    path.unlink()
  project.wider_patch('six', 'config: be ours', {
      name: insert(2, '# ours'),
      TESTS: insert(7, NEW_TEST)
  }, ['wheel', RELEASE], {
      name: project.read(name),
      TESTS: (sources / TESTS).read_bytes()
  })
  assert check(project.root, project.read) == []
  for form in ('wheel', RELEASE):
    export(project.root, sources, 'six', form, branch=f'mine/{form}')
    git(sources, 'switch', '-q', f'mine/{form}')
    edit_file(sources / name, insert(2, '# more'))
    commit(sources, f'config: be ours\n\nMore of {form}.', '--amend')
    said: list[str] = []
    import_branch(project.root, sources, f'mine/{form}', 'six', said.append)
    assert check(project.root, project.read) == []
    other = RELEASE if form == 'wheel' else 'wheel'
    assert said == [
        f'made for {other} as well: six: config-be-ours.patch',
        'changed patches/upstream/six/config-be-ours.patch'
    ]
