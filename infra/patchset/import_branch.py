"""Brings a branch that `export` made back: what was changed on it since."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
import re
import tempfile
from typing import Any, Callable

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.apply import patched_files
from infra.patchset.export import BRANCH_PREFIX
from infra.patchset.export import check_checkout
from infra.patchset.export import files_subject
from infra.patchset.export import has_commit
from infra.patchset.export import record_of
from infra.patchset.manifest import FILE
from infra.patchset.manifest import FOLDER
from infra.patchset.manifest import load_manifest
from infra.patchset.manifest import Manifest
from infra.patchset.manifest import Series
from infra.patchset.manifest import with_patches
from infra.patchset.patch import blob_id
from infra.patchset.patch import FIELDS
from infra.patchset.patch import load_patch
from infra.patchset.patch import load_patches
from infra.patchset.patch import Patch
from infra.patchset.patch import read_fields
from infra.patchset.patch import slug
from infra.patchset.patch import write_patch
from infra.wheel import pins

Say = Callable[[str], None]

_TAG = f'refs/tags/{pins.OFFICIAL_TAG}'
_LOG = ('-c', 'log.showSignature=false', 'log')
_DIFF = ('diff-tree', '-p', '-U0', '--full-index', '--no-renames',
         '--no-commit-id', '--no-color', '--no-ext-diff', '--no-textconv')


def import_branch(root: Path,
                  upstream: Path,
                  branch: str,
                  name: str | None = None,
                  say: Say = print) -> None:
  """Makes patches of a series' commits on a branch, and fetches its new files.

  What was not changed on the branch since the export stays as it is here. What
  was changed in both places is refused. Nothing is written until all is known
  to be right.

  Args:
    root: the checkout of this project.
    upstream: the user's checkout of upstream.
    branch: the branch, on the official tag, or what `export` calls it after.
    name: the series to take, by default the one that `export` calls the branch
      after. It can be one that the branch's series depends on.
    say: is told what is changed.

  Raises:
    BuildError: the branch is not fit, or one of its commits is not.
  """
  manifest = load_manifest(root)
  check_checkout(upstream)
  if not has_commit(upstream, f'refs/heads/{branch}') and has_commit(
      upstream, f'refs/heads/{BRANCH_PREFIX}{branch}'):
    branch = f'{BRANCH_PREFIX}{branch}'
  series = manifest.find(name or _series_of(branch))
  record = record_of(branch, series.name)
  _check_branch(upstream, branch, record)
  loaded = {p.file.name: p for p in load_patches(root, series)}
  edited = _read_side(upstream, f'refs/heads/{branch}', manifest, series)
  export = _read_side(upstream, record, manifest, series)
  _check_base(root, upstream, branch, edited)

  here = {name: _content(patch) for name, patch in loaded.items()}
  _check_drafts(root, series, loaded, edited.contents(loaded))
  before, there = export.contents(loaded), edited.contents(loaded)
  patches = _merge(f'{FOLDER}/{series.name}/', {*before, *there}, before, there,
                   here)
  orders = [{
      FILE: order
  } for order in (export.order, edited.order, series.patches)]
  order = _merge('', [FILE], *orders).get(FILE, series.patches)
  changed = _changed_files(root, export, edited, manifest, series, say)
  files = _merge('', changed, export.files, edited.files,
                 {path: _blob_here(root / path) for path in changed})

  written = _judge(root, upstream, manifest, series, loaded, patches, order)
  if order != series.patches:
    text = (root / FILE).read_text(encoding='utf-8')
    written[FILE] = with_patches(text, series.name, order).encode()
  for path, blob in files.items():
    written[path] = blob and git.read(upstream, 'cat-file', 'blob', blob)
  for path, data in written.items():
    _write(root / path, data, path, say)
  for subject in edited.behind:
    say(f'not taken: the commit "{subject}", which stands behind those of a '
        f'later series; move it before them if it is of {series.name}')
  if not written:
    say(f'nothing of {series.name} was changed on {branch} since the export')
  # What comes next on the branch is compared with what is here now.
  git.need(upstream, 'update-ref', record, f'refs/heads/{branch}')


def _check_drafts(root: Path, series: Series, loaded: dict[str, Patch],
                  there: dict[str, Any]) -> None:
  """Refuses to write over a patch file that series.toml does not list."""
  for name in there:
    file = root / FOLDER / series.name / name
    if name not in loaded and file.exists():
      raise BuildError(f'{FOLDER}/{series.name}/{name} is there and not listed '
                       f'in {FILE}: list it, or take it away')


@dataclass(frozen=True)
class _Commit:
  """A commit that changes files of upstream: a patch to be.

  Attributes:
    id: for messages.
    fields: those that its message has; `export` writes just the bug.
    diff: as a patch file has it.
  """
  id: str
  subject: str
  body: str
  fields: dict[str, str]
  diff: str


@dataclass(frozen=True)
class _Content:
  """What a patch file says, apart from how its header is folded."""
  subject: str
  body: str
  fields: dict[str, str]
  diff: str


@dataclass(frozen=True)
class _Side:
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
  commits: dict[str, _Commit]
  files: dict[str, str]
  behind: tuple[str, ...]

  @property
  def order(self) -> tuple[str, ...]:
    return tuple(self.commits)

  def contents(self, loaded: Mapping[str, Patch]) -> dict[str, _Content]:
    """The patches; fields that a commit lacks are those of the patch here."""
    return {
        name:
            _Content(c.subject, c.body,
                     (loaded[name].fields if name in loaded else {}) | c.fields,
                     c.diff) for name, c in self.commits.items()
    }


def _content(patch: Patch) -> _Content:
  return _Content(patch.subject, patch.body, patch.fields, patch.diff)


def _series_of(branch: str) -> str:
  if not branch.startswith(BRANCH_PREFIX):
    raise BuildError(f'{branch} does not say which series it is of: name it '
                     'with --series')
  return branch.removeprefix(BRANCH_PREFIX)


def _check_branch(upstream: Path, branch: str, record: str) -> None:
  """Raises BuildError if a branch cannot be imported."""
  if not has_commit(upstream, f'refs/heads/{branch}'):
    raise BuildError(f'{upstream} has no branch {branch}')
  if not has_commit(upstream, record):
    raise BuildError(
        f'{upstream} does not know {branch} as it was exported ({record}): '
        'export the series, and bring your commits over to that branch')
  head = f'refs/heads/{branch}'
  base = git.run(upstream, 'merge-base', _TAG, head).stdout.strip()
  if base != git.need(upstream, 'rev-parse', f'{_TAG}^{{commit}}'):
    raise BuildError(
        f'{branch} does not start from {pins.OFFICIAL_TAG}. Rebase it: git '
        f'rebase --onto {pins.OFFICIAL_TAG} <the commit that it is on> {branch}'
    )
  merges = git.need(upstream, 'rev-list', '--merges', f'{_TAG}..{head}')
  if merges:
    raise BuildError(f'{branch} has the merge {merges.split()[0]}, and a merge '
                     'is no patch: rebase the branch')


def _read_side(upstream: Path, ref: str, manifest: Manifest,
               series: Series) -> _Side:
  """Reads the commits of `series` and the new files of a branch."""
  official = _files_of(upstream, _TAG)
  # `export` lays the series in the order of series.toml.
  at = manifest.series.index(series)
  earlier = {t: s for s in manifest.series[:at] for t in _titles(s)}
  later = {t for s in manifest.series[at + 1:] for t in _titles(s)}
  base = _TAG
  found: list[Series] = []
  commits: dict[str, _Commit] = {}
  log = git.need(upstream, *_LOG, '--reverse', '--format=%H %s',
                 f'{_TAG}..{ref}')
  is_later, behind = False, []
  for line in log.splitlines():
    commit, _, subject = line.partition(' ')
    title = slug(subject)
    is_later = is_later or title in later
    if is_later:
      if title not in later and _read_commit(upstream, commit, subject,
                                             official.keys()):
        behind.append(subject)
      continue
    if title in earlier:
      base = commit
      commits.clear()
      if earlier[title] not in found:
        found.append(earlier[title])
      continue
    made = _read_commit(upstream, commit, subject, official.keys())
    if not made:
      continue
    name = f'{title}.patch'
    if name in commits:
      raise BuildError(f'the commits {commits[name].id} and {made.id} have one '
                       f'subject, "{subject}", and a patch is called after it')
    commits[name] = made
  files = {
      path: blob
      for path, blob in _files_of(upstream, ref).items()
      if path not in official
  }
  return _Side(found, _files_of(upstream, base), commits, files, tuple(behind))


def _titles(series: Series) -> list[str]:
  """The subjects of a series' commits, as file names have them."""
  return [
      slug(files_subject(series.name)),
      *(patch.removesuffix('.patch') for patch in series.patches)
  ]


