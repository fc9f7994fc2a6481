"""Form and faults of what we wrote, by yapf, ruff, mypy and clang-format."""

from pathlib import Path
import re
import subprocess
import sys

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ('behaviour', 'benchmarks', 'conformance', 'examples', 'infra',
           'test', 'torch_xla', 'torch_xla_shardy')


def files(*endings: str) -> list[str]:
  found = [ROOT / 'setup.py'] if '.py' in endings else []
  for folder in FOLDERS:
    found += [p for p in (ROOT / folder).rglob('*') if p.suffix in endings]
  assert found
  return sorted(map(str, found))


def changed() -> list[str]:
  """The files that the last commit, or what is not committed, changed."""

  def git(*arguments: str) -> list[str]:
    return subprocess.run(['git', *arguments, '-z'],
                          cwd=ROOT,
                          capture_output=True,
                          text=True,
                          check=True).stdout.split('\0')

  try:
    since = git('diff', '--name-only', 'HEAD^')
  except subprocess.CalledProcessError:
    pytest.skip('there is no commit before this one')
  new = git('ls-files', '--others', '--exclude-standard')
  return [str(ROOT / name) for name in (*since, *new)]


def check_python(paths: list[str]) -> None:
  done = subprocess.run(
      [sys.executable, '-m', 'yapf', '--diff', '--parallel', *paths],
      cwd=ROOT,
      capture_output=True,
      text=True,
      check=False)
  assert (done.stdout, done.returncode) == ('', 0), (
      f'run: python -m yapf -i FILE\n{done.stdout}{done.stderr}')


@pytest.mark.nightly
def test_python():
  check_python(files('.py'))


@pytest.mark.slow
def test_python_that_has_changed():
  if paths := sorted({*files('.py')} & {*changed()}):
    check_python(paths)


def check(*command: str) -> None:
  done = subprocess.run([sys.executable, '-m', *command],
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, f'{done.stdout}{done.stderr}'


def test_python_has_no_faults():
  check('ruff', 'check', '--output-format', 'concise', *files('.py'))


def test_docstrings():
  """What ruff does not see: a section in the place of the summary's line."""
  section = re.compile(r'"""(Args|Attributes|Raises|Returns|Yields):')
  found = [f for f in files('.py') if section.search(Path(f).read_text())]
  assert not [f for f in found if not Path(f).is_relative_to(ROOT / 'test')]


def test_types():
  check('mypy')


def test_c():
  done = subprocess.run([
      str(Path(sys.executable).with_name('clang-format')), '--dry-run',
      '--Werror', *files('.c', '.h')
  ],
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, f'run: clang-format -i FILE\n{done.stderr}'
