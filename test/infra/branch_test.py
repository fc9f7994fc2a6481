"""Series as branches: `export`, `import` and `check --upstream`."""

from pathlib import Path

from infra_project import (BASES, git, insert, MODULE, NATIVE, NEW_TEST,
                           Project, replace, TAG, TESTS)
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.check import check
from infra.patchset.check_upstream import check_upstream
from infra.patchset.export import export
from infra.patchset.import_branch import import_branch
from infra.patchset.manifest import WHEEL

pytestmark = pytest.mark.slow  # The core has series_test.


def add_patch(project: Project,
              subject: str = 'module: be ours',
              edits=None,
              series: str = 'one',
              form: str = TAG) -> str:
  """Adds a patch, with a test; returns its path under patches/."""
  edits = edits or {MODULE: insert(10, 'ours = 1'), TESTS: insert(7, NEW_TEST)}
  project.file(f'patches/upstream/{series}/COVER.md', '# Be ours\n\nBecause.\n')
  patch = project.wider_patch(series, subject, edits, [form])
  return patch.relative_to(project.root / 'patches').as_posix()


def edit(sources: Path, tree: Path, branch: str) -> Path:
  """A work tree of a branch."""
  git(sources, 'worktree', 'add', '-q', str(tree), branch)
  return tree


def import_lines(project: Project, sources: Path, branch: str) -> list[str]:
  lines: list[str] = []
  import_branch(project.root, sources, branch, lines.append)
  assert check(project.root, project.read) == []
  return lines


# export


def test_export_to_each_base_and_to_any_commit(project, sources):
  add_patch(project)
  git(sources, 'commit', '-q', '--allow-empty', '-m', 'a fork')
  (sources / MODULE).write_text('at_work = 1\n')
  status = git(sources, 'status', '--porcelain')
  for target in (TAG, 'master', 'HEAD'):
    branch = f'on-{target}'
    export(project.root, sources, 'one', target, branch)
    module = git(sources, 'show', f'{branch}:{MODULE}').splitlines()
    assert module[module.index('ours = 1') - 1] == 'line_9 = 9'
    assert ('moved_on = 1' in module) == (target != TAG)
    body = git(sources, 'log', '-1', '--format=%B', branch)
    assert body == ('module: be ours\n\nA throwaway patch.\n\n'
                    'Bug: https://example.org/1\n').strip()
  assert git(sources, 'status', '--porcelain') == status
  assert git(sources, 'log', '-1', '--format=%an', 'on-master') == 'The User'


def test_export_picks_the_commits_that_a_base_has_besides(project, sources):
  add_patch(project, form=f'{TAG}+feature')
  exported = export(project.root, sources, 'one', f'{TAG}+feature', 'fork/one')
  feature = git(sources, 'rev-parse', 'feature')
  assert exported.picked == (feature,)
  assert 'feature = 1' in git(sources, 'show', f'fork/one:{MODULE}')


def test_export_shows_a_conflict_and_makes_no_branch(project, sources):
  add_patch(project, edits={MODULE: replace(5, 'ours = 1')})
  lines = (sources / MODULE).read_text().splitlines(True)
  lines[6] = 'theirs = 1\n'
  (sources / MODULE).write_text(''.join(lines))
  git(sources, 'commit', '-q', '-am', 'a change there')
  shown: list[str] = []
  with pytest.raises(BuildError, match='1 patches meet changes of HEAD'):
    export(project.root, sources, 'one', 'HEAD', 'fork/one', say=shown.append)
  assert 'ours\ntheirs = 1\n' in shown[-1]
  assert git(sources, 'branch', '--list', 'fork/*') == ''


