"""Lays series on a work tree of upstream's sources, as commits.

A patch has no context, so git applies it to the very file that it was made of,
on its home base. On any other tree git merges the commit that it is there.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
import tempfile

from infra.errors import BuildError
from infra.patchset import git, includes
from infra.patchset.manifest import Base, FOLDER, Manifest, Series, WHEEL
from infra.patchset.patch import load_patch, Patch
from infra.wheel import pins

# The user's hooks and settings are for the user's work.
CONFIG = ('-c', 'core.hooksPath=/dev/null', '-c', 'rerere.enabled=false', '-c',
          'core.autocrlf=false', '-c', 'merge.conflictStyle=diff3', '-c',
          'diff.noprefix=false', '-c', 'color.ui=never')
_PICK = ('cherry-pick', '--allow-empty', '--keep-redundant-commits')


@dataclass(frozen=True)
class Laid:
  """A patch on a tree.

  Attributes:
    commit: the commit that it became.
    conflict: git's diff of the places where the tree differs, and which the
      tree's lines stay in; empty if there are none.
  """
  series: str
  patch: Patch
  commit: str
  conflict: str


@dataclass(frozen=True)
class Worktree:
  """A work tree to lay series on.

  Attributes:
    root: the checkout of this project.
    tree: a work tree of upstream's; all that is not committed there is lost.
    edited: by path, patches with commits to take instead, None to take none.
  """
  root: Path
  manifest: Manifest
  tree: Path
  edited: Mapping[str, tuple[Patch, str] | None] = field(default_factory=dict)
  _homes: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

  def start(
      self, target: str,
      chain: Iterable[Series] = ()) -> tuple[str, tuple[str, ...]]:
    """Puts the tree at a form's base, or at any other commit.

    Args:
      chain: series that need what their own bases pick, on any other commit.

    Returns:
      The commit, and the ids of upstream's commits that were picked.
    """
    bases = [b for b in self.manifest.bases if b.name == target]
    base = bases[0] if bases else _base_of(target)
    _check_commits(self.tree, base)
    picks = base.cherry_pick
    if not bases and target != WHEEL:
      homes = {series.home(target) for series in chain}
      picks = tuple(
          pick for b in self.manifest.bases if b.name in homes
          for pick in self._lacking(b, base.commit))
    _go_to(self.tree, base.commit)
    for commit in picks:
      git.need(self.tree, *CONFIG, *_PICK, '-x', commit)
    return git.need(self.tree, 'rev-parse', 'HEAD'), picks

  def lay(self,
          chain: Iterable[Series],
          target: str,
          at_home: bool = False) -> list[Laid]:
    """Commits the patches of some series on the tree, which `start` put there.

    Args:
      at_home: merge none.

    Raises:
      BuildError: a patch does not fit its home base.
    """
    laid = []
    for series in chain:
      form = series.home(target)
      for name in series.forms()[form]:
        if name in self.edited and not self.edited[name]:
          continue
        patch, commit = self.edited.get(name) or (load_patch(
            self.root, name, form), '')
        conflict = ''
        if commit:
          conflict = self._merge(commit)
        elif at_home or self._fits(patch):
          self._commit(patch)
        else:
          conflict = self._merge(
              self._home(series, form)[name],
              any(target == base.name for base in self.manifest.bases))
        head = git.need(self.tree, 'rev-parse', 'HEAD')
        laid.append(Laid(series.name, patch, head, conflict))
    return laid

  def _home(self, series: Series, form: str) -> dict[str, str]:
    """The commits of a series on its home base, by the patches' paths."""
    key = series.name, form
    if key not in self._homes:
      here = git.need(self.tree, 'rev-parse', 'HEAD')
      self.start(form)
      new = {
          name: None
          for name in self.edited
          if not (self.root / FOLDER / name).exists()
      }
      home = Worktree(self.root, self.manifest, self.tree, new)
      chain = self.manifest.with_dependencies(series.name)
      self._homes[key] = {
          laid.patch.name: laid.commit for laid in home.lay(
              chain, form, at_home=form in series.upstream or form == WHEEL)
      }
      _go_to(self.tree, here)
    return self._homes[key]

  def _merge(self, commit: str, takes_both: bool = False) -> str:
    """Picks a commit; returns the conflict, where the tree's lines stay.

    Args:
      takes_both: lines that both insert at one place are no conflict, where the
        tree is known.
    """
    if not git.run(self.tree, *CONFIG, *_PICK, commit).returncode:
      return ''
    conflict = git.need(self.tree, *CONFIG, 'diff')
    paths = git.need(self.tree, 'diff', '--name-only', '--diff-filter=U')
    if conflict and all(
        includes.merge(self.tree, path) or takes_both and self._take_both(path)
        for path in paths.split()):
      git.need(self.tree, 'add', '--', *paths.split())
      git.need(self.tree, *CONFIG, '-c', 'core.editor=true', 'cherry-pick',
               '--continue')
      return ''
    git.need(self.tree, 'cherry-pick', '--abort')
    if git.run(self.tree, *CONFIG, *_PICK, '-X', 'ours', commit).returncode:
      # A file that is gone there.
      git.need(self.tree, 'cherry-pick', '--abort')
    return conflict or git.need(self.tree, 'show', '--format=', commit)

  def _take_both(self, path: str) -> bool:
    """Takes what both sides of a conflict insert, as a wheel's files are."""
    merged = git.merge_files(*(
        git.read(self.tree, 'show', f':{stage}:{path}') for stage in (2, 1, 3)))
    if merged is not None:
      (self.tree / path).write_bytes(merged)
    return merged is not None

  def _fits(self, patch: Patch) -> bool:
    """Tests whether the tree has the very files that a patch was made of."""
    return all(_blob(self.tree, c.path) == c.old for c in patch.changes)

  def _commit(self, patch: Patch) -> None:
    for change in patch.changes:
      _check_blob(self.tree, patch, change.path, change.old, 'applies to')
    git.need(
        self.tree,
        *CONFIG,
        'apply',
        '--unidiff-zero',
        '--whitespace=nowarn',
        '--index',
        given=patch.diff)
    for change in patch.changes:
      _check_blob(self.tree, patch, change.path, change.new, 'should make')
    message = f'{patch.subject}\n\n{patch.body}\n\nBug: {patch.fields["Bug"]}\n'
    git.need(self.tree, *CONFIG, 'commit', '--quiet', '--file=-', given=message)

  def _lacking(self, base: Base, commit: str) -> list[str]:
    """The commits that a base picks and that are in no history here."""
    return [
        pick for pick in base.cherry_pick
        if not is_ancestor(self.tree, pick, commit) and
        not git.need(self.tree, 'log', '-1', '--format=%H', '--fixed-strings',
                     f'--grep=(cherry picked from commit {pick})', commit)
    ]


