"""Checks, applies, exports and imports the series under patches/."""

import argparse
import functools
import os
from pathlib import Path
import re
import sys
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.apply import apply_to_folder, folder_reader
from infra.patchset.check import check
from infra.patchset.check_upstream import check_upstream
from infra.patchset.export import BRANCH_PREFIX, export
from infra.patchset.import_branch import import_branch
from infra.patchset.manifest import ALL, load_manifest, WHEEL
from infra.patchset.patch import wheel_patches
from infra.patchset.pull_request import (pull_request, read_cover,
                                         request_of_patch)
from infra.wheel import official, pins
from torch_xla_shardy.parser import status_of


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line on the checkout `root` and returns the exit code."""
  options = _parser().parse_args(arguments)
  try:
    status: int = status_of(lambda: options.run(root, options))
    return status
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='infra/series.py', description=__doc__)
  commands = parser.add_subparsers(required=True, metavar='COMMAND')

  command = commands.add_parser(
      'check',
      help='check the series',
      description='Checks form, order and base of every patch, that each '
      'series applies alone and with all others, and that the patches that '
      'series.toml lists are the patches that there are.')
  _add(
      command, '--upstream', 'DIR', 'check the patches for people with the '
      'source instead: lay each series on each of its bases, in a clone of DIR, '
      'and look for Python that does not compile, and at the formatting', Path)
  _add(
      command, '--base', 'BASE',
      'with --upstream: on this base alone, or on any '
      'commit of DIR, which then also has the commits of the bases. Shows each '
      'hunk that meets a change of the tree')
  _add(command, '--only', 'SERIES', 'with --upstream: just this series')
  command.set_defaults(run=_check)

  command = commands.add_parser(
      'list', help='list the series, with the bugs that they are about')
  command.set_defaults(run=_list)

  command = commands.add_parser(
      'apply',
      help='apply the series to an unpacked official wheel, wholly or not at all'
  )
  _add(
      command,
      '--wheel',
      'DIR',
      'the unpacked wheel; its files are changed',
      Path,
      required=True)
  _add(command, '--only', 'SERIES', 'just this series, and what it depends on')
  command.set_defaults(run=_apply)

  command = commands.add_parser(
      'export',
      help='lay a series on a checkout of upstream',
      description='Makes a branch with one commit for each patch of a series, '
      'from one of its bases, in a checkout of upstream, whose work tree stays '
      'as it is, and writes the text of the pull request.')
  command.add_argument('series', metavar='SERIES')
  _add_checkout(command)
  form = command.add_mutually_exclusive_group()
  _add(
      form, '--base', 'BASE',
      'the base (default: the newest), or any commit of '
      'CHECKOUT, such as your own branch, where git then merges the series; '
      'CHECKOUT also has the commits of the bases. Shows each hunk that meets a '
      'change of yours, and makes no branch then')
  form.add_argument(
      '--wheel',
      action='store_const',
      const=WHEEL,
      help=f'the patches for the wheel instead, on tag {pins.OFFICIAL_TAG}')
  _add(command, '--branch', 'NAME', 'the branch to make (default: fork/SERIES)')
  _add(
      command, '--author', "'NAME <ADDRESS>'",
      'whose the commits are (default: '
      'as git is configured): somebody who can sign what upstream asks for')
  command.add_argument(
      '--each',
      action='store_true',
      help='a pull request for each patch: a branch NAME-1, NAME-2 up to it, '
      'and a text of its own')
  _add(
      command, '--pr', 'FILE', 'where to write the text of the pull request, '
      'made of the cover letter (default: build/pr/SERIES.md)', Path)
  command.set_defaults(run=_export)

  command = commands.add_parser(
      'import',
      help='make patches of a branch that `export` made',
      description='Makes patches of the commits of a branch, as you changed '
      'them since the export, and has git merge the patches that build on them. '
      'A commit is the patch that is named after its subject; series.toml has '
      'their order, so list a new one there first. The fields of a patch are '
      "kept; a new commit's message has to have them.")
  command.add_argument(
      'branch',
      metavar='BRANCH',
      help='the branch, or the series that fork/SERIES is named after')
  _add_checkout(command)
  command.set_defaults(run=_import)
  return parser


def _add(command: Any,
         name: str,
         metavar: str,
         text: str,
         kind: type = str,
         **more: Any) -> None:
  command.add_argument(name, metavar=metavar, help=text, type=kind, **more)


def _add_checkout(command: argparse.ArgumentParser) -> None:
  _add(
      command,
      '--upstream',
      'CHECKOUT',
      'your own checkout of upstream',
      Path,
      required=True)


def _check(root: Path, options: argparse.Namespace) -> int:
  if options.upstream:
    problems = check_upstream(root, options.upstream, options.only or '',
                              functools.partial(print, flush=True),
                              options.base or '')
  elif options.base or options.only:
    raise BuildError(
        '--base and --only take the source, which --upstream names')
  else:
    problems = check(root, folder_reader(_unpacked_wheel(root)))
  for problem in problems:
    print(f'error: {problem}', file=sys.stderr)
  if not problems:
    print('the series are in order')
  return 1 if problems else 0


def _unpacked_wheel(root: Path) -> Path:
  """The official wheel for this Python, or where there is none for another."""
  python = official.running_python()
  # The Python files are the same in all official wheels.
  if python not in pins.OFFICIAL_SHA256:
    python = next(iter(pins.OFFICIAL_SHA256))
  wheel = official.official_wheel(python, official.default_cache(root), print)
  return official.unpacked(wheel, root)


def _list(root: Path, options: argparse.Namespace) -> int:
  for series in load_manifest(root).series:
    print(f'{series.name} ({series.bug}): {series.description}')
  return 0


def _apply(root: Path, options: argparse.Namespace) -> int:
  manifest = load_manifest(root)
  chosen = (
      manifest.with_dependencies(options.only)
      if options.only else manifest.series)
  patches = [patch for s in chosen for patch in wheel_patches(root, s)]
  for path in apply_to_folder(options.wheel, patches):
    print(f'changed {path}')
  return 0


def _export(root: Path, options: argparse.Namespace) -> int:
  name, manifest = options.series, load_manifest(root)
  target = options.wheel or options.base or manifest.bases[-1].name
  is_request = target != WHEEL and name != ALL
  if is_request:
    read_cover(root, name)
  _sign(options.upstream, options.author)
  branch = options.branch or f'{BRANCH_PREFIX}{name}'
  laid = export(root, options.upstream, name, target, branch)
  if is_request:
    file = options.pr or root / 'build' / 'pr' / f'{name}.md'
    texts = {file: pull_request(root, manifest, name, target, laid)}
    if options.each:
      texts = {}
      own = [entry for entry in laid.patches if entry.series == name]
      for n, entry in enumerate(own):
        git.need(options.upstream, 'branch', f'{branch}-{n + 1}', entry.commit)
        texts[file.with_stem(f'{file.stem}-{n + 1}')] = request_of_patch(
            root, name, entry.patch, [e.patch.subject for e in own[:n]])
    file.parent.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
      file.write_text(text, encoding='utf-8')
      print(f'text of the pull request: {file}')
  print(f'next: git -C {options.upstream} format-patch -o OUTPUT_FOLDER '
        f'{laid.start}..{branch}')
  return 0


def _sign(upstream: Path, author: str | None) -> None:
  """Has git commit as `author`; warns of whom it commits as without one."""
  if author is None:
    ident = git.run(upstream, 'var', 'GIT_AUTHOR_IDENT').stdout
    print(
        f'warning: the commits are by {ident.rpartition(">")[0]}>, as git is '
        "configured; --author 'NAME <ADDRESS>' names who signs them",
        file=sys.stderr)
    return
  match = re.fullmatch(r'([^<>]*[^<> ]) *<([^<>@ ]+@[^<>@ ]+)>', author)
  if not match:
    raise BuildError(f'--author {author}: write NAME <ADDRESS>')
  for who in 'AUTHOR', 'COMMITTER':
    os.environ |= {f'GIT_{who}_NAME': match[1], f'GIT_{who}_EMAIL': match[2]}


def _import(root: Path, options: argparse.Namespace) -> int:
  import_branch(root, options.upstream, options.branch)
  return 0


if __name__ == '__main__':
  sys.exit(main())