def _files_of(upstream: Path, ref: str) -> dict[str, str]:
  """The blob of each file of a commit."""
  rows = git.read(upstream, 'ls-tree', '-r', '-z', ref).decode().split('\0')
  return {
      path: head.split()[2]
      for head, _, path in (row.partition('\t') for row in rows if row)
  }


def _read_commit(upstream: Path, commit: str, subject: str,
                 official: Any) -> _Commit | None:
  """What a commit does to files of upstream; None if it touches none."""
  touched = git.read(upstream, 'diff-tree', '-r', '-z', '--name-only',
                     '--no-renames', '--no-commit-id', commit).decode()
  paths = [path for path in touched.split('\0') if path in official]
  if not paths:
    return None
  diff = git.read(upstream, *_DIFF, commit, '--', *paths).decode()
  # Behind the second @@ git quotes a line of upstream's.
  diff = re.sub(r'(?m)^(@@ .*? @@).*$', r'\1', diff)
  body = git.need(upstream, *_LOG, '-1', '--format=%b', commit)
  paragraphs = re.split(r'\n{2,}', body.strip('\n'))
  try:
    fields = read_fields(paragraphs[-1])
  except BuildError:
    fields = {}
  else:
    paragraphs.pop()
  short = git.need(upstream, 'rev-parse', '--short', commit)
  # Others, such as Signed-off-by, are for upstream.
  fields = {name: fields[name] for name in FIELDS if name in fields}
  return _Commit(short, subject, '\n\n'.join(paragraphs), fields, diff)