@contextmanager
def work_tree(upstream: Path) -> Iterator[Path]:
  """A work tree of a checkout, gone afterwards.

  Raises:
    BuildError: there is no git checkout.
  """
  if not upstream.is_dir() or git.run(upstream, 'rev-parse').returncode:
    raise BuildError(f'{upstream} is no git checkout')
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    tree = Path(name).resolve() / 'tree'
    git.need(upstream, *CONFIG, 'worktree', 'add', '--quiet', '--detach',
             '--no-checkout', str(tree))
    try:
      yield tree
    finally:
      git.run(upstream, 'worktree', 'remove', '--force', str(tree))


def has_commit(folder: Path, ref: str) -> bool:
  """Tests whether a ref names a commit."""
  return git.run(folder, 'rev-parse', '--verify', '--quiet', '--end-of-options',
                 f'{ref}^{{commit}}').returncode == 0


def is_ancestor(folder: Path, commit: str, of_commit: str) -> bool:
  """Tests whether a commit is another one, or in its history."""
  return git.run(folder, 'merge-base', '--is-ancestor', commit,
                 of_commit).returncode == 0


def _base_of(target: str) -> Base:
  """The wheel's tag, or any commit."""
  if target == WHEEL:
    return Base(pins.OFFICIAL_TAG, f'refs/tags/{pins.OFFICIAL_TAG}', ())
  return Base(target, target, ())


def _check_commits(folder: Path, base: Base) -> None:
  """Raises BuildError where a commit of a base is not there."""
  # A commit is picked by its difference from the one before it.
  for commit in (base.commit, *(f'{c}^' for c in base.cherry_pick)):
    if not has_commit(folder, commit):
      raise BuildError(
          f'there is no commit {commit}, which the base {base.name} needs. '
          f'Fetch it: git fetch --tags <upstream> {commit.rstrip("^")}')


def _go_to(tree: Path, commit: str) -> None:
  """Puts a work tree at a commit, whatever state it was left in."""
  git.run(tree, *CONFIG, 'cherry-pick', '--quit')
  git.need(tree, *CONFIG, 'checkout', '--quiet', '--force', '--detach', commit)
  git.need(tree, 'clean', '-ffdxq')


def _blob(tree: Path, path: str) -> str:
  """The blob of a staged file, or an empty text."""
  done = git.run(tree, 'rev-parse', '--verify', '--quiet', f':{path}')
  return done.stdout.strip()


def _check_blob(tree: Path, patch: Patch, path: str, expected: str,
                verb: str) -> None:
  """Raises BuildError if a staged file is not the expected blob."""
  actual = _blob(tree, path) or 'none'
  if actual != expected:
    raise BuildError(f'patch {patch.name} {verb} blob {expected} of {path}, '
                     f'and the checkout has {actual}')
