"""What stands in the way of a release: in the checkout, and where it goes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infra.errors import BuildError
from infra.patchset import git
from infra.release.notes import Section
from infra.wheel.official import sha256

_SHOWN = 5


def tag_of(version: str) -> str:
  """The git tag of a version."""
  return f'v{version}'


def commit_of(root: Path) -> str:
  """The commit that is checked out, and whether files differ from it."""
  commit = git.need(root, 'rev-parse', 'HEAD')
  return f'{commit}, with changes' if _changes(root) else commit


def check_checkout(root: Path, version: str, section: Section) -> None:
  """Checks that what is checked out can be released as it is.

  Raises:
    BuildError: files differ from the commit, the changelog's section has no
      date, or the version's tag names another commit.
  """
  changes = _changes(root)
  if changes:
    shown = '\n'.join(changes[:_SHOWN] + ['...'] * (len(changes) > _SHOWN))
    raise BuildError('a release is made of a commit, and these files differ '
                     f'from it:\n{shown}\nCommit or remove them.')
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


def check_target(dist: Path, wheels: Iterable[Path]) -> None:
  """Checks that no wheel would be replaced by another of the same name.

  Raises:
    BuildError: one would be.
  """
  for wheel in wheels:
    there = dist / wheel.name
    if there.exists() and sha256(there) != sha256(wheel):
      raise BuildError(
          f'{there} is another wheel of the same version: remove it if it was '
          'never given to anybody, or else raise VERSION in '
          'infra/wheel/pins.py')


def _changes(root: Path) -> list[str]:
  return git.need(root, 'status', '--porcelain').splitlines()
