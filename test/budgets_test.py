"""What the budgets are, and how a run is judged by them."""

from pathlib import Path
import subprocess
import sys

import budgets
import pytest

_TEST = Path(__file__).parent
# What the tiers may take on two cores, in CPU seconds, and what of that pytest
# takes to collect and to fork.
_LIMITS = {'core': 345, 'whole': 1360}
_BESIDE = 40


@pytest.mark.parametrize('tier', _LIMITS)
def test_budgets_keep_to_the_limit(tier):
  assert sum(budgets.load()[tier].values()) + _BESIDE <= _LIMITS[tier]


@pytest.mark.parametrize('tier', _LIMITS)
def test_every_module_has_a_budget_and_every_budget_modules(tier):
  of_tier = budgets.load()[tier]
  folders = {
      budgets.folder_of(path.relative_to(_TEST.parent).as_posix(), of_tier)
      for path in _TEST.rglob('*_test.py')
  }
  assert folders == set(of_tier)


_BUDGETS = {'test': 5, 'test/a': 10, 'test/a/b': 1}


@pytest.mark.parametrize('asked, over', [
    (['test'], ['test', 'test/a']),
    (['.'], ['test', 'test/a']),
    (['test/a'], ['test/a']),
    (['test/a/b'], []),
    (['test/a/b', 'test/a'], ['test/a']),
    ([], []),
])
def test_folders_that_were_run_wholly_count(asked, over):
  taken = {
      'test/one_test.py': 6,
      'test/a/one_test.py': 5,
      'test/a/c/two_test.py': 4.5,
      'test/a/three_test.py': 1,
      'test/a/four_test.py': .5,
      'test/a/b/five_test.py': 1,
  }
  said = budgets.over_budget(_BUDGETS, taken, asked)
  assert [text.split()[0] for text in said] == over
  if 'test/a' in over:
    assert said[-1] == (
        'test/a took 11.0 CPU s, and its budget is 10: test/a/one_test.py 5.0, '
        'test/a/c/two_test.py 4.5, test/a/three_test.py 1.0')


_MADE = '''
import time

def test_takes_time():
  end = time.process_time() + .3
  while time.process_time() < end:
    pass
'''


@pytest.mark.parametrize('arguments, fails', [
    (['test'], True),
    (['test', '--tier=all'], False),
    (['test', '-k', 'takes'], False),
    (['test', '-p', 'no:budgets'], False),
    (['test/a_test.py'], False),
])
@pytest.mark.slow
def test_a_run_over_budget_fails(tmp_path, arguments, fails):
  here = tmp_path / 'test'
  here.mkdir()
  for path in _TEST.glob('*.py'):
    if not path.name.endswith('_test.py'):
      (here / path.name).write_bytes(path.read_bytes())
  (here / 'budgets.toml').write_text('[whole]\ntest = 0.1\n')
  (here / 'a_test.py').write_text(_MADE)
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
  assert ('test took 0.' in done.stdout) == fails
