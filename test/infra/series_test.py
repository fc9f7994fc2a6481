"""The patch series: the checkout's own, and good and bad ones of the tests."""

from pathlib import Path
import sys
import zipfile

from infra_project import (CONFIG, insert, one_patch, output_of, problem,
                           Project, replace, ROOT, RUNTIME, unpack)
import pytest

from infra import series as command_line
from infra.errors import BuildError
from infra.patchset.apply import apply_to_folder, folder_reader, patched_files
from infra.patchset.check import check
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import blob_id, slug, wheel_patches


def two_patches(project: Project) -> list[Path]:
  """Gives the project a series `one` with two patches to one file."""
  first = one_patch(project)
  second = project.patch('one', 'config: add another line', CONFIG,
                         insert(0, '# ours 2'), patched(project))
  return [first, second]


def patched(project: Project) -> bytes:
  """What all series make of a file."""
  patches = [
      patch for series in load_manifest(project.root).series
      for patch in wheel_patches(project.root, series)
  ]
  return patched_files(project.read, patches)[CONFIG]


# The checkout's own series.


def test_checkout_is_in_order(official_wheel, tmp_path):
  wheel = unpack(official_wheel, tmp_path)
  assert check(ROOT, folder_reader(wheel)) == []


@pytest.mark.nightly
def test_commands_on_the_checkout():
  script = [sys.executable, ROOT / 'infra' / 'series.py']
  assert 'in order' in output_of(*script, 'check')
  for command in ('check', 'apply', 'export', 'import'):
    output_of(*script, command, '--help')


def test_checkouts_series_apply_to_a_wheel(official_wheel, tmp_path, capsys):
  wheel = unpack(official_wheel, tmp_path)
  assert command_line.main(['apply', '--wheel', str(wheel)]) == 0
  patches = [
      patch for series in load_manifest(ROOT).series
      for patch in wheel_patches(ROOT, series)
  ]
  with zipfile.ZipFile(official_wheel) as archive:
    changed = patched_files(archive.read, patches)
  said = capsys.readouterr().out.splitlines()
  assert sorted(said) == sorted(f'changed {path}' for path in changed)
  for path, data in changed.items():
    assert (wheel / path).read_bytes() == data
  assert command_line.main(['apply', '--wheel', str(wheel)]) == 1
  assert 'applied already' in capsys.readouterr().err


# check


def test_good_patches(project):
  two_patches(project)
  assert check(project.root, project.read) == []
  lines = patched(project).decode().splitlines()
  assert lines[0] == '# ours 2' and lines[3] == '# ours 1'


def _context(text: str) -> str:
  return text.replace('@@ -2,0 +3 @@\n', '@@ -2 +2,2 @@\n context\n')


@pytest.mark.parametrize('spoil, message', [
    (_context, 'context line'),
    (lambda t: t.replace('@@ -2,0 +3 @@', '@@ -2,0 +3 @@ def f():'),
     'behind the second @@'),
    (lambda t: t.replace('+3 @@', '+3,2 @@'), 'other lines than it says'),
    (lambda t: t.replace('@@ -2,0 +3 @@\n', '@@ -2 +2 @@\n-no such line\n'),
     'other lines than it says'),
    (lambda t: t.replace('Bug: https://example.org/1\n', ''), 'lacks Bug'),
    (lambda t: t.replace('Why-not-overlay: there would be\n nothing to test\n',
                         ''), 'lacks Why-not-overlay'),
    (lambda t: t.replace('Forwarded: no', 'Forwarded:'), 'this line is none'),
    (lambda t: t.replace('Forwarded: no', 'Forwarded: no\nForwarded: yes'),
     'twice'),
    (lambda t: t.replace('torch_xla 2.9.0', 'torch_xla 2.8.0'),
     'does not name 2.9.0'),
    (lambda t: t.replace('A throwaway patch.\n\n', ''), 'says why'),
    (lambda t: t.replace('Subject: [PATCH] ', 'Subject: '), 'first line'),
    (lambda t: t.replace('config: add', 'config: insert'),
     'config-insert-a-line.patch'),
    (lambda t: t.replace('A throwaway', 'From: somebody\nA throwaway'),
     'names an author'),
    (lambda t: t.replace('\n---\ndiff', '\ndiff'), 'no line ---'),
    (lambda t: t.replace(' 100644\n', '\n'), 'index line'),
    (lambda t: t.replace('\nindex ', '\nnew file mode 100644\nindex '),
     'belongs to the overlay'),
    (lambda t: t.replace('+++ b/', '+++ b/x/'), 'the diff has to be as'),
    (lambda t: t.replace('a/torch_xla', 'a/../torch_xla').replace(
        'b/torch_xla', 'b/../torch_xla'), 'outside the tree'),
    (lambda t: t[:t.index('@@')], 'the diff has to be as'),
    (lambda t: t + 'trailing\n', 'the diff has to be as'),
    (lambda t: t.replace(CONFIG, 'torch_xla/nothing.py'), 'which is not there'),
    (lambda t: t.replace('# ours', '# other'), 'but its index line says'),
])
def test_bad_patch(spoil, message, project):
  patch = one_patch(project)
  text = patch.read_text()
  assert spoil(text) != text
  patch.write_text(spoil(text))
  found = problem(project)
  assert message in found
  assert 'one/config-add-a-line.patch' in found


