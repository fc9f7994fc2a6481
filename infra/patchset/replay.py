"""Carries a change of one form of a series over to its other forms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.branch import Branch, diff_of
from infra.patchset.lay import (base_of, check_sources, commit_patch, CONFIG,
                                pick, work_tree)
from infra.patchset.manifest import Manifest, Series
from infra.patchset.patch import file_of, load_patches, read_patch, write_patch

# The patches of series in forms: the text of each by its file's name, in order.
Texts = dict[tuple[str, str], dict[str, str]]


@dataclass(frozen=True)
class Edit:
  """What a branch changes of one form of a series.

  Attributes:
    order: the file names of all its patches.
    texts: the changed ones by name, None for one that goes.
    commits: the commit of each patch on the branch.
  """
  series: Series
  branch: Branch
  order: tuple[str, ...]
  texts: Mapping[str, str | None]
  commits: Mapping[str, str]


class NotClean(Exception):
  """A change cannot be carried over: its text says where it fails."""


def dependents(manifest: Manifest, series: Series, form: str) -> list[Series]:
  """The series of a form that build on another one."""
  return [
      other for other in manifest.series if other != series and
      form in other.forms() and series in manifest.with_dependencies(other.name)
  ]


def replay(root: Path, manifest: Manifest, now: Texts, edit: Edit, form: str,
           file_names: Sequence[str], later: Sequence[Series]) -> Texts:
  """The patches of a form after the change.

  They are picked as commits, in a work tree of their own: unlike a patch
  without context, git then sees where lines belong that have moved.

  Args:
    root: the checkout of this project.
    manifest: all series.
    now: all patches as they are.
    edit: the change.
    form: to carry it over to.
    file_names: of the patches that the series shall have there.
    later: series that build on it.

  Raises:
    NotClean: a commit conflicts, or the sources are not in the checkout.
  """
  names = {s.name for s in later} | {edit.series.name}
  chain = [
      series for series in manifest.series if any(
          series in manifest.with_dependencies(name) for name in names)
  ]
  at = chain.index(edit.series)
  upstream = edit.branch.upstream
  base = base_of(manifest, form)
  try:
    check_sources(upstream, base)
    with work_tree(upstream, base.commit) as tree:
      pick(tree, base)
      commits: dict[tuple[str, str], str] = {}
      start = ''
      for series in chain:
        if series == edit.series:
          start = git.need(tree, 'rev-parse', 'HEAD')
        for patch in load_patches(root, series, form):
          commit_patch(tree, patch)
          file = file_of(patch.name)
          commits[series.name, file] = git.need(tree, 'rev-parse', 'HEAD')
      git.need(tree, *CONFIG, 'reset', '--quiet', '--hard', start)
      texts: Texts = {}
      for series in chain[at:]:
        own = series == edit.series
        files = file_names if own else [*now[series.name, form]]
        texts[series.name, form] = {}
        for file in files:
          changed = edit.texts.get(file) if own else None
          text = changed or now[series.name, form][file]
          commit = (
              edit.commits[file] if changed else commits[series.name, file])
          texts[series.name, form][file] = _picked(tree, commit, text, file,
                                                   form)
      return texts
  except BuildError as error:
    raise NotClean(str(error)) from error


def _picked(tree: Path, commit: str, text: str, file: str, form: str) -> str:
  """The text of a patch as its commit is once picked.

  Raises:
    NotClean: it conflicts.
    BuildError: it does not say what the form asks for.
  """
  before = read_patch(text, file, form)
  done = git.run(tree, *CONFIG, 'cherry-pick', commit)
  if done.returncode:
    names = git.run(tree, 'diff', '--name-only', '--diff-filter=U').stdout
    where = ', '.join(names.split()) or 'which it leaves as they are'
    raise NotClean(f'"{before.subject}" conflicts there in {where}')
  diff = diff_of(tree, 'HEAD')
  if diff == before.diff:
    return text
  return write_patch(before.subject, before.body, before.fields, diff)
