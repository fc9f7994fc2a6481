"""Lays patches on a work tree of upstream's sources, as commits."""

from contextlib import contextmanager
from pathlib import Path
import tempfile
from typing import Iterator

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.manifest import Base, Manifest, WHEEL
from infra.patchset.patch import Patch
from infra.wheel import pins

# The user's hooks are for the user's work, and these settings would move
# branches that are not ours or apply what was recorded elsewhere.
CONFIG = ('-c', 'core.hooksPath=/dev/null', '-c', 'rebase.updateRefs=false',
          '-c', 'rebase.autoSquash=false', '-c', 'rebase.autoStash=false', '-c',
          'rerere.enabled=false', '-c', 'core.autocrlf=false')

_TAG = f'refs/tags/{pins.OFFICIAL_TAG}'


def base_of(manifest: Manifest, form: str) -> Base:
  """What a form's patches are laid on: for the wheel's, the official tag."""
  if form == WHEEL:
    return Base(pins.OFFICIAL_TAG, _TAG, ())
  return manifest.find_base(form)


def has_commit(folder: Path, ref: str) -> bool:
  """Whether a ref names a commit."""
  return git.run(folder, 'rev-parse', '--verify', '--quiet', '--end-of-options',
                 f'{ref}^{{commit}}').returncode == 0


def check_sources(folder: Path, base: Base) -> None:
  """Raises BuildError where there is no git folder with the commits of a base.

  Args:
    folder: a checkout of upstream, or a bare clone.
    base: its commit, and those to pick, have to be there.
  """
  if not folder.is_dir() or git.run(folder, 'rev-parse').returncode:
    raise BuildError(f'{folder} is no git checkout')
  if base.commit == _TAG and not has_commit(folder, _TAG):
    raise BuildError(f'{folder} has no tag {base.name}. Fetch it: '
                     f'git -C {folder} fetch --tags <upstream>')
  # A commit is picked by its difference from the one before it.
  needed = (base.commit, *base.cherry_pick,
            *(f'{commit}^' for commit in base.cherry_pick))
  for commit in needed:
    if not has_commit(folder, commit):
      raise BuildError(
          f'{folder} has no commit {commit}, which the base {base.name} needs. '
          f'Fetch it: git -C {folder} fetch <upstream> {commit.rstrip("^")}' +
          (' --depth=2' if commit.endswith('^') else ''))


@contextmanager
def work_tree(upstream: Path, commit: str) -> Iterator[Path]:
  """A work tree of a checkout at a commit, gone afterwards."""
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    tree = Path(name).resolve() / 'tree'
    git.need(upstream, *CONFIG, 'worktree', 'add', '--quiet', '--detach',
             str(tree), commit)
    try:
      yield tree
    finally:
      git.run(upstream, 'worktree', 'remove', '--force', str(tree))


def go_to(tree: Path, commit: str) -> None:
  """Puts a work tree at a commit, whatever state it was left in."""
  # A pick that conflicted may be left from the last time.
  git.run(tree, *CONFIG, 'cherry-pick', '--quit')
  git.need(tree, *CONFIG, 'checkout', '--quiet', '--force', '--detach', commit)
  git.need(tree, 'clean', '-ffdxq')


def pick(tree: Path, base: Base) -> None:
  """Picks on a work tree, at the commit of a base, what the base has besides.

  Raises:
    BuildError: a commit cannot be picked.
  """
  for commit in base.cherry_pick:
    git.need(tree, *CONFIG, 'cherry-pick', '--allow-empty', '-x', commit)


def commit_patch(tree: Path, patch: Patch) -> None:
  """Commits a patch in a work tree.

  Raises:
    BuildError: a file is not the blob that the patch applies to, or would not
      be the one that it makes.
  """
  for change in patch.changes:
    _check_blob(tree, patch, change.path, change.old, 'applies to')
  git.need(
      tree,
      *CONFIG,
      'apply',
      '--unidiff-zero',
      '--whitespace=nowarn',
      '--index',
      given=patch.diff)
  for change in patch.changes:
    _check_blob(tree, patch, change.path, change.new, 'should make')
  bug = patch.fields['Bug']
  commit(tree, f'{patch.subject}\n\n{patch.body}\n\nBug: {bug}\n')


def commit(tree: Path, message: str) -> None:
  """Commits what is staged, as the user."""
  git.need(tree, *CONFIG, 'commit', '--quiet', '--file=-', given=message)


def blob_of(tree: Path, path: str) -> str:
  """The blob of a staged file, or an empty text."""
  done = git.run(tree, 'rev-parse', '--verify', '--quiet', f':{path}')
  return done.stdout.strip()


def _check_blob(tree: Path, patch: Patch, path: str, expected: str,
                verb: str) -> None:
  """Raises BuildError if a staged file is not the expected blob."""
  actual = blob_of(tree, path) or 'none'
  if actual != expected:
    raise BuildError(f'patch {patch.name} {verb} blob {expected} of {path}, '
                     f'and the checkout has {actual}')