def test_wrong_base(project):
  base = project.read(CONFIG) + b'# not official\n'
  project.patch('one', 'config: add a line', CONFIG, insert(2, '# ours'), base)
  found = problem(project)
  assert f'expected blob {blob_id(base)}' in found
  assert f'actual blob   {blob_id(project.read(CONFIG))}' in found
  assert CONFIG in found and 'series one alone' in found


def test_wrong_order(project):
  two_patches(project)
  project.series('one', wheel=project.series('one')['wheel'][::-1])
  assert 'the order in series.toml wrong' in problem(project)


def test_two_series_that_touch_one_file_are_merged(project):
  one_patch(project)
  project.patch('two', 'config: add a line too', CONFIG, insert(5, '# ours 2'))
  assert check(project.root, project.read) == []
  lines = patched(project).decode().splitlines()
  assert (lines[2], lines[6]) == ('# ours 1', '# ours 2')
  # A third one builds on both.
  project.series('three', depends_on=['one', 'two'])
  project.patch('three', 'config: add a third line', CONFIG,
                insert(9, '# ours 3'), patched(project))
  assert check(project.root, project.read) == []


def test_two_series_that_insert_at_the_same_places(project):
  original = project.read(CONFIG).decode().splitlines()
  for series in ('one', 'two'):
    project.patch(
        series,
        f'config: add lines for {series}',
        CONFIG,
        lambda lines, series=series: insert(2, f'# {series}')
        (insert(3, f'# {series} behind')(lines)))
  assert check(project.root, project.read) == []
  lines = patched(project).decode().splitlines()
  # What lies between the places is there once.
  assert lines == [
      *original[:2], '# one', '# two', original[2], '# one behind',
      '# two behind', *original[3:]
  ]


def test_two_series_that_change_the_same_lines(project):
  for series in ('one', 'two'):
    project.patch(series, f'config: change a line for {series}', CONFIG,
                  replace(2, f'# {series}'))
  found = problem(project)
  assert 'all series together' in found and 'alone' not in found
  assert 'one series has to depend on the other' in found


def test_series_that_lacks_its_dependency(project):
  two_patches(project)
  entry = project.series('one')
  first, second = entry['wheel']
  project.series('one', wheel=[first])
  moved = second.replace('/one/', '/two/')
  project.file(f'patches/{moved}', '')
  patches = project.root / 'patches'
  (patches / second).rename(patches / moved)
  project.series('two', wheel=[moved])
  assert 'series two alone' in problem(project)
  project.series('two', depends_on=['one'])
  assert check(project.root, project.read) == []


def test_patch_files_and_list_differ(project):
  patch = one_patch(project)
  listed = project.series('one')['wheel']
  project.series('one', wheel=[])
  assert 'one/config-add-a-line.patch is not listed' in problem(project)
  project.series('one', wheel=[*listed, *listed])
  assert 'stands there twice' in problem(project)
  project.series('one', wheel=listed)
  patch.unlink()
  assert 'cannot be read' in problem(project)


