"""Looks into built wheels, and builds those that lie beside torch_xla's.

python -m infra.wheel verify FILE.whl
python -m infra.wheel tools
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys

_ROOT = Path(__file__).resolve().parents[2]
if __name__ == '__main__':
  sys.path[0] = str(_ROOT)

from infra.errors import BuildError
from infra.wheel.profile import FORK, load_profile
from infra.wheel.pure_wheel import build_pure_wheel
from infra.wheel.tools import TOOLS
from infra.wheel.verify import verify_pure_wheel, verify_wheel

_EPILOG = """\
The wheel is made again, by this checkout, and has to be the same byte for byte. So
run it in the checkout that the wheel was built from, with the compiler and the
zlib of then. The exit status is 0 if it is the same; 1 if not, with each file that
differs; 2 if nothing could be judged.
"""


def main(arguments: list[str] | None = None) -> int:
  """Runs the command line and returns the exit status."""
  parser = argparse.ArgumentParser(
      prog='python -m infra.wheel',
      description="Looks into built wheels, and builds those beside torch_xla's."
  )
  commands = parser.add_subparsers(required=True, metavar='verify|tools')
  command = commands.add_parser(
      'verify',
      help='compare each file of a wheel with what it should be',
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  command.add_argument('wheel', metavar='FILE.whl', type=Path)
  command.add_argument(
      '--profile',
      metavar='FILE',
      type=Path,
      help='the profile that the wheel was built from, if there was one')
  command.set_defaults(run=_verify)
  command = commands.add_parser(
      'tools',
      help='build the wheels of Python alone that lie beside that of torch_xla')
  command.add_argument(
      '-d',
      '--dist-dir',
      metavar='FOLDER',
      type=Path,
      default=_ROOT / 'dist',
      help='where the wheels go (default: dist)')
  command.set_defaults(run=_build_tools)
  options = parser.parse_args(arguments)
  try:
    return options.run(options)
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  except KeyboardInterrupt:
    print('error: interrupted', file=sys.stderr)
    return 130


def _verify(options: argparse.Namespace) -> int:
  profile = load_profile(options.profile) if options.profile else FORK
  tool = next((t for t in TOOLS if t.wheel_name == options.wheel.name), None)
  if tool:  # No profile changes it.
    verdict = verify_pure_wheel(_ROOT, options.wheel, tool)
  else:
    verdict = verify_wheel(
        _ROOT,
        options.wheel,
        profile=profile,
        say=lambda line: print(line, file=sys.stderr, flush=True))
  print(verdict)
  return 1 if verdict.problems else 0


def _build_tools(options: argparse.Namespace) -> int:
  for tool in TOOLS:
    print(build_pure_wheel(_ROOT, options.dist_dir, tool))
  return 0


if __name__ == '__main__':
  sys.exit(main())
