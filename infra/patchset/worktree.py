"""Lays series on a work tree of upstream's sources, as commits.

A patch has no context, so it is applied to the very file that it was made of, on
its base. Into any other tree git merges what it changes there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
import tempfile

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.apply import Stack
from infra.patchset.manifest import Base, FOLDER, Manifest, Series, WHEEL
from infra.patchset.patch import load_patch, Patch
from infra.patchset.style import merge_includes
from infra.wheel import pins

# The user's hooks and settings are for the user's work.
CONFIG = ('-c', 'core.hooksPath=/dev/null', '-c', 'rerere.enabled=false', '-c',
          'core.autocrlf=false', '-c', 'diff.noprefix=false', '-c',
          'color.ui=never')

# Patches to take instead of those in patches/, by their paths; None for none.
Edited = Mapping[str, Patch | None]


@dataclass(frozen=True)
class LaidPatch:
  """A patch on a tree.

  Attributes:
    commit: the commit that it became.
    conflict: where it and the tree change the same lines, which stay the
      tree's; empty if there are none.
  """
  series: str
  patch: Patch
  commit: str
  conflict: str


@dataclass(frozen=True)
class Laid:
  """Series on a tree.

  Attributes:
    start: the commit behind which the patches' commits stand.
    picked: commits of upstream's that come before it.
    patches: those of the series, in order.
  """
  start: str
  picked: tuple[str, ...]
  patches: list[LaidPatch]


@dataclass(frozen=True)
class Worktree:
  """A work tree to lay series on.

  Attributes:
    root: the checkout of this project.
    tree: a work tree of upstream's; all that is not committed there is lost.
    edited: patches that are not as the checkout has them.
  """
  root: Path
  manifest: Manifest
  tree: Path
  edited: Edited = field(default_factory=dict)
  # What the patches of the checkout make of each base.
  _stacks: dict[str, Stack] = field(default_factory=dict)

  def lay(self, chain: Sequence[Series], target: str) -> Laid:
    """Commits the patches of some series on a base, or on any other commit.

    On any other commit it picks what the bases of the series pick.

    Raises:
      BuildError: a patch does not fit its base, or a commit is not there.
    """
    base = self._base(target)
    # A commit is picked by its difference from the one before it.
    for commit in (base.commit, *(f'{c}^' for c in base.cherry_pick)):
      if not has_commit(self.tree, commit):
        raise BuildError(
            f'there is no commit {commit}, which the base {base.name} needs. '
            f'Fetch it: git fetch --tags <upstream> {commit.rstrip("^")}')
    picks = base.cherry_pick
    is_known = target == WHEEL or base in self.manifest.bases
    if not is_known:
      homes = {series.form_for(target) for series in chain}
      picks = tuple(
          pick for b in self.manifest.bases if b.name in homes
          for pick in self._lacking(b, base.commit))
    git.need(self.tree, *CONFIG, 'checkout', '--quiet', '--force', '--detach',
             base.commit)
    git.need(self.tree, 'clean', '-ffdxq')
    for commit in picks:
      git.need(self.tree, *CONFIG, 'cherry-pick', '--allow-empty',
               '--keep-redundant-commits', '-x', commit)
    laid = Laid(git.need(self.tree, 'rev-parse', 'HEAD'), picks, [])
    for series in chain:
      form = series.form_for(target)
      stack = self._stack(series, form)
      for name in series.forms()[form]:
        patch = self.edited.get(name)
        if patch is None and name in self.edited:
          continue
        patch = patch or load_patch(self.root, name, form)
        # Lines that both insert at one place are no conflict where the tree is
        # known.
        conflict = '\n'.join(self._merge(patch, stack, takes_both=is_known))
        message = (f'{patch.subject}\n\n{patch.body}\n\n'
                   f'Bug: {patch.fields["Bug"]}\n')
        command = ('commit', '--quiet', '--all', '--allow-empty', '--file=-')
        git.need(self.tree, *CONFIG, *command, given=message)
        commit = git.need(self.tree, 'rev-parse', 'HEAD')
        laid.patches.append(LaidPatch(series.name, patch, commit, conflict))
    return laid

  def _merge(self, patch: Patch, stack: Stack,
             takes_both: bool) -> Iterator[str]:
    """Merges a patch into the files of the tree; gives the conflicts."""
    for change in patch.changes:
      file = self.tree / change.path
      if not file.is_file():
        yield change.diff
        continue
      current = file.read_bytes()
      merged = git.merge_files(
          current,
          *(stack.blobs.get(blob) or
            git.read(self.tree, 'cat-file', 'blob', blob)
            for blob in (change.old, change.new)))
      conflicts = [*git.CONFLICT.finditer(merged)]
      if conflicts:
        resolved = merge_includes(self.tree, change.path, merged)
        if resolved is None and takes_both:
          resolved = git.take_both(merged)
        merged, conflicts = ((current, conflicts) if resolved is None else
                             (resolved, []))
      file.write_bytes(merged)
      for conflict in conflicts:
        yield f'{change.path}:\n{conflict[0].decode()}'

  def _stack(self, series: Series, form: str) -> Stack:
    """What a series, with what it depends on, makes of its base."""
    base = self._base(form)
    stack = self._stacks.setdefault(form,
                                    Stack(lambda path: self._read(base, path)))
    for part in self.manifest.with_dependencies(series.name):
      own = part.form_for(form)
      for name in part.forms()[own]:
        # One that is new lies nowhere yet.
        if name not in stack.names and (name not in self.edited or
                                        (self.root / FOLDER / name).exists()):
          stack.apply(load_patch(self.root, name, own))
    return stack

  def _read(self, base: Base, path: str) -> bytes | None:
    """A file of a base, with what it picks; None if there is none."""

    def show(commit: str) -> bytes | None:
      done = git.run(self.tree, 'show', f'{commit}:{path}', text=False)
      return None if done.returncode else done.stdout

    data = show(base.commit)
    for pick in base.cherry_pick if data else ():
      change = show(f'{pick}^'), show(pick)
      data = git.merge_files(data, *change) if all(change) else data
    return data

  def _base(self, target: str) -> Base:
    """A base, the wheel's tag, or any commit."""
    if target == WHEEL:
      return Base(pins.OFFICIAL_TAG, f'refs/tags/{pins.OFFICIAL_TAG}', ())
    bases = (base for base in self.manifest.bases if base.name == target)
    return next(bases, Base(target, target, ()))

  def _lacking(self, base: Base, commit: str) -> list[str]:
    """The commits that a base picks and that are in no history here."""
    return [
        pick for pick in base.cherry_pick
        if git.run(self.tree, 'merge-base', '--is-ancestor', pick,
                   commit).returncode and
        not git.need(self.tree, 'log', '-1', '--format=%H', '--fixed-strings',
                     f'--grep=(cherry picked from commit {pick})', commit)
    ]


@contextmanager
def work_tree(upstream: Path) -> Iterator[Path]:
  """A work tree of a checkout, gone afterwards.

  Raises:
    BuildError: there is no git checkout.
  """
  check_checkout(upstream)
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    tree = Path(name).resolve() / 'tree'
    git.need(upstream, *CONFIG, 'worktree', 'add', '--quiet', '--detach',
             '--no-checkout', str(tree))
    try:
      yield tree
    finally:
      git.run(upstream, 'worktree', 'remove', '--force', str(tree))


def check_checkout(upstream: Path) -> None:
  """Raises BuildError unless a folder is a git checkout."""
  if not upstream.is_dir() or git.run(upstream, 'rev-parse').returncode:
    raise BuildError(f'{upstream} is no git checkout')


def has_commit(folder: Path, ref: str) -> bool:
  """Tests whether a ref names a commit."""
  return git.run(folder, 'rev-parse', '--verify', '--quiet', '--end-of-options',
                 f'{ref}^{{commit}}').returncode == 0