def test_export_refuses(project, sources, tmp_path):
  add_patch(project)
  with pytest.raises(BuildError, match='there is no commit nowhere'):
    export(project.root, sources, 'one', 'nowhere', 'fork/one')
  with pytest.raises(BuildError, match='is no git checkout'):
    export(project.root, tmp_path / 'nowhere', 'one', TAG, 'fork/one')
  with pytest.raises(BuildError, match='switch failed: .*a..b'):
    export(project.root, sources, 'one', TAG, 'a..b')
  export(project.root, sources, 'one', TAG, 'fork/one')
  with pytest.raises(BuildError, match='has a branch fork/one already'):
    export(project.root, sources, 'one', TAG, 'fork/one')
  project.series('two')
  with pytest.raises(BuildError, match='no patches for people with the source'):
    export(project.root, sources, 'two', TAG, 'fork/two')


def test_export_writes_the_text_of_the_pull_request(project, sources, capsys,
                                                    monkeypatch):
  add_patch(project)
  project.series('two', depends_on=['one'])
  add_patch(
      project, 'module: be more', {MODULE: insert(5, 'more = 1')}, series='two')
  file = project.root / 'pr.md'
  arguments = ['export', '--upstream', str(sources), '--base', TAG, '--pr']
  assert command_line.main([*arguments, str(file), 'two'], project.root) == 0
  assert file.read_text() == (
      '# Be ours\n\nBecause.\n\n## Commits\n\n'
      f'On {TAG}, {git(sources, "rev-parse", TAG)}:\n\n'
      '- module: be ours (of https://example.org/1)\n- module: be more\n')
  printed = capsys.readouterr()
  assert 'format-patch -o OUTPUT_FOLDER' in printed.out
  assert 'warning: the commits are by The User <' in printed.err
  for who in 'AUTHOR', 'COMMITTER':  # So that they are as before in the end.
    monkeypatch.setenv(f'GIT_{who}_NAME', '')
    monkeypatch.setenv(f'GIT_{who}_EMAIL', '')
  arguments = [*arguments, str(file), '--branch', 'signed', '--author']
  assert command_line.main([*arguments, 'nobody', 'two'], project.root) == 1
  assert command_line.main([*arguments, 'A B <a@b.org>', 'two'],
                           project.root) == 0
  assert git(sources, 'log', '-1', '--format=%an %ae %cn',
             'signed') == 'A B a@b.org A B'
  add_patch(
      project, 'module: be most', {MODULE: insert(6, 'most = 1')}, series='two')
  arguments[-3:] = ['--branch', 'each', '--each']
  assert command_line.main([*arguments, 'two'], project.root) == 0
  assert [
      git(sources, 'log', '-1', '--format=%s', f'each-{n}') for n in (1, 2)
  ] == ['module: be more', 'module: be most']
  text = (project.root / 'pr-2.md').read_text()
  assert text.startswith('# module: be most\n')
  assert text.endswith('Stands on:\n\n- module: be more\n')


# import


def test_import_of_an_unchanged_branch_changes_nothing(project, sources):
  add_patch(project)
  export(project.root, sources, 'one', TAG, 'fork/one')
  assert import_lines(project, sources,
                      'one') == ['nothing was changed on the branch']


def test_import_merges_what_builds_on_a_change(project, sources, tmp_path):
  first = add_patch(project)
  second = add_patch(project, 'module: be more',
                     {MODULE: insert(11, 'more = 1')})
  project.series('two', depends_on=['one'])
  third = add_patch(
      project, 'module: be most', {MODULE: insert(2, 'most = 1')}, series='two')
  export(project.root, sources, 'one', TAG, 'fork/one')
  tree = edit(sources, tmp_path / 'tree', 'fork/one')
  tip = git(tree, 'rev-parse', 'HEAD')
  git(tree, 'reset', '-q', '--hard', 'HEAD~1')
  (tree / MODULE).write_text('first = 1\n' + (tree / MODULE).read_text())
  git(tree, 'commit', '-q', '-a', '--amend', '--no-edit')
  git(tree, 'cherry-pick', tip)
  assert import_lines(project, sources, 'one') == [
      f'changed patches/{path}' for path in (first, second, third)
  ]
  made = project.laid('two', TAG, MODULE).decode().splitlines()
  assert made[0] == 'first = 1'
  assert made.index('most = 1') < made.index('ours = 1') < made.index(
      'more = 1')