def test_bases_that_a_series_goes_on(project):

  def load(text: str):
    (project.root / 'patches' / 'series.toml').write_text(text)
    return load_manifest(project.root)

  text = """
base = [{name = 'a', commit = 'A'}, {name = 'b', commit = 'A'}]
[[series]]
name = 'one'
description = 'a series'
bug = 'a bug'
base = 'b'
upstream = ['upstream/one/1.patch']
""".replace("'A'", f"'{'1' * 40}'")
  manifest = load(text)
  series = manifest.find('one')
  assert series.forms() == {'wheel': (), 'b': ('upstream/one/1.patch',)}
  assert manifest.bases_of(series) == ['b']
  assert series.form_for('any commit') == 'b'
  with pytest.raises(BuildError, match="'c' is not one of a, b"):
    load(text.replace("base = 'b'", "base = 'c'"))
  with pytest.raises(BuildError, match='base and one.upstream go together'):
    load(text.replace("base = 'b'", ''))


@pytest.mark.parametrize('text, message', [
    ('series = 1', r'\[\[series\]\]'),
    ('[[series]\n', 'series.toml: '),
    ('[[series]]\nname = "a"', 'a.description is missing'),
    ('other = 1', 'there are base, series'),
])
def test_bad_manifest(text, message, project):
  (project.root / 'patches' / 'series.toml').write_text(text)
  with pytest.raises(BuildError, match=message):
    load_manifest(project.root)
  assert len(check(project.root, project.read)) == 1


@pytest.mark.parametrize('values, message', [
    (dict(depends_on=['two']), 'not a series listed before it'),
    (dict(depends_on=['one']), 'not a series listed before it'),
    (dict(wheel='a.patch'), 'has to be a list of texts'),
    (dict(bug=''), 'has to be a text'),
    (dict(colour='red'), 'colour: there is no such key'),
])
def test_bad_series(values, message, project):
  project.series('one', **values)
  project.series('two')
  with pytest.raises(BuildError, match=message):
    load_manifest(project.root)


def test_dependencies_come_first(project):
  project.series('a')
  project.series('b')
  project.series('c', depends_on=['a'])
  project.series('d', depends_on=['c'])
  manifest = load_manifest(project.root)
  chosen = manifest.with_dependencies('d')
  assert [series.name for series in chosen] == ['a', 'c', 'd']
  with pytest.raises(BuildError, match='there is no series e; there are: a, b'):
    manifest.with_dependencies('e')


def test_slug():
  assert slug('runtime: add use_shardy()') == 'runtime-add-use-shardy'


# apply


def test_apply_one_series_only(project, tmp_path, capsys):
  one_patch(project)
  project.patch('two', 'runtime: add a line', RUNTIME, insert(2, '# ours'))
  for path in (CONFIG, RUNTIME):
    project.file(f'wheel/{path}').write_bytes(project.read(path))
  wheel = project.root / 'wheel'
  arguments = ['apply', '--wheel', str(wheel), '--only', 'two']
  assert command_line.main(arguments, project.root) == 0
  assert capsys.readouterr().out == f'changed {RUNTIME}\n'
  assert (wheel / CONFIG).read_bytes() == project.read(CONFIG)
  assert (wheel / RUNTIME).read_bytes() != project.read(RUNTIME)


def test_apply_changes_all_or_nothing(project, tmp_path):
  one_patch(project)
  project.patch('one', 'runtime: add a line', RUNTIME, insert(2, '# ours'))
  wheel = project.root / 'wheel'
  project.file(f'wheel/{CONFIG}').write_bytes(project.read(CONFIG))
  other = project.read(RUNTIME) + b'# changed by somebody\n'
  project.file(f'wheel/{RUNTIME}').write_bytes(other)
  patches = wheel_patches(project.root, load_manifest(project.root).series[0])
  with pytest.raises(BuildError) as raised:
    apply_to_folder(wheel, patches)
  message = str(raised.value)
  assert RUNTIME in message and blob_id(other) in message
  assert blob_id(project.read(RUNTIME)) in message
  assert (wheel / CONFIG).read_bytes() == project.read(CONFIG)
  with pytest.raises(BuildError, match='no folder with an unpacked wheel'):
    apply_to_folder(tmp_path / 'nowhere', patches)
