"""Builds the wheel: python setup.py bdist_wheel [--python 3.12] [-d DIR].

There is nothing here for setuptools to do, and its other commands would put a
part of torch_xla where the whole is expected, so this is a plain program.
"""

import argparse
from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from infra.errors import BuildError
from infra.wheel.build import build_wheel


def main() -> int:
  """Runs the command line and returns the exit code."""
  parser = argparse.ArgumentParser(
      prog='setup.py',
      description='Builds the wheel of this fork from the official one.')
  commands = parser.add_subparsers(required=True, metavar='bdist_wheel')
  command = commands.add_parser('bdist_wheel', help='build the wheel')
  command.add_argument(
      '--python',
      metavar='X.Y',
      help='the Python to build for (default: this one)')
  command.add_argument(
      '-d',
      '--dist-dir',
      type=Path,
      default=ROOT / 'dist',
      help='where the wheel goes (default: dist)')
  options = parser.parse_args()
  try:
    print(build_wheel(ROOT, options.dist_dir, options.python))
  except BuildError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('error: interrupted; no wheel was written', file=sys.stderr)
    return 130
  return 0


if __name__ == '__main__':
  sys.exit(main())
