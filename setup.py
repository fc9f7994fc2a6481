"""Builds wheels: python setup.py bdist_wheel [--profile acme.toml].

There is nothing here for setuptools to do, and its other commands would put a
part of torch_xla where the whole is expected, so this is a plain program.
"""

import argparse
from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from infra.errors import BuildError
from infra.wheel import pins, plugins
from infra.wheel.build import build_wheel
from infra.wheel.official import pinned_hash, running_python
from infra.wheel.profile import FORK, load_profile, Profile


def main() -> int:
  """Runs the command line and returns the exit code."""
  parser = argparse.ArgumentParser(
      prog='setup.py',
      description='Builds wheels of this fork from the official ones.')
  commands = parser.add_subparsers(required=True, metavar='bdist_wheel')
  command = commands.add_parser('bdist_wheel', help='build wheels')
  command.add_argument(
      '--profile',
      metavar='FILE',
      type=Path,
      help='what a vendor\'s own wheel is made from (docs/custom-wheels.md)')
  command.add_argument(
      '--python',
      metavar='X.Y',
      action='append',
      help='a Python to build for; may be given several times (default: those '
      'of the profile, or else this one)')
  command.add_argument(
      '-d',
      '--dist-dir',
      type=Path,
      default=ROOT / 'dist',
      help='where the wheels go (default: dist)')
  options = parser.parse_args()
  try:
    profile = load_profile(options.profile) if options.profile else FORK
    pythons = _pythons(options.python or [], profile)
    for python in pythons:
      pinned_hash(python, pins.OFFICIAL_SHA256)
    built = None
    if len(pythons) > 1:
      print('building the plugins with Bazel', flush=True)
      built = plugins.build_plugins(ROOT, plugins.find_bazel())
    wheels = [
        build_wheel(
            ROOT,
            options.dist_dir,
            python,
            profile=profile,
            built_plugins=built) for python in pythons
    ]
    print(*wheels, sep='\n')
  except BuildError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('error: interrupted; no further wheel was written', file=sys.stderr)
    return 130
  return 0


def _pythons(named: list[str], profile: Profile) -> list[str]:
  """What to build for, each once.

  Raises:
    BuildError: one is named that the profile leaves out.
  """
  for python in named:
    if profile.pythons and python not in profile.pythons:
      raise BuildError(
          f'--python {python}: the pythons of {profile.path} are '
          f'{", ".join(profile.pythons)}: add it there, or name one of '
          'them')
  return list(dict.fromkeys(named or profile.pythons or [running_python()]))


if __name__ == '__main__':
  sys.exit(main())
