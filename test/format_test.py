"""Formatting of all that we wrote: yapf for Python, clang-format for C."""

from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ('benchmarks', 'examples', 'infra', 'test', 'torch_xla')


def files(*endings: str) -> list[str]:
  found = [ROOT / 'setup.py'] if '.py' in endings else []
  for folder in FOLDERS:
    found += [p for p in (ROOT / folder).rglob('*') if p.suffix in endings]
  assert found
  return sorted(map(str, found))


@pytest.mark.slow
def test_python():
  done = subprocess.run(
      [sys.executable, '-m', 'yapf', '--diff', '--parallel', *files('.py')],
      cwd=ROOT,
      capture_output=True,
      text=True,
      check=False)
  assert (done.stdout, done.returncode) == ('', 0), (
      f'run: python -m yapf -i FILE\n{done.stdout}{done.stderr}')


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