def test_import_takes_new_patches_and_drops_others(project, sources, tmp_path):
  first = add_patch(project)
  second = add_patch(project, 'module: be more',
                     {MODULE: insert(20, 'more = 1')})
  export(project.root, sources, 'one', TAG, 'fork/one')
  tree = edit(sources, tmp_path / 'tree', 'fork/one')
  git(tree, 'rebase', '-q', '--onto', 'HEAD~2', 'HEAD~1')
  (tree / MODULE).write_text('new = 1\n' + (tree / MODULE).read_text())
  git(tree, 'commit', '-q', '-am', 'module: be new\n\nWhy so.')
  with pytest.raises(BuildError, match='lists no module-be-new.patch'):
    import_lines(project, sources, 'one')
  new = 'upstream/one/module-be-new.patch'
  project.series('one', upstream=[first, second, new])
  with pytest.raises(BuildError, match='lacks Description, Bug'):
    import_lines(project, sources, 'one')
  git(
      tree, 'commit', '-q', '--amend', '-m', 'module: be new\n\nWhy so.\n\n'
      'Description: new\nBug: none\nForwarded: no\n'
      f'Applies-to: {TAG}\nRemove-when: never\nSigned-off-by: nobody')
  lines: list[str] = []
  import_branch(project.root, sources, 'one', lines.append)
  assert lines == [
      f'removed patches/{first}: take it out of patches/series.toml',
      f'changed patches/{second}', f'changed patches/{new}'
  ]
  project.series('one', upstream=[second, new])
  assert check(project.root, project.read) == []
  made = project.laid('one', TAG, MODULE).decode().splitlines()
  assert made[0] == 'new = 1' and 'ours = 1' not in made
  assert 'Signed-off-by' not in (project.root / 'patches' / new).read_text()


def test_import_refuses_what_conflicts_and_writes_nothing(
    project, sources, tmp_path):
  first = add_patch(project)
  project.series('two', depends_on=['one'])
  add_patch(
      project,
      'module: be more', {MODULE: replace(10, 'ours = 2')},
      series='two')
  before = (project.root / 'patches' / first).read_bytes()
  export(project.root, sources, 'one', TAG, 'fork/one')
  tree = edit(sources, tmp_path / 'tree', 'fork/one')
  (tree / MODULE).write_text(
      (tree / MODULE).read_text().replace('ours = 1', 'ours = 3'))
  git(tree, 'commit', '-q', '-a', '--amend', '--no-edit')
  with pytest.raises(BuildError, match=f'two.* conflicts .* on {TAG}'):
    import_branch(project.root, sources, 'one')
  assert (project.root / 'patches' / first).read_bytes() == before
  git(tree, 'commit', '-q', '--allow-empty', '-m', 'module: be ours')
  with pytest.raises(BuildError, match='has two commits for'):
    import_branch(project.root, sources, 'one')
  with pytest.raises(BuildError, match='no branch fork/two that export made'):
    import_branch(project.root, sources, 'two')


# check --upstream


def check_lines(project: Project, sources: Path,
                **options) -> tuple[str, list[str]]:
  """The problems, and the lines of progress."""
  lines: list[str] = []
  problems = check_upstream(project.root, sources, say=lines.append, **options)
  return '\n'.join(problems), lines


def test_series_on_each_of_its_bases(project, sources):
  add_patch(project)
  refs = git(sources, 'for-each-ref')
  expected = [
      f'==> {series} on {base}: 1 patches' for series in ('one', 'all')
      for base in (TAG, f'{TAG}+feature', 'master')
  ]
  assert check_lines(project, sources) == ('', expected)
  assert check_lines(
      project, sources, elsewhere='HEAD') == ('', [
          '==> one on HEAD: 1 patches', '==> all on HEAD: 1 patches'
      ])
  assert git(sources, 'for-each-ref') == refs