def _merge(folder: str, names: Iterable[str], before: Mapping[str, Any],
           there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
  """What was changed there and not here, None for what is gone there.

  Raises:
    BuildError: something was changed in both places, and not alike.
  """
  changes = {}
  for name in sorted(names):
    old, new, ours = (side.get(name) for side in (before, there, here))
    if new in (old, ours):
      continue
    if ours != old:
      raise BuildError(
          f'{folder}{name} was changed here as well as on the branch since the '
          'export. Put it back as it was exported, import the branch, and make '
          'the change again')
    changes[name] = new
  return changes


def _blob_here(path: Path) -> str | None:
  return blob_id(path.read_bytes()) if path.is_file() else None


def _changed_files(root: Path, export: _Side, edited: _Side, manifest: Manifest,
                   series: Series, say: Say) -> list[str]:
  """The new files of a series, and test tools, that a branch changes.

  Raises:
    BuildError: one belongs to nobody.
  """
  own = []
  for path in sorted({*export.files, *edited.files}):
    if edited.files.get(path) in (export.files.get(path),
                                  _blob_here(root / path)):
      continue
    if path.startswith('torch_xla/'):
      owners = manifest.owners_of_overlay(path)
    else:
      owners = manifest.owners_of_test(path)
    if owners in ([series.name], ['test_base']):
      own.append(path)
    elif owners:
      say(f'not taken: {path}, which belongs to {" and ".join(owners)}')
    else:
      raise BuildError(f'{path} on the branch belongs to no series: list it as '
                       f'overlay or tests of one in {FILE}')
  return own


def _check_base(root: Path, upstream: Path, branch: str, edited: _Side) -> None:
  """Raises BuildError unless the earlier series on a branch are as here."""
  expected = _files_of(upstream, _TAG)
  official = expected.keys()
  for other in edited.earlier:
    for patch in load_patches(root, other):
      expected |= {change.path: change.new for change in patch.changes}
  if any(edited.base.get(path) != expected[path] for path in official):
    names = ', '.join(other.name for other in edited.earlier)
    raise BuildError(
        f'{branch} changes other files before the first commit of the series, '
        f'or {names or "what it builds on"} otherwise than the patches here. '
        'Import those series first, with --series')


def _judge(root: Path, upstream: Path, manifest: Manifest, series: Series,
           loaded: Mapping[str, Patch], changed: Mapping[str, _Content | None],
           order: tuple[str, ...]) -> dict[str, bytes | None]:
  """The changed patch files, None for one that goes, if they are in order.

  Raises:
    BuildError: a patch lacks something, or does not apply.
  """
  written: dict[str, bytes | None] = {}
  after = dict(loaded)
  with tempfile.TemporaryDirectory() as folder:
    for name, content in changed.items():
      path = f'{FOLDER}/{series.name}/{name}'
      if content is None:
        written[path] = None
        after.pop(name, None)
        continue
      missing = [field for field in FIELDS if field not in content.fields]
      if missing:
        raise BuildError(
            f'the commit "{content.subject}" is no patch yet. Its message '
            f'lacks {", ".join(missing)}: write a line "Name: value" for each '
            'into its last paragraph')
      text = write_patch(content.subject, content.body, content.fields,
                         content.diff)
      file = Path(folder) / name
      file.write_bytes(text.encode())
      after[name] = load_patch(file, series.name)
      written[path] = text.encode()
    chain = [
        patch for other in manifest.with_dependencies(series.name)[:-1]
        for patch in load_patches(root, other)
    ]
    chain += [after[name] for name in order if name in after]
    official = _files_of(upstream, _TAG)
    patched_files(
        lambda path: git.read(upstream, 'cat-file', 'blob', official[path])
        if path in official else None, chain)
  return written


def _write(path: Path, data: bytes | None, name: str, say: Say) -> None:
  """Gives a file this content, or takes it away."""
  if data is None:
    path.unlink()
    say(f'removed {name}')
  elif not path.exists():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    say(f'added {name}')
  elif path.read_bytes() != data:
    path.write_bytes(data)
    say(f'changed {name}')
