"""Series on a tree that no base names: `--base` of `check` and of `export`."""

from pathlib import Path

from infra_project import BASES
from infra_project import edit_file
from infra_project import git
from infra_project import insert
from infra_project import MODULE
from infra_project import NATIVE
from infra_project import NEW_TEST
from infra_project import Project
from infra_project import replace
from infra_project import TAG
from infra_project import TESTS
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.check_upstream import check_upstream
from infra.patchset.export import export

pytestmark = pytest.mark.slow  # The core has series_test.

RELEASE, PICKED, MASTER = BASES


def fork(sources: Path, start: str, *edits) -> None:
  """Makes the branch `theirs`, with a commit that edits the module."""
  git(sources, 'switch', '-q', '-c', 'theirs', start)
  change(sources, 'theirs', *edits)


def change(sources: Path, subject: str, *edits) -> str:
  """Commits edits of the module; returns the id as it is told."""
  for edit in edits:
    edit_file(sources / MODULE, edit)
  git(sources, 'commit', '-q', '--allow-empty', '-am', subject)
  return git(sources, 'rev-parse', 'HEAD')[:10]


def add_patch(project: Project, edit, forms, subject: str = 'module: be ours'):
  project.file('patches/upstream/one/COVER.md', '# Be ours\n\nBecause.\n')
  project.wider_patch('one', subject, {MODULE: edit}, forms)


def checked(project: Project,
            sources: Path,
            ref: str = 'theirs') -> tuple[list[str], str]:
  """The problems of all series on a commit, and what is said."""
  said: list[str] = []
  problems = check_upstream(project.root, sources, None, said.append, ref)
  return problems, '\n'.join(said)


def exported(project: Project, sources: Path) -> tuple[list[str], str]:
  """The subjects of the branch that is made, and what is said."""
  said: list[str] = []
  made = export(
      project.root,
      sources,
      'one',
      'theirs',
      say=lambda line: said.append(line))
  log = git(sources, 'log', '--reverse', '--format=%s',
            f'{made.start}..{made.branch}')
  return log.splitlines(), '\n'.join(said)


def refused(project: Project, sources: Path) -> tuple[str, str]:
  """Why no branch is made, and what is said; nothing is left behind."""
  said: list[str] = []
  before = git(sources, 'for-each-ref')
  with pytest.raises(BuildError) as raised:
    export(project.root, sources, 'one', 'theirs', say=said.append)
  assert git(sources, 'for-each-ref') == before
  assert len(git(sources, 'worktree', 'list').splitlines()) == 1
  return str(raised.value), '\n'.join(said)


def test_patches_find_their_lines_where_others_moved_them(project, sources):
  fork(sources, TAG, insert(0, 'theirs = 1'), insert(0, 'theirs = 2'))
  project.file('patches/upstream/one/COVER.md', '# Be ours\n\nBecause.\n')
  project.wider_patch('one', 'module: be ours', {
      MODULE: insert(15, 'ours = 1'),
      TESTS: insert(7, NEW_TEST)
  }, [RELEASE])
  project.wider_patch('one', 'native: be ours', {NATIVE: insert(1, '// Ours.')},
                      [RELEASE])
  problems, said = checked(project, sources)
  assert problems == []
  assert 'patches of v2.9.0: 1 by blob, 1 merged' in said
  assert said.endswith('one     theirs  2 patches  yes    yes       yes     '
                       '1 new of 2')
  assert exported(project, sources)[0] == ['module: be ours', 'native: be ours']
  lines = git(sources, 'show', f'fork/one:{MODULE}').splitlines()
  assert lines[16:19] == ['line_14 = 14', 'ours = 1', 'line_15 = 15']
  assert lines[:2] == ['theirs = 2', 'theirs = 1']


def test_each_hunk_that_meets_a_change_is_told(project, sources):
  fork(sources, TAG, replace(10, 'theirs = 10'))
  wrote = git(sources, 'rev-parse', 'HEAD')[:10]
  removed = change(sources, 'take two', lambda lines: lines[:20] + lines[22:])
  add_patch(project, replace(10, 'ours = 10'), [RELEASE])
  add_patch(project, replace(10, 'ours = 11'), [RELEASE], 'module: be more')
  add_patch(project, replace(20, 'ours = 20'), [RELEASE], 'module: be new')
  git(sources, 'rm', '-q', NATIVE)
  gone = change(sources, 'no native code')
  project.wider_patch('one', 'native: be ours', {NATIVE: insert(1, '// Ours.')},
                      [RELEASE])
  message, said = refused(project, sources)
  assert message.startswith('one on theirs: 4 hunks meet changes of the tree')
  start = git(sources, 'rev-parse', TAG)[:12]
  assert message.endswith(f'git rebase --onto theirs {start} NAME')
  met = f'{MODULE}:11: "module: be ours" meets\n     11 {wrote} | theirs = 10\n'
  assert f'{met}  changed by {wrote} theirs\n' in said
  # The second builds on the first.
  assert ('"module: be more" meets\n'
          f'     11 {wrote} | theirs = 10\n'
          f'  changed by {wrote} theirs\n'
          '  expects "module: be ours" before it\n') in said
  assert (f'{MODULE}:20: "module: be new" finds nothing behind this line\n'
          f'  changed by {removed} take two\n') in said
  assert (f'{NATIVE}: "native: be ours" finds no such file\n'
          f'  changed by {gone} no native code') in said
  problems, said = checked(project, sources)
  assert [p.partition(': ')[2] for p in problems] == [
      'does not apply: 4 hunks meet changes of the tree, as told above'
  ]
  assert met.splitlines()[1] in said
  assert 'NO, 4 hunks' in said.splitlines()[-1]


