"""Planting faults: in a small project, and this checkout's table of them."""

import importlib.util
from pathlib import Path
import sys

from infra_project import output_of, ROOT
import pytest

from infra.errors import BuildError
from infra.mutants.__main__ import load, main, plant_all

pytestmark = pytest.mark.slow  # The core has the tests that faults name.

_FILES = {
    'pyproject.toml':
        '[tool.pytest.ini_options]\n',
    'ours.py':
        '''\
import time

def larger(a, b):
  return a if a > b else b

def double(a):
  return 2 * a
''',
    'test/ours_test.py':
        '''\
import pathlib
import sys
import pytest
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import ours

def test_larger():
  assert ours.larger(1, 2) == 2

def test_that_sees_nothing():
  assert ours.double(1)

''',
}


def _fault(name: str = 'one',
           find: str = 'a > b',
           put: str = 'a < b',
           test: str = 'larger',
           file: str = 'ours.py') -> str:
  return (f'["{file}".{name}]\nfind = "{find}"\nput = "{put}"\n'
          f'test = "test/ours_test.py::test_{test}"\n')


def _write(root: Path, table: str) -> dict[Path, bytes]:
  """Writes a project; returns all of its files."""
  for name, text in {**_FILES, 'infra/mutants/faults.toml': table}.items():
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
  return _files(root)


def _files(root: Path) -> dict[Path, bytes]:
  return {p: p.read_bytes() for p in root.rglob('*') if p.is_file()}


@pytest.fixture(name='root')
def root_fixture(tmp_path: Path) -> Path:
  return tmp_path / 'project'


def test_find_and_survive(root, capsys):
  before = _write(
      root,
      _fault() + _fault('blind', '2 * a', '3 * a', 'that_sees_nothing'))
  assert main([], root) == 1
  output = capsys.readouterr().out
  assert '[1/2] found one' in output
  assert '[2/2] SURVIVES blind' in output
  assert '2 * a\nis\n3 * a' in output
  assert output.endswith('1 of 2 faults were found\n')
  assert _files(root) == before
  assert main(['--only', 'one'], root) == 0
  assert main(['--only', 'two'], root) == 2
  assert 'has no fault two' in capsys.readouterr().err


@pytest.mark.nightly
def test_a_table_that_says_nothing(root, tmp_path):
  before = _write(root, _fault(put='a < c'))
  with pytest.raises(BuildError, match='one: .* says nothing of the fault'):
    plant_all(load(root), root, tmp_path / 'copy')
  assert _files(root) == before


def test_each_fault_of_the_table_is_one():
  """Each is in one place of its file, and makes Python of Python."""
  origin = importlib.util.find_spec('torch_xla').origin
  installed_site = Path(origin).parents[1]
  faults = load(ROOT)
  assert len({fault.name for fault in faults}) == len(faults)
  for fault in faults:
    assert fault.find != fault.put
    path = ROOT / fault.file
    if not path.is_file():
      path = installed_site / fault.file
    planted = fault.planted(path.read_text(encoding='utf-8'))
    if path.suffix == '.py':
      compile(planted, fault.file, 'exec')
    assert (ROOT / fault.test.partition('::')[0]).is_file(), fault.test


def test_every_folder_has_a_fault():
  files = [fault.file for fault in load(ROOT)]
  folders = {
      path.parent.relative_to(ROOT).as_posix()
      for parent in ('torch_xla/csrc', 'torch_xla/shardy',
                     'torch_xla/distributed/spmd', 'infra')
      for ending in ('py', 'c')
      for path in (ROOT / parent).glob(f'*/*.{ending}')
  } | {'behaviour', 'conformance'}
  assert len(folders) > 20
  for folder in folders:
    assert any(file.startswith(f'{folder}/') for file in files), folder
  # Lines of patches, as the installed wheel has them.
  assert any(not (ROOT / file).exists() for file in files)


@pytest.mark.nightly
def test_no_fault_survives():
  output_of(sys.executable, '-m', 'infra.mutants', cwd=ROOT)
