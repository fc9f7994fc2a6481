"""`check --upstream`: the patches for people with the source."""

from pathlib import Path

from infra_project import BASES
from infra_project import git
from infra_project import insert
from infra_project import MODULE
from infra_project import NATIVE
from infra_project import NEW_TEST
from infra_project import problem
from infra_project import Project
from infra_project import replace
from infra_project import TAG
from infra_project import TESTS
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.check import check
from infra.patchset.check_upstream import check_upstream

pytestmark = pytest.mark.slow  # The core has series_test.

ON_RELEASE = list(BASES[:1])


def add_patch(project: Project,
              path: str = MODULE,
              edit=insert(10, 'ours = 1'),
              forms=None,
              subject: str = 'module: be ours',
              **options) -> Path:
  """Adds a patch to series `one`, with a test."""
  edits = {path: edit}
  project.file('patches/upstream/one/COVER.md', '# Be ours\n\nBecause.\n')
  if subject == 'module: be ours':
    edits |= {TESTS: insert(7, NEW_TEST)}
  return project.wider_patch('one', subject, edits, forms or ON_RELEASE,
                             **options)


def found(project: Project, sources: Path) -> tuple[str, str]:
  """The problems of all series, and what is said."""
  said: list[str] = []
  problems = check_upstream(project.root, sources, say=said.append)
  return '\n'.join(problems), '\n'.join(said)


def test_series_on_each_of_its_bases(project, sources):
  add_patch(project, forms=['v2.9.0'])
  add_patch(
      project, forms=['v2.9.0+feature'], folder='upstream/one/v2.9.0+feature')
  add_patch(project, forms=['master'], folder='upstream/one/master')
  project.series('two', depends_on=['one'])
  project.wider_patch('two', 'module: be more', {MODULE: insert(9, 'more = 1')},
                      ['master'])
  git(sources, 'switch', '-q', '-c', 'work', TAG)
  (sources / MODULE).write_text('at_work = 1\n')
  before = git(sources, 'for-each-ref'), git(sources, 'status', '--porcelain')
  problems, said = found(project, sources)
  assert problems.startswith(
      'two on master: its patches add no test to a test file\n'
      'two: patches/upstream/two/COVER.md is missing')
  assert said.splitlines()[-5:] == [
      'series  base            applies    names  compiles  format  tests',
      'one     v2.9.0          1 patches  yes    yes       yes     1 new of 2',
      'one     v2.9.0+feature  1 patches  yes    yes       yes     1 new of 2',
      'one     master          1 patches  yes    yes       yes     1 new of 2',
      'two     master          1 patches  yes    yes       yes     NO',
  ]
  assert ('  tests: 2 in test/test_module.py, added: 1\n'
          '    ModuleTest.test_ours\n') in said
  # What the sources are taken from stays as it was, and a bare one serves too.
  assert before == (git(sources,
                        'for-each-ref'), git(sources, 'status', '--porcelain'))
  bare = sources.with_name('bare.git')
  git(sources, 'clone', '-q', '--bare', '.', str(bare))
  assert found(project, bare) == (problems, said)


def test_what_was_laid_before_is_gone(project, sources):
  add_patch(project)
  found(project, sources)
  left = project.root / 'build/upstream/left.py'
  left.write_text('')
  (left.parent / MODULE).write_text('other = 1\n')
  assert found(project, sources)[0] == ''
  assert not left.exists()


@pytest.mark.parametrize('path, edit, cell, message', [
    (MODULE, insert(10, 'def f():\n  pass\n\n\ndef f():\n  return 1\n'),
     'names', f'{MODULE} defines f 2 times'),
    (NATIVE, insert(2, 'int One() { return 2; }\n'), 'names',
     f'{NATIVE} defines torch_xla::One() 2 times'),
    (MODULE, insert(10, 'ours = ('), 'compiles', 'was never closed'),
    (MODULE, insert(10, 'ours=1'), 'format', '+ours = 1'),
    (NATIVE, insert(2, 'int  Two() { return 2; }\n'), 'format',
     'code should be clang-formatted'),
])
def test_patch_that_applies_and_is_wrong(path, edit, cell, message, project,
                                         sources):
  add_patch(project, path, edit)
  problems, said = found(project, sources)
  assert problems.startswith('one on v2.9.0: ') and message in problems
  head, row = (line.split() for line in said.splitlines()[-2:])
  # "1 patches" are two words.
  assert row[head.index(cell) + 1] == 'NO'


def test_lines_of_upstreams_are_not_judged(project, sources):
  for path, text in ((MODULE,
                      'x=1\n' + '\n\ndef f(): pass\n' * 2 + '\n\nz=1\n'),
                     (NATIVE, 'int  f() { return 1; }\n')):
    (sources / path).write_text(text)
  git(sources, 'commit', '-q', '-am', 'badly written')
  git(sources, 'tag', 'base/odd')
  project.base('odd', sources, git(sources, 'rev-parse', 'HEAD'))
  add_patch(project, edit=insert(9, 'y = 1'), forms=['odd'])
  add_patch(project, NATIVE, insert(1, 'int g() { return 1; }'), ['odd'],
            'native: more')
  assert found(project, sources)[0] == ''


@pytest.mark.parametrize('edit, message', [
    (insert(0, 'def test_ours():\n  pass\n\n\n'),
     'unittest does not find test_ours in test/test_module.py'),
    (lambda lines: ['def test_ours():\n', '  pass\n'],
     'unittest finds no test in test/test_module.py'),
    (insert(0, 'import nothing_like_it'),
     "cannot be loaded: ModuleNotFoundError: No module named 'nothing_like_it'"
    ),
])
def test_tests_that_upstream_would_not_run(edit, message, project, sources):
  project.wider_patch('one', 'module: be ours', {TESTS: edit}, ON_RELEASE)
  assert message in found(project, sources)[0]


