"""Lays a series on a tree that no base names, such as a fork's."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.lay import (blob_of, check_sources, commit_patch, go_to,
                                has_commit, pick)
from infra.patchset.manifest import Base, Manifest, Series
from infra.patchset.meeting import Carrier, Meeting
from infra.patchset.patch import load_patches, Patch


@dataclass(frozen=True)
class Port:
  """What became of a series on a tree.

  Attributes:
    form: the base whose patches meet least there.
    picked: commits of upstream's that the series needs and the tree has not;
      they were picked before it.
    needs: what became of each commit of upstream's that it needs, as it is told.
    before: the same with what the series depends on.
    head: the tree with the series, as far as it meets nothing.
    by_blob: how many patches, with those that it depends on, found the very
      files that they were made for; git merged the others.
    count: how many there are.
    meetings: where a commit meets what the tree has changed.
  """
  form: str
  picked: tuple[str, ...]
  needs: tuple[str, ...]
  before: str
  head: str
  by_blob: int
  count: int
  meetings: tuple[Meeting, ...]

  def summary(self) -> str:
    """How it was laid, in one line."""
    merged = self.count - self.by_blob
    laid = f'patches of {self.form}: {self.by_blob} by blob, {merged} merged'
    return '; '.join([laid, *self.needs])


@dataclass(frozen=True)
class Ground:
  """Where series are laid.

  Attributes:
    root: the checkout of this project.
    tree: a work tree of a clone of upstream's, with the fork's commits.
    target: the commit to lay them on.
  """
  root: Path
  manifest: Manifest
  tree: Path
  target: str


def resolve(upstream: Path, manifest: Manifest, ref: str) -> str:
  """The id of a commit that is no base.

  Raises:
    BuildError: there is none.
  """
  if not upstream.is_dir() or git.run(upstream, 'rev-parse').returncode:
    raise BuildError(f'{upstream} is no git checkout')
  if not has_commit(upstream, ref):
    known = ', '.join(base.name for base in manifest.bases) or 'none'
    raise BuildError(f'{upstream} has no commit {ref}, and it is no base; '
                     f'there are: {known}')
  return git.need(upstream, 'rev-parse', f'{ref}^{{commit}}')


def port(ground: Ground, series: Series, say: Say) -> Port:
  """Lays a series behind what it depends on, and leaves the work tree there.

  The patches of each base are tried, of the newest first, until some meet
  nothing.

  Args:
    ground: where to lay it.
    series: it has patches for some base.
    say: is told about progress.

  Raises:
    BuildError: the commits of a base are not in the clone.
  """
  chain = ground.manifest.with_dependencies(series.name)
  forms = [
      base for base in reversed(ground.manifest.bases)
      if all(base.name in part.upstream for part in chain)
  ]
  if not forms:
    raise BuildError(f'series {series.name} has no patches for people with the '
                     'source')
  for base in forms:
    check_sources(ground.tree, base)
  needed = _needed(ground, forms)
  tried: set[tuple[tuple[str, str], ...]] = set()
  ports: list[Port] = []
  for base in forms:
    patches = {s.name: load_patches(ground.root, s, base.name) for s in chain}
    blobs = tuple((change.path, change.old)
                  for of_series in patches.values()
                  for patch in of_series
                  for change in patch.changes)
    # Bases with the same files would end the same.
    if blobs in tried:
      continue
    tried.add(blobs)
    say(f'  tries the patches of {base.name}')
    ports.append(_lay(ground, base, needed, patches))
    if not ports[-1].meetings:
      break
  best = min(ports, key=lambda made: len(made.meetings))
  go_to(ground.tree, best.head)
  return best


def _needed(ground: Ground, bases: Sequence[Base]) -> list[str]:
  """The picked commits that are in all of some bases."""
  picks = dict.fromkeys(
      commit for base in ground.manifest.bases for commit in base.cherry_pick)
  return [
      commit for commit in picks if all(
          commit in base.cherry_pick or
          git.run(ground.tree, 'merge-base', '--is-ancestor', commit,
                  base.commit).returncode == 0 for base in bases)
  ]


def _lay(ground: Ground, base: Base, needed: Sequence[str],
         patches: dict[str, list[Patch]]) -> Port:
  """Lays the patches of a base, some by series, and what they need."""
  tree, target = ground.tree, ground.target
  commits = _commits(ground, base, patches)
  # Without a common commit, all that the tree has counts as its own.
  origin = git.run(tree, 'merge-base', target,
                   base.commit).stdout.strip() or base.commit
  carrier = Carrier(tree, target, origin, base.commit)
  go_to(tree, target)
  meetings: list[Meeting] = []
  picked, needs = [], []
  for commit in needed:
    met = None if carrier.has(commit) else carrier.carry(commit, '-x')
    if met is None:
      end = 'which is there'
    else:
      picked.append(commit)
      meetings += met
      end = f'of which {len(met)} hunks meet' if met else 'picked'
    needs.append(f'needs {commit[:10]}, {end}')
  before = git.need(tree, 'rev-parse', 'HEAD')
  by_blob = 0
  for name, of_series in patches.items():
    before = git.need(tree, 'rev-parse', 'HEAD')
    for patch in of_series:
      if all(blob_of(tree, c.path) == c.old for c in patch.changes):
        commit_patch(tree, patch)
        by_blob += 1
      else:
        meetings += carrier.carry(commits[name, patch.name]) or []
  return Port(base.name, tuple(picked), tuple(needs), before,
              git.need(tree, 'rev-parse', 'HEAD'), by_blob,
              sum(map(len, patches.values())), tuple(meetings))


def _commits(ground: Ground, base: Base,
             patches: dict[str, list[Patch]]) -> dict[tuple[str, str], str]:
  """The commits that patches are on their own base, by series and name.

  Unlike a patch without context, a commit has git see where its lines belong.
  """
  tree = ground.tree
  go_to(tree, base.commit)
  pick(tree, base)
  commits = {}
  for name, of_series in patches.items():
    for patch in of_series:
      commit_patch(tree, patch)
      commits[name, patch.name] = git.need(tree, 'rev-parse', 'HEAD')
  return commits
