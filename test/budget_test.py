"""How a run is judged by the CPU seconds that its tests took."""

from pathlib import Path
import subprocess
import sys

import budget
import pytest

_TEST = Path(__file__).parent


@pytest.mark.parametrize('limit, report', [
    (6, None),
    (5.5, 'the tests took 6.0 CPU s of 5.5: test/a/two_test.py 4.5, '
     'test/one_test.py 1.5'),
])
def test_the_costliest_modules_are_shown(limit, report):
  seconds = {'test/one_test.py': 1.5, 'test/a/two_test.py': 4.5}
  assert budget.over_limit(limit, seconds) == report


_SOURCE = '''
import time

def test_takes_time():
  end = time.process_time() + .3
  while time.process_time() < end:
    pass
'''


@pytest.mark.slow
@pytest.mark.parametrize('arguments, fails', [
    (['test'], True),
    pytest.param(['test', '-k', 'takes'], False, marks=pytest.mark.nightly),
])
def test_a_run_over_budget_fails(tmp_path, arguments, fails):
  folder = tmp_path / 'test'
  folder.mkdir()
  for path in _TEST.glob('*.py'):
    if not path.name.endswith('_test.py'):
      (folder / path.name).write_bytes(path.read_bytes())
  source = (_TEST / 'budget.py').read_text()
  (folder / 'budget.py').write_text(
      source.replace("'whole': ", "'whole': 1e-4 * "))
  (folder / 'a_test.py').write_text(_SOURCE)
  done = subprocess.run([
      sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', '--rootdir',
      str(tmp_path), *arguments
  ],
                        cwd=tmp_path,
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == fails, done.stdout
  assert '1 passed' in done.stdout
  assert ('the tests took 0.' in done.stdout) == fails
