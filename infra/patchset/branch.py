"""Reads a branch that `export` made: the commits and files of one series."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
import re

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.export import (base_record_of, BRANCH_PREFIX, files_subject,
                                   record_of)
from infra.patchset.lay import has_commit
from infra.patchset.manifest import Manifest, Series, WHEEL
from infra.patchset.patch import (FIELDS, file_of, Patch, read_fields, slug,
                                  WHY_NOT_OVERLAY)

_LOG = ('-c', 'log.showSignature=false', 'log')
_DIFF = ('diff-tree', '-p', '-U0', '--full-index', '--no-renames',
         '--no-commit-id', '--no-color', '--no-ext-diff', '--no-textconv')


@dataclass(frozen=True)
class Branch:
  """A branch and what `export` kept of it.

  Attributes:
    form: of the series that are on it.
    base: the commit that it begins at.
  """
  upstream: Path
  name: str
  form: str
  base: str

  @property
  def head(self) -> str:
    return f'refs/heads/{self.name}'


@dataclass(frozen=True)
class Content:
  """What a patch file says, apart from how its header is folded."""
  subject: str
  body: str
  fields: dict[str, str]
  diff: str


@dataclass(frozen=True)
class Commit:
  """A commit that changes files of upstream: a patch to be.

  Attributes:
    content: with the fields that its message has; `export` writes just the bug.
  """
  id: str
  content: Content


@dataclass(frozen=True)
class Side:
  """A branch, as it is or as it was exported, as seen from one series.

  Attributes:
    earlier: the series whose commits come first.
    base: the blob of each file that the series' own commits start from.
    commits: the series' own, by the name of the patch that each is.
    files: the blob of each file that upstream does not have.
    behind: subjects of other commits to files of upstream that stand behind
      those of a later series.
  """
  earlier: list[Series]
  base: dict[str, str]
  commits: dict[str, Commit]
  files: dict[str, str]
  behind: tuple[str, ...]

  @property
  def order(self) -> tuple[str, ...]:
    return tuple(self.commits)

  def contents(self, loaded: Mapping[str, Patch]) -> dict[str, Content]:
    """The patches; fields that a commit lacks are those of the patch here."""
    contents = {name: commit.content for name, commit in self.commits.items()}
    return contents | {
        name: replace(said, fields=loaded[name].fields | said.fields)
        for name, said in contents.items()
        if name in loaded
    }


def content_of(patch: Patch) -> Content:
  """What a patch says."""
  return Content(patch.subject, patch.body, patch.fields, patch.diff)


def find_branch(upstream: Path, name: str) -> str:
  """The branch of this name, or the one that `export` calls after it."""
  for branch in (name, f'{BRANCH_PREFIX}{name}'):
    if has_commit(upstream, f'refs/heads/{branch}'):
      return branch
  return name


def open_branch(upstream: Path, name: str, series: str) -> Branch:
  """A branch that can be imported.

  Raises:
    BuildError: there is none, or not one that `export` made, or it does not
      begin where that began, or it has merges.
  """
  if not has_commit(upstream, f'refs/heads/{name}'):
    raise BuildError(f'{upstream} has no branch {name}')
  prefix = base_record_of(name)
  records = git.need(upstream, 'for-each-ref', '--format=%(refname)', prefix)
  if not records or not has_commit(upstream, record_of(name, series)):
    raise BuildError(
        f'{upstream} does not know {name} as it was exported '
        f'({record_of(name, series)}): export the series, and bring your '
        'commits over to that branch')
  [record] = records.split()
  base = git.need(upstream, 'rev-parse', record)
  branch = Branch(upstream, name, record.removeprefix(prefix), base)
  if git.run(upstream, 'merge-base', base, branch.head).stdout.strip() != base:
    raise BuildError(
        f'{name} does not start from {base[:12]}, from which it was exported. '
        f'Rebase it: git rebase --onto {base[:12]} <the commit that it is on> '
        f'{name}')
  merges = git.need(upstream, 'rev-list', '--merges', f'{base}..{branch.head}')
  if merges:
    raise BuildError(f'{name} has the merge {merges.split()[0]}, and a merge '
                     'is no patch: rebase the branch')
  return branch


def read_side(branch: Branch, ref: str, manifest: Manifest,
              series: Series) -> Side:
  """Reads the commits of `series` and the new files of a branch.

  Args:
    branch: it is of.
    ref: the branch, or as it was exported.
    manifest: all series.
    series: one of them.

  Raises:
    BuildError: two commits have one subject, or one adds a file where only the
      wheel's form has new files.
  """
  official = files_of(branch.upstream, branch.base)
  # `export` lays the series in the order of series.toml.
  at = manifest.series.index(series)
  form = branch.form
  earlier = {t: s for s in manifest.series[:at] for t in _titles(s, form)}
  later = {t for s in manifest.series[at + 1:] for t in _titles(s, form)}
  base = branch.base
  earlier_series: list[Series] = []
  commits: dict[str, Commit] = {}
  log = git.need(branch.upstream, *_LOG, '--reverse', '--format=%H %s',
                 f'{base}..{ref}')
  is_later, behind = False, []
  for line in log.splitlines():
    commit, _, subject = line.partition(' ')
    title = slug(subject)
    is_later = is_later or title in later
    if is_later:
      if title not in later and _read_commit(branch, commit, subject, official):
        behind.append(subject)
      continue
    if title in earlier:
      base = commit
      commits.clear()
      if earlier[title] not in earlier_series:
        earlier_series.append(earlier[title])
      continue
    new_commit = _read_commit(branch, commit, subject, official)
    if not new_commit:
      continue
    name = f'{title}.patch'
    if name in commits:
      raise BuildError(
          f'the commits {commits[name].id[:10]} and {new_commit.id[:10]} have '
          f'one subject, "{subject}", and a patch is called after it')
    commits[name] = new_commit
  files = {
      path: blob
      for path, blob in files_of(branch.upstream, ref).items()
      if path not in official
  }
  return Side(earlier_series, files_of(branch.upstream, base), commits, files,
              tuple(behind))


def files_of(upstream: Path, ref: str) -> dict[str, str]:
  """The blob of each file of a commit."""
  rows = git.read(upstream, 'ls-tree', '-r', '-z', ref).decode().split('\0')
  return {
      path: head.split()[2]
      for head, _, path in (row.partition('\t') for row in rows if row)
  }


def diff_of(folder: Path, commit: str, *paths: str) -> str:
  """What a commit changes, as a patch file has it."""
  diff = git.read(folder, *_DIFF, commit, '--', *paths).decode()
  # Behind the second @@ git quotes a line of upstream's.
  return re.sub(r'(?m)^(@@ .*? @@).*$', r'\1', diff)


def _titles(series: Series, form: str) -> list[str]:
  """The subjects of a series' commits, as file names have them."""
  patches = series.forms().get(form, ())
  return [
      slug(files_subject(series.name)),
      *(file_of(path).removesuffix('.patch') for path in patches)
  ]


def _read_commit(branch: Branch, commit: str, subject: str,
                 official: Container[str]) -> Commit | None:
  """What a commit does to files of upstream; None if it touches none."""
  touched = git.read(branch.upstream, 'diff-tree', '-r', '-z', '--name-only',
                     '--no-renames', '--no-commit-id', commit).decode()
  paths = [path for path in touched.split('\0') if path]
  own = [path for path in paths if path in official]
  if branch.form != WHEEL and own != paths:
    raise BuildError(
        f'the commit "{subject}" adds {", ".join(set(paths) - set(own))}. A '
        'patch adds no file: put it into one that upstream has')
  if not own:
    return None
  body = git.need(branch.upstream, *_LOG, '-1', '--format=%b', commit)
  paragraphs = re.split(r'\n{2,}', body.strip('\n'))
  try:
    fields = read_fields(paragraphs[-1])
  except BuildError:
    fields = {}
  else:
    paragraphs.pop()
  # Others, such as Signed-off-by, are for upstream.
  known = (*FIELDS, WHY_NOT_OVERLAY)
  fields = {name: fields[name] for name in known if name in fields}
  return Commit(
      commit,
      Content(subject, '\n\n'.join(paragraphs), fields,
              diff_of(branch.upstream, commit, *own)))
