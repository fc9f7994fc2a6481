"""Makes a virtual environment for the running Python.

torch from the usual index brings gigabytes of libraries for GPUs, the same for
every Python. Where the checkout's .venv has them, and torch for the very same
Python, they are lent to the new environment: pip need not fetch them again.

Run by its path, as smoke.py is, it imports nothing of infra.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import subprocess
import sys

_ROOT = Path(__file__).resolve().parents[2]
# What is lent, as it is named in site-packages.
_TO_ANY_PYTHON = ('nvidia', 'nvidia_*.dist-info')
_TO_THE_SAME = ('functorch', 'torch', 'torch-*.dist-info', 'torchgen', 'triton',
                'triton-*.dist-info')


def make_environment(folder: Path, root: Path = _ROOT) -> Path:
  """Makes a virtual environment of the running Python, or keeps the one there.

  Args:
    folder: where it is made.
    root: the checkout whose .venv lends.

  Returns:
    The environment's Python.

  Raises:
    subprocess.CalledProcessError: this Python has no working venv module.
  """
  python = folder / 'bin' / 'python'
  if not python.exists():
    subprocess.run([sys.executable, '-m', 'venv', str(folder)], check=True)
  [own] = folder.glob('lib/python3.*/site-packages')
  for site in root.glob('.venv/lib/python3.*/site-packages'):
    same = site.parent.name == own.parent.name
    names = _TO_ANY_PYTHON + (_TO_THE_SAME if same else ())
    lent = [package for name in names for package in site.glob(name)]
    _lend(lent, folder / 'lent', own / 'lent.pth')
  return python


def _lend(packages: list[Path], folder: Path, path_file: Path) -> None:
  """Puts some packages on the path of an environment.

  By a path file and not among its own: so pip knows that it must not remove
  them where it needs another version.
  """
  folder.mkdir(exist_ok=True)
  for package in packages:
    link = folder / package.name
    link.unlink(missing_ok=True)
    link.symlink_to(package)
  path_file.write_text(f'{folder}\n', encoding='utf-8')


def main(arguments: list[str] | None = None) -> None:
  """Makes the environment that the command line names."""
  parser = argparse.ArgumentParser(prog='environment.py', description=__doc__)
  parser.add_argument('folder', type=Path, help='where it is made')
  make_environment(parser.parse_args(arguments).folder.resolve())


if __name__ == '__main__':
  main()