@pytest.mark.parametrize('edits, message', [
    ({
        MODULE: insert(10, 'ours = (')
    }, 'module.py does not compile'),
    ({
        MODULE: insert(10, 'ours=1')
    }, '+ours = 1'),
    ({
        MODULE: insert(10, 'def f():\n  pass\n\n\ndef f():\n  return 1\n')
    }, 'Redefinition of unused `f`'),
    ({
        NATIVE: insert(2, 'int  Two() { return 2; }\n')
    }, '+int Two() { return 2; }'),
    ({
        MODULE: insert(10, 'ours = 1')
    }, 'its patches change no test'),
])
def test_patch_that_applies_and_is_wrong(edits, message, project, sources):
  add_patch(project, edits=edits)
  assert message in check_lines(project, sources)[0]


def test_hunk_that_meets_a_change_of_the_tree(project, sources):
  add_patch(project, edits={MODULE: replace(5, 'ours = 1')})
  (sources / MODULE).write_text('theirs = 1\n' * 9)
  git(sources, 'commit', '-q', '-am', 'another file')
  problems, _ = check_lines(project, sources, elsewhere='HEAD')
  assert '"module: be ours" meets changes of the tree' in problems
  git(sources, 'rm', '-q', MODULE)
  git(sources, 'commit', '-q', '-m', 'no file')
  problems, _ = check_lines(project, sources, elsewhere='HEAD')
  assert '"module: be ours" meets changes of the tree' in problems


def test_includes_that_the_tree_has_sorted_anew(project, sources):
  text = '#include <b>\n\n#include "z.h"\n\nint One() { return 1; }\n'
  (sources / NATIVE).write_text(text)
  git(sources, 'commit', '-q', '-am', 'include')
  git(sources, 'tag', 'base/old')
  project.base('old', sources, git(sources, 'rev-parse', 'HEAD'))
  (sources / NATIVE).write_text('#include "z.h"\n' +
                                text.replace('#include "z.h"\n', ''))
  git(sources, 'commit', '-q', '-am', 'sort')
  edits = {NATIVE: insert(0, '#include <a>'), TESTS: insert(7, NEW_TEST)}
  add_patch(project, edits=edits, form='old')
  assert check_lines(project, sources, elsewhere='HEAD')[0] == ''
  export(project.root, sources, 'one', 'HEAD', 'fork/one')
  made = git(sources, 'show', f'fork/one:{NATIVE}')
  assert made.count('#include') == 3 and '#include <a>\n' in made


def test_command_line(project, sources, capsys):
  add_patch(project)
  project.series('two')
  arguments = ['check', '--upstream', str(sources), '--only']
  assert command_line.main([*arguments, 'one'], project.root) == 0
  assert capsys.readouterr().out.splitlines() == [
      *(f'==> one on {b}: 1 patches' for b in BASES), 'the series are in order'
  ]
  assert command_line.main([*arguments, 'two'], project.root) == 1
  assert 'no patches for people with the source: two' in capsys.readouterr().err


# What `check` sees without the sources.


def test_patch_for_both_forms(project, sources):
  """A wheel has no tests, so what a patch does to tests is left out there."""
  name = 'torch_xla/_dynamo/config.py'
  project.wider_patch(
      'one',
      'config: add a line', {
          name: insert(2, '# ours'),
          TESTS: insert(7, NEW_TEST)
      }, [WHEEL, TAG],
      bases={
          name: project.read(name),
          TESTS: (sources / TESTS).read_bytes()
      })
  assert check(project.root, project.read) == []


def test_lists_that_cannot_be(project, sources):
  path = add_patch(project, form='master')
  assert check(project.root, project.read) == []
  project.series('two', depends_on=['one'])
  add_patch(project, 'module: be more', {TESTS: insert(7, NEW_TEST)}, 'two')
  problems = check(project.root, project.read)
  assert any(f'which has no patches for {TAG}' in p for p in problems)
  project.series('two', depends_on=[])
  project.series('one', base=TAG)
  problems = check(project.root, project.read)
  assert any(f'Applies-to does not name {TAG}' in p for p in problems)
  project.file('patches/upstream/two/a.patch', '')
  project.series('one', base='master', upstream=[path, 'upstream/two/a.patch'])
  problems = check(project.root, project.read)
  assert any('it has to lie in upstream/one' in p for p in problems)