def test_many_lines_are_told_in_part(project, sources):
  fork(sources, TAG, lambda lines: [f'their_{line}' for line in lines])
  add_patch(project, replace(10, 'ours = 10'), [RELEASE])
  said = refused(project, sources)[1]
  assert '| their_line_11 = 11\n' in said and 'line_12' not in said
  assert '  and 18 lines more\n' in said


def test_needed_commit_is_picked_or_there(project, sources):
  add_patch(project, insert(10, 'ours = 1'), [PICKED])
  project.wider_patch('one', 'module: be more', {MODULE: insert(5, 'more = 1')},
                      [MASTER])
  feature = git(sources, 'rev-parse', 'feature')[:10]
  fork(sources, TAG, insert(0, 'theirs = 1'))
  log, said = exported(project, sources)
  assert log == ['feature', 'module: be more']
  assert f'merged; needs {feature}, picked' in said
  assert '(cherry picked from commit' in git(sources, 'log', '-1',
                                             '--format=%B', 'fork/one~1')
  git(sources, 'branch', '-D', 'fork/one')
  # In other words, or solved by hand, it is there as well.
  git(sources, 'cherry-pick', 'feature')
  git(sources, 'commit', '-q', '--amend', '-m', 'as ours')
  log, said = exported(project, sources)
  assert log == ['module: be more']
  assert f'needs {feature}, which is there' in said
  git(sources, 'branch', '-D', 'fork/one')
  git(sources, 'reset', '-q', '--hard', 'HEAD^')
  full = git(sources, 'rev-parse', 'feature')
  change(sources, f'ours\n\n(cherry picked from commit {full})',
         insert(21, 'feature = 2'))
  assert f'needs {feature}, which is there' in exported(project, sources)[1]


def test_commit_of_upstream_that_is_not_there(project, sources):
  add_patch(project, replace(0, 'moved_on = 2'), [MASTER])
  fork(sources, 'feature', insert(29, 'theirs = 1'))
  wrote = git(sources, 'rev-parse', 'master')[:10]
  assert (f'  expects {wrote} master, which is not there'
          in refused(project, sources)[1].splitlines())


def test_what_merges_and_is_wrong(project, sources):
  fork(sources, TAG, insert(2, 'def f():\n  pass'))
  add_patch(project, insert(25, 'def f():\n  pass'), [RELEASE])
  assert f'{MODULE} defines f 2 times' in refused(project, sources)[0]
  assert f'{MODULE} defines f 2 times' in '\n'.join(
      checked(project, sources)[0])


def test_command_line(project, sources, tmp_path, capsys):

  def run(*arguments: str) -> tuple[int, str, str]:
    ended = command_line.main([*arguments], project.root)
    return ended, *capsys.readouterr()

  add_patch(project, insert(10, 'ours = 1'), [RELEASE])
  fork(sources, TAG, insert(0, 'theirs = 1'))
  options = ['--upstream', str(sources), '--base']
  # The name of a base means the base.
  said = run('check', *options, RELEASE)[1]
  assert '==> one on v2.9.0\n' in said and 'tries' not in said
  ended, _, error = run('check', *options, 'nowhere')
  assert ended and 'has no commit nowhere, and it is no base; there are: ' in (
      error)
  ended, _, error = run('check', '--base', 'theirs')
  assert ended and '--base takes the source' in error
  ended, _, error = run('export', 'one', *options, 'theirs', '--onto', 'master')
  assert ended and 'name the commit by --base alone' in error
  file = tmp_path / 'pr.md'
  ended, said, error = run('export', 'one', *options, 'theirs', '--pr',
                           str(file))
  assert not ended, error
  start = git(sources, 'rev-parse', 'theirs')
  assert f'{start}..fork/one' in said
  assert file.read_text().endswith(
      f'\nOn theirs, {start}:\n\n- module: be ours\n')
