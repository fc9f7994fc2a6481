"""Planting faults: in a small project, and this checkout's table of them."""

import os
from pathlib import Path
import signal
import subprocess
import sys
import time

from infra_project import ROOT
import pytest

from infra.errors import BuildError
from infra.mutants.__main__ import try_all
from infra.mutants.bench import Bench
from infra.mutants.faults import load
from infra.mutants.faults import named

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

def test_that_fails():
  assert ours.larger(1, 2) == 1

@pytest.mark.skip
def test_that_is_skipped():
  pass
''',
}
_MAIN = '''\
import pathlib, sys
from infra.mutants.__main__ import main
sys.exit(main([], pathlib.Path(sys.argv[1])))
'''


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


def _start(root: Path) -> subprocess.Popen:
  temporary = root.with_name('tmp')
  temporary.mkdir()
  return subprocess.Popen(
      [sys.executable, '-c', _MAIN, str(root)],
      cwd=ROOT,
      env={
          'TMPDIR': str(temporary),
          'PYTHONDONTWRITEBYTECODE': '1'
      },
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True)


@pytest.fixture(name='root')
def root_fixture(tmp_path: Path) -> Path:
  return tmp_path / 'project'


def test_what_is_found_and_what_survives(root):
  before = _write(
      root,
      _fault() + _fault('blind', '2 * a', '3 * a', 'that_sees_nothing'))
  tool = _start(root)
  output, _ = tool.communicate()
  assert tool.returncode == 1, output
  assert 'found one' in output
  assert 'SURVIVES blind' in output
  assert '2 * a\nis\n3 * a' in output
  assert output.endswith('1 of 2 faults were found\n')
  assert _files(root) == before
  assert not list(root.with_name('tmp').iterdir())


def test_one_alone(root):
  _write(root, _fault() + _fault('stale', 'not there'))
  faults = load(root)
  assert [fault.name for fault in named(faults, ['one'])] == ['one']
  assert named(faults, []) == faults
  with pytest.raises(BuildError, match='has no fault two'):
    named(faults, ['one', 'two'])


@pytest.mark.parametrize('table, said', [
    (_fault() * 2, 'Cannot declare'),
    (_fault() + _fault(file='test/ours_test.py'), 'two faults are called one'),
    (_fault().replace('put', 'puts'), "unexpected keyword argument 'puts'"),
    ('[one', 'faults.toml: '),
    ('[[one]]', 'faults.toml: '),
    (_fault(find='not there'), 'ours.py has the text 0 times'),
    (_fault(find='return'), 'ours.py has the text 2 times'),
    (_fault(put='a > b'), 'changes nothing'),
    (_fault(file='gone.py'), 'there is no file gone.py'),
    (_fault(test='that_fails'), 'test_that_fails fails without a fault'),
    (_fault(test='that_is_skipped'), 'test_that_is_skipped does not pass'),
    (_fault(test='not_there'), 'test_not_there does not pass'),
    (_fault(put='a < c'), 'one: .* says nothing of the fault'),
    (_fault(find='import time', put='import gone'), 'says nothing'),
])
def test_a_table_that_says_nothing(table, said, root, tmp_path):
  before = _write(root, table)
  with pytest.raises(BuildError, match=said):
    try_all(load(root), root, tmp_path / 'benches', print)
  assert _files(root) == before


@pytest.mark.parametrize(
    'end',
    [signal.SIGTERM,
     pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_a_tool_that_is_ended(end, root):
  """While the fault is planted."""
  before = _write(root, _fault(put='a > b or time.sleep(5)'))
  tool = _start(root)
  for line in tool.stdout:
    if 'all tests pass' in line:
      break
  time.sleep(.3)
  tool.send_signal(end)
  tool.communicate()
  assert tool.returncode == (2 if end is signal.SIGTERM else -end)
  assert _files(root) == before
  if end is signal.SIGTERM:
    assert not list(root.with_name('tmp').iterdir())


def test_installed_torch_xla_runs_the_copys_files(tmp_path):
  """Each fault of the table is one, and makes Python of Python."""
  bench = Bench(ROOT, tmp_path / 'bench')
  package = tmp_path / 'bench/site-packages/torch_xla'
  mode = bench.checkout / 'torch_xla/shardy/mode.py'
  assert (package / 'shardy/mode.py').samefile(mode)
  assert not mode.samefile(ROOT / 'torch_xla/shardy/mode.py')
  assert (package / 'shardy/libpjrt_shardy.so').is_file()
  faults = load(ROOT)
  assert len(faults) >= 60
  for fault in faults:
    bench.plant(fault)
    path = bench.checkout / fault.file
    if not path.exists():
      path = package.parent / fault.file
    if path.suffix == '.py':
      compile(path.read_text(encoding='utf-8'), fault.file, 'exec')
    bench.mend(fault)
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
  # Each trial builds C of its own: what this session has built is without fault.
  environment = dict(os.environ)
  environment.pop('SHARDY_TEST_BUILD', None)
  done = subprocess.run([sys.executable, '-m', 'infra.mutants'],
                        cwd=ROOT,
                        env=environment,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                        check=False)
  assert done.returncode == 0, done.stdout