def test_tests_that_cannot_be_loaded_here(project, sources):
  (sources / TESTS).write_text('import nothing_like_it\n' +
                               (sources / TESTS).read_text())
  git(sources, 'commit', '-q', '-am', 'need a module')
  git(sources, 'tag', 'base/odd')
  project.base('odd', sources, git(sources, 'rev-parse', 'HEAD'))
  project.file('patches/upstream/one/COVER.md', '# Be ours\n\nBecause.\n')
  project.wider_patch('one', 'module: be ours', {TESTS: insert(8, NEW_TEST)},
                      ['odd'])
  problems, said = found(project, sources)
  assert problems == ''
  assert 'they were read, not loaded: ModuleNotFoundError' in said
  assert said.endswith('1 new of 2')


def test_patch_of_another_blob(project, sources):
  add_patch(project)
  add_patch(
      project,
      subject='module: be more',
      bases={MODULE: b'other = 1\n' * 12},
      forms=['master'])
  problems, said = found(project, sources)
  assert 'one on master: patch upstream/one/module-be-more.patch applies' in (
      problems)
  assert said.splitlines()[-1].split()[2] == 'NO'
  assert said.splitlines()[-2].split()[2:4] == ['1', 'patches']


def test_base_that_is_not_there(project, sources, capsys):
  add_patch(project, forms=['master'])
  commit = '1' * 40
  project.base('master', sources, commit)
  project.series('one')
  arguments = ['check', '--upstream', str(sources)]
  assert command_line.main(arguments, project.root) == 1
  assert (f'has no commit {commit}, which the base master needs. Fetch it: git '
          f'-C {sources} fetch <upstream> {commit}') in capsys.readouterr().err
  with pytest.raises(BuildError, match='is no git checkout'):
    check_upstream(project.root, project.root / 'nowhere')


def test_command_line(project, sources, capsys):
  add_patch(project)
  project.series('two')
  arguments = ['check', '--upstream', str(sources), '--only']
  assert command_line.main([*arguments, 'one'], project.root) == 0
  printed = capsys.readouterr().out.splitlines()
  assert printed[0] == '==> one on v2.9.0'
  assert printed[-1] == 'the series are in order on their bases'
  assert command_line.main([*arguments, 'two'], project.root) == 1
  assert 'no patches for people with the source: two' in capsys.readouterr().err


# What can be said without the sources.


def test_patch_for_both_forms(project, sources):
  """A wheel has no tests, so what a patch does to tests is left out there."""
  name = 'torch_xla/_dynamo/config.py'
  project.wider_patch(
      'one',
      'config: add a line', {
          name: insert(2, '# ours'),
          TESTS: insert(7, NEW_TEST)
      }, ['wheel', 'v2.9.0'],
      bases={
          name: project.read(name),
          TESTS: (sources / TESTS).read_bytes()
      })
  assert check(project.root, project.read) == []
  project.wider_patch('one', 'module: test more',
                      {TESTS: insert(7, '  # More')}, ['wheel'],
                      {TESTS: b'\n' * 9})
  assert ('upstream/one' not in problem(project) and
          'changes no file that a wheel has' in problem(project))
  project.wider_patch('one', 'module: no such file',
                      {MODULE: replace(3, 'ours = 1')}, ['wheel'],
                      {MODULE: (sources / MODULE).read_bytes()})
  project.series('one', wheel=[project.series('one')['wheel'][-1]])
  assert 'is not in the official wheel' in problem(project)


def test_list_that_cannot_be(project, sources):
  add_patch(project, forms=list(BASES[:2]))
  assert check(project.root, project.read) == []
  [name] = project.series('one')['upstream']['v2.9.0']
  project.series('one', upstream={'master': [name]})
  assert f'patch {name}: Applies-to does not name master' in problem(project)
  project.series('one', wheel=[name], upstream={})
  assert 'lacks Why-not-overlay' not in problem(project)
  assert 'Applies-to does not name 2.9.0' in problem(project)

  own = name.replace('one/', 'one/v2.9.0/')
  text = (project.root / 'patches' / name).read_text()
  (project.root / 'patches' / name).unlink()
  project.file(f'patches/{own}', text)
  project.series('one', wheel=[], upstream={'v2.9.0+feature': [own]})
  assert 'what these share lies in upstream/one or' in problem(project)
  project.series('one', upstream={'v2.9.0': [own]})
  assert check(project.root, project.read) == []
  project.file(f'patches/{name}', text)
  project.series('one', upstream={'v2.9.0': [own], 'v2.9.0+feature': [name]})
  assert 'are the same: keep one' in problem(project)


def test_base_that_a_dependency_lacks(project, sources):
  add_patch(project, forms=['v2.9.0'])
  add_patch(project, subject='module: be more', forms=['v2.9.0', 'master'])
  first, second = project.series('one')['upstream']['v2.9.0']
  project.series('one', upstream={'v2.9.0': [first]})
  moved = second.replace('/one/', '/two/')
  project.file(f'patches/{moved}',
               (project.root / 'patches' / second).read_text())
  (project.root / 'patches' / second).unlink()
  lists = {'v2.9.0': [moved], 'master': [moved]}
  project.series('two', depends_on=['one'], upstream=lists)
  assert ('series two on master: it depends on one, which has no patches for '
          'that base') in problem(project)
  project.series('two', depends_on=['one'], upstream={'v2.9.0': [moved]})
  assert check(project.root, project.read) == []
  # Without the first, the second one's blob is not there.
  project.series('two', upstream={'v2.9.0': [moved, first]}, depends_on=[])
  found_now = problem(project)
  assert 'and upstream/two/module-be-more.patch before it makes' in found_now
