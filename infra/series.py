"""Lists, checks, applies and exports the patch series under patches/."""

import argparse
from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parents[1]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.errors import BuildError
from infra.patchset.apply import apply_to_folder
from infra.patchset.apply import folder_reader
from infra.patchset.check import check
from infra.patchset.export import export
from infra.patchset.manifest import load_manifest
from infra.patchset.manifest import with_dependencies
from infra.patchset.patch import load_patches
from infra.wheel import official
from infra.wheel import pins
from infra.wheel.build import running_python


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line on the checkout `root` and returns the exit code."""
  options = _parser().parse_args(arguments)
  try:
    return options.run(root, options)
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='infra/series.py', description=__doc__)
  commands = parser.add_subparsers(required=True, metavar='COMMAND')

  command = commands.add_parser('list', help='list the series')
  command.set_defaults(run=_list)

  command = commands.add_parser(
      'check',
      help='check the series',
      description='Checks form, order and base of every patch, that each '
      'series applies alone and with all others, and that the files that '
      'series.toml lists are the files that there are.')
  command.add_argument(
      '--wheel',
      type=Path,
      metavar='DIR',
      help='an unpacked official wheel (default: the official '
      'wheel, fetched into build/wheels)')
  command.set_defaults(run=_check)

  command = commands.add_parser(
      'apply',
      help='apply the series to an unpacked official wheel',
      description='Applies all series, or one and what it depends on, to an '
      'unpacked official wheel: wholly, or not at all.')
  command.add_argument(
      '--wheel',
      type=Path,
      metavar='DIR',
      required=True,
      help='the unpacked wheel; its files are changed')
  command.add_argument('--only', metavar='SERIES', help='just this series')
  command.set_defaults(run=_apply)

  command = commands.add_parser(
      'export',
      help='lay a series on a checkout of upstream',
      description='Makes a branch with one commit for each patch of a series, '
      f'from tag {pins.OFFICIAL_TAG}, and one for its new files and tests, '
      'in a checkout of upstream, whose work tree stays as it is.')
  command.add_argument('series', metavar='SERIES')
  command.add_argument(
      '--upstream',
      type=Path,
      metavar='CHECKOUT',
      required=True,
      help='your own checkout of upstream')
  command.add_argument(
      '--onto', metavar='REF', help='rebase the branch onto this commit')
  command.add_argument(
      '--branch',
      metavar='NAME',
      help='the branch to make (default: fork/SERIES)')
  command.set_defaults(run=_export)
  return parser


def _list(root: Path, options: argparse.Namespace) -> int:
  del options
  for series in load_manifest(root):
    print(f'{series.name}: {series.description}\n  {series.bug}')
    if series.depends_on:
      print(f'  depends on {", ".join(series.depends_on)}')
    for patch in load_patches(root, series):
      files = ', '.join(change.path for change in patch.changes)
      print(f'  patch    {patch.subject} ({files})')
    for kind, names in (('overlay', series.overlay), ('tests', series.tests)):
      for name in names:
        print(f'  {kind:8} {name}')
  return 0


def _check(root: Path, options: argparse.Namespace) -> int:
  if options.wheel:
    if not options.wheel.is_dir():
      raise BuildError(f'{options.wheel} is no folder with an unpacked wheel')
    problems = check(root, folder_reader(options.wheel))
  else:
    # The Python files are the same in all official wheels.
    python = running_python()
    if python not in pins.OFFICIAL_SHA256:
      python = next(iter(pins.OFFICIAL_SHA256))
    wheel = official.official_wheel(python, official.default_cache(root), print)
    with official.open_wheel(wheel) as archive:
      names = set(archive.namelist())
      problems = check(
          root, lambda name: archive.read(name) if name in names else None)
  for problem in problems:
    print(f'error: {problem}', file=sys.stderr)
  if not problems:
    print('the series are in order')
  return 1 if problems else 0


def _apply(root: Path, options: argparse.Namespace) -> int:
  all_series = load_manifest(root)
  if options.only:
    all_series = with_dependencies(all_series, options.only)
  patches = [patch for s in all_series for patch in load_patches(root, s)]
  for path in apply_to_folder(options.wheel, patches):
    print(f'changed {path}')
  return 0


def _export(root: Path, options: argparse.Namespace) -> int:
  following = export(root, options.upstream, options.series, options.onto,
                     options.branch)
  print(f'next: {following}')
  return 0


if __name__ == '__main__':
  sys.exit(main())
