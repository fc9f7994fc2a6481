"""What stands in the way of a release: in the checkout, and where it goes."""

from __future__ import annotations

from collections.abc import Iterable
import os
from pathlib import Path

from infra.errors import BuildError
from infra.patchset import git
from infra.release.inputs import differences
from infra.release.notes import Section
from infra.wheel.official import sha256

_SHOWN = 5


def tag_of(version: str) -> str:
  """The git tag of a version."""
  return f'v{version}'


def commit_of(root: Path) -> str:
  """The commit that is checked out, and whether files differ from it."""
  commit = git.need(root, 'rev-parse', 'HEAD')
  return f'{commit}, with changes' if differences(root) else commit


def check_checkout(root: Path, version: str, section: Section) -> None:
  """Checks that what is checked out can be released as it is.

  Raises:
    BuildError: files differ from the commit, the changelog's section has no
      date, or the version's tag names another commit.
  """
  changes = differences(root)
  if changes:
    shown = '\n'.join(changes[:_SHOWN] + ['...'] * (len(changes) > _SHOWN))
    raise BuildError('a release is made of a commit, and these files differ '
                     f'from it:\n{shown}\nCommit or remove them, or put them '
                     'back. Where `git status` hides one, `git check-ignore -v '
                     'FILE` and `git ls-files -v FILE` say why.')
  if not section.released:
    raise BuildError(f'CHANGELOG.md says `## {version} {section.heading}`: '
                     'put the date there, as in (2026-01-31), and commit it')
  tag = tag_of(version)
  tagged = git.run(root, 'rev-parse', '--verify', '--quiet',
                   f'{tag}^{{commit}}')
  if tagged.returncode == 0 and (tagged.stdout.strip() != git.need(
      root, 'rev-parse', 'HEAD')):
    raise BuildError(f'tag {tag} names another commit, {tagged.stdout.strip()}:'
                     ' raise VERSION in infra/wheel/pins.py')


def check_same(root: Path, version: str, section: Section, commit: str) -> None:
  """Checks that what is checked out is as it was when a release was begun.

  Raises:
    BuildError: another commit is checked out, or as `check_checkout`.
  """
  check_checkout(root, version, section)
  now = git.need(root, 'rev-parse', 'HEAD')
  if now != commit:
    raise BuildError(f'the release was begun on commit {commit}, and now {now} '
                     'is checked out: run it again, and leave the checkout '
                     'alone while it runs')


def check_target(dist: Path, files: Iterable[Path]) -> None:
  """Checks that files can go to `dist`, and that no wheel replaces another.

  Raises:
    BuildError: a wheel of the same name is there, or no file is in the way.
  """
  if os.path.lexists(dist) and not dist.is_dir():
    raise BuildError(f'{dist} is no folder: move it away')
  for file in files:
    there = dist / file.name
    if os.path.lexists(there) and not there.is_file():
      raise BuildError(f'{there} is no file: move it away')
    if file.suffix == '.whl' and there.exists() and (sha256(there)
                                                     != sha256(file)):
      raise BuildError(
          f'{there} is another wheel of the same version: remove it if it was '
          'never given to anybody, or else raise VERSION in '
          'infra/wheel/pins.py')
