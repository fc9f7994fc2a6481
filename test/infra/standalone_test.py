"""Series that need nothing but what they depend on, and some that do."""

from pathlib import Path

from infra_project import insert
from infra_project import Project
from infra_project import ROOT
import pytest

from infra import series as command_line
from infra.patchset import files
from infra.patchset.manifest import load_manifest
from infra.patchset.standalone import Alone
from infra.patchset.standalone import check_alone
from infra.patchset.standalone import CORE
from infra.wheel import official

pytestmark = pytest.mark.slow  # The core has series_test.

FILE = 'torch_xla/a.py'

# The checkout's own series; `series.py check` does this for all, in full.


@pytest.fixture(name='laid')
def laid_fixture(official_wheel, built_plugins, tmp_path):
  """Lays a series of the checkout on the official wheel."""

  def lay(name: str) -> Alone:
    alone = Alone(ROOT, load_manifest(ROOT), name, tmp_path / 'tree')
    alone.lay(official.unpacked(official_wheel, ROOT), lambda: built_plugins)
    return alone

  return lay


@pytest.mark.nightly
def test_dynamo_series_stands_alone(laid):
  alone = laid('dynamo-replicated-spec')
  assert not (alone.folder / 'torch_xla/shardy').exists()
  alone.import_all()
  assert ' passed' in alone.run_tests((), print)


@pytest.mark.nightly
def test_v2_series_stands_alone(laid):
  alone = laid('v2-sharding')
  assert not (alone.folder / 'torch_xla/shardy/bind').exists()
  alone.import_all()
  quick = (*CORE, '-k', 'switch_test or single_device_test')
  assert ' passed' in alone.run_tests(quick, print)


# Throwaway series on a wheel of two files.


@pytest.fixture(name='wheel')
def wheel_fixture(tmp_path) -> Path:
  folder = tmp_path / 'wheel' / 'torch_xla'
  folder.mkdir(parents=True)
  (folder / '__init__.py').write_text('')
  (folder / 'a.py').write_text('value = 1\n')
  return folder.parent


@pytest.fixture(name='small')
def small_fixture(project) -> Project:
  """Two series: `one` changes a file, and `two` uses that."""
  project.test_base.append('test/tools.py')
  project.file('test/tools.py', 'EXPECTED = 2\n')
  project.file(
      'test/conftest.py', 'import os, sys\n'
      'sys.path.insert(0, os.path.dirname(__file__))\n')
  project.test_base.append('test/conftest.py')
  project.patch('one', 'a: be two', FILE, insert(1, 'value = 2'),
                b'value = 1\n')
  project.file('torch_xla/one/__init__.py', 'from torch_xla.a import value\n')
  project.file(
      'test/one/one_test.py', 'from tools import EXPECTED\n'
      'from torch_xla import one\n'
      'def test_value():\n  assert one.value == EXPECTED\n')
  project.series('one', overlay=['torch_xla/one/**'], tests=['test/one/**'])
  project.file('torch_xla/two.py', 'from torch_xla import one\n')
  project.file(
      'test/two/two_test.py', 'from torch_xla.two import one\n'
      'import pytest\n'
      'def test_value():\n  assert one.value == 2\n'
      '@pytest.mark.slow\n'
      'def test_slow():\n  assert False\n')
  project.series(
      'two',
      depends_on=['one'],
      overlay=['torch_xla/two.py'],
      tests=['test/two/**'])
  return project


def run(project: Project,
        wheel: Path,
        *arguments: str,
        only: str | None = None) -> tuple[bool, str]:
  """Whether the series stand alone, and what is said about them."""
  said: list[str] = []
  ended = check_alone(project.root, wheel, only, arguments, said.append)
  return ended, '\n'.join(said)


def test_each_series_runs_its_own_tests(small, wheel):
  small.series('three')
  ended, said = run(small, wheel, '-m', 'not slow')
  assert ended, said
  assert said.count('collected 1 item') == 1
  assert said.count('collected 2 items / 1 deselected') == 1
  first, second, third = said.splitlines()[-3:]
  assert first.startswith('one: 1 passed')
  assert second.startswith('two: 1 passed, 1 deselected')
  assert third == 'three: nothing for the wheel'
  # What they are laid on stays as it was.
  assert (wheel / FILE).read_text() == 'value = 1\n'


@pytest.mark.slow
def test_a_test_that_fails(small, wheel):
  ended, said = run(small, wheel)
  assert not ended
  assert 'test/two/two_test.py:7: AssertionError' in said
  assert said.splitlines()[-2].startswith('one: 1 passed')
  assert said.splitlines()[-1].startswith('two: FAILED: 1 failed, 1 passed')


def test_a_dependency_that_is_not_said(small, wheel):
  small.series('two', depends_on=[])
  ended, said = run(small, wheel, only='two')
  assert not ended
  assert "two: FAILED: it cannot be imported:" in said
  assert "cannot import name 'one' from 'torch_xla'" in said


def test_tests_that_need_another_series(small, wheel):
  (small.root / 'torch_xla/two.py').write_text('from . import a as one\n')
  small.file('test/one/helper.py', '')
  small.file('test/two/two_test.py', 'import one.helper\n')
  small.series('two', depends_on=[])
  ended, said = run(small, wheel, only='two')
  assert not ended
  assert "ModuleNotFoundError: No module named 'one'" in said
  assert said.splitlines()[-1].startswith('two: FAILED: 1 error')


@pytest.mark.slow
def test_command_line(small, wheel, capsys):
  arguments = ['check', '--wheel', str(wheel), '--core', '--only']
  assert command_line.main([*arguments, 'one'], small.root) == 1
  assert '--tier=core' in capsys.readouterr().out
  for name in files.test_base(ROOT, load_manifest(ROOT)):
    small.file(name, (ROOT / name).read_text())
    small.test_base.append(name)
  small.series('one')
  assert command_line.main([*arguments, 'two'], small.root) == 0
  printed = capsys.readouterr().out.splitlines()
  assert printed[0] == 'the series are in order'
  assert printed[1].startswith('==> two in ')
  assert printed[-1].startswith('two: 1 passed, 1 deselected')
  assert command_line.main([*arguments, 'three'], small.root) == 1
  assert 'there is no series three' in capsys.readouterr().err
