"""Lays a series on the user's own checkout of upstream, as commits."""

from contextlib import contextmanager
from pathlib import Path
import shutil
import tempfile
from typing import Callable, Iterator

from infra.errors import BuildError
from infra.patchset import files
from infra.patchset import git
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import load_patches
from infra.patchset.patch import Patch
from infra.wheel import pins

Say = Callable[[str], None]

BRANCH_PREFIX = 'fork/'
_BASE_MESSAGE = """\
test: add the new files that tests share

Tests whose process needs settings of its own run in a child that is forked
from a server, which has imported torch_xla with these settings.
"""

# The user's hooks are for the user's work, and these settings would move
# branches that are not ours or apply what was recorded elsewhere.
_CONFIG = ('-c', 'core.hooksPath=/dev/null', '-c', 'rebase.updateRefs=false',
           '-c', 'rebase.autoSquash=false', '-c', 'rebase.autoStash=false',
           '-c', 'rerere.enabled=false', '-c', 'core.autocrlf=false')


def export(root: Path,
           upstream: Path,
           name: str,
           onto: str | None = None,
           branch: str | None = None,
           say: Say = print) -> str:
  """Makes a branch of a series, from the official tag, in a checkout.

  Args:
    root: the checkout of this project.
    upstream: the user's checkout of upstream. Its work tree is not touched.
    name: the series. What it depends on comes first.
    onto: a commit of the checkout to rebase the branch onto.
    branch: the branch's name, by default fork/<series>.
    say: is told about progress.

  Returns:
    The `git format-patch` command that comes next.

  Raises:
    BuildError: the checkout is not fit, the branch exists, a patch does not
      apply, or the rebase conflicts; then the branch stays on the tag.
  """
  manifest = load_manifest(root)
  chosen = manifest.with_dependencies(name)
  branch = branch or f'{BRANCH_PREFIX}{name}'
  _check_checkout(upstream, branch, onto)
  base = files.test_base(root, manifest)
  with _work_tree(upstream) as tree:
    for series in chosen:
      for patch in load_patches(root, series):
        _commit_patch(tree, patch)
        say(f'{series.name}: {patch.subject}')
      tests = files.tests_of(root, manifest, series.name)
      if tests and base:
        _commit_files(root, tree, base, _BASE_MESSAGE)
        say(f'test: {len(base)} new files')
        base = []  # Once is enough.
      new = files.overlay_of(root, manifest, series.name) + tests
      if new:
        _commit_files(
            root, tree, new, f'{files_subject(series.name)}\n\n'
            f'{series.description}\n\nBug: {series.bug}\n')
        say(f'{series.name}: {len(new)} new files')
    if not _count_commits(tree, pins.OFFICIAL_TAG):
      raise BuildError(f'series {name} has no patches and no files yet')
    git.need(tree, *_CONFIG, 'switch', '--quiet', '--create', branch)
    # By this `import` knows what was changed on the branch.
    for series in chosen:
      git.need(tree, 'update-ref', record_of(branch, series.name), 'HEAD')
    if onto:
      _rebase(tree, branch, onto)
    start = onto or pins.OFFICIAL_TAG
    say(f'branch {branch} on {start}, commits: {_count_commits(tree, start)}')
  return f'git -C {upstream} format-patch -o OUTPUT_FOLDER {start}..{branch}'


def files_subject(series: str) -> str:
  """The subject of the commit that holds a series' new files."""
  return f'{series}: add the new files and tests'


def record_of(branch: str, series: str) -> str:
  """The ref that keeps a branch as it was when a series was last the same.

  It was so when `export` made the branch, on the official tag, and after each
  `import` of the series.
  """
  return f'refs/exported/{branch}/{series}'


def check_checkout(upstream: Path) -> None:
  """Raises BuildError where there is no checkout with the official tag."""
  if not upstream.is_dir() or git.run(upstream, 'rev-parse').returncode:
    raise BuildError(f'{upstream} is no git checkout')
  if not has_commit(upstream, f'refs/tags/{pins.OFFICIAL_TAG}'):
    raise BuildError(f'{upstream} has no tag {pins.OFFICIAL_TAG}. Fetch it: '
                     f'git -C {upstream} fetch --tags <upstream>')


def has_commit(folder: Path, ref: str) -> bool:
  """Whether a ref names a commit."""
  return git.run(folder, 'rev-parse', '--verify', '--quiet', '--end-of-options',
                 f'{ref}^{{commit}}').returncode == 0


def _check_checkout(upstream: Path, branch: str, onto: str | None) -> None:
  """Raises BuildError if the user's checkout is not fit for an export."""
  check_checkout(upstream)
  bare = git.need(upstream, 'rev-parse', '--is-bare-repository') == 'true'
  if not bare and git.need(upstream, 'status', '--porcelain',
                           '--untracked-files=no'):
    raise BuildError(f'{upstream} has uncommitted changes. Commit or stash '
                     'them first.')
  if git.run(upstream, 'check-ref-format', '--branch', branch).returncode:
    raise BuildError(f'{branch} is no name for a branch')
  if has_commit(upstream, f'refs/heads/{branch}'):
    raise BuildError(f'{upstream} has a branch {branch} already. Delete it '
                     f'(git branch -D {branch}) or choose another name with '
                     '--branch.')
  if onto and not has_commit(upstream, onto):
    raise BuildError(f'{upstream} has no commit {onto}')


@contextmanager
def _work_tree(upstream: Path) -> Iterator[Path]:
  """A work tree of the checkout at the official tag, gone afterwards."""
  with tempfile.TemporaryDirectory(prefix='export-') as name:
    tree = Path(name).resolve() / 'tree'
    git.need(upstream, *_CONFIG, 'worktree', 'add', '--quiet', '--detach',
             str(tree), f'refs/tags/{pins.OFFICIAL_TAG}')
    try:
      yield tree
    finally:
      git.run(upstream, 'worktree', 'remove', '--force', str(tree))


def _count_commits(tree: Path, base: str) -> int:
  """How many commits the work tree's head is ahead of `base`."""
  return int(git.need(tree, 'rev-list', '--count', f'{base}..HEAD'))


def _commit_patch(tree: Path, patch: Patch) -> None:
  """Commits a patch in the work tree."""
  for change in patch.changes:
    _check_blob(tree, patch, change.path, change.old, 'applies to')
  git.need(tree, *_CONFIG, 'apply', '--unidiff-zero', '--whitespace=nowarn',
           '--index', str(patch.file.resolve()))
  for change in patch.changes:
    _check_blob(tree, patch, change.path, change.new, 'should make')
  bug = patch.fields['Bug']
  _commit(tree, f'{patch.subject}\n\n{patch.body}\n\nBug: {bug}\n')


def _check_blob(tree: Path, patch: Patch, path: str, expected: str,
                verb: str) -> None:
  """Raises BuildError if a staged file is not the expected blob."""
  done = git.run(tree, 'rev-parse', '--verify', '--quiet', f':{path}')
  actual = done.stdout.strip() or 'none'
  if actual != expected:
    raise BuildError(f'patch {patch.name} {verb} blob {expected} of {path}, '
                     f'and the checkout has {actual}')


def _commit_files(root: Path, tree: Path, names: list[str],
                  message: str) -> None:
  """Commits files of ours in the work tree."""
  for name in names:
    target = tree / name
    if target.exists():
      raise BuildError(f'{name} would overwrite a file of upstream at '
                       f'{pins.OFFICIAL_TAG}')
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / name, target)
  # Forced: upstream's .gitignore must not hold a file back.
  git.need(tree, *_CONFIG, 'add', '--force', '--', *names)
  _commit(tree, message)


def _commit(tree: Path, message: str) -> None:
  """Commits what is staged, as the user."""
  with tempfile.NamedTemporaryFile('w', encoding='utf-8') as file:
    file.write(message)
    file.flush()
    git.need(tree, *_CONFIG, 'commit', '--quiet', '-F', file.name)


def _rebase(tree: Path, branch: str, onto: str) -> None:
  """Rebases the work tree's branch; undoes it on a conflict."""
  done = git.run(tree, *_CONFIG, 'rebase', '--quiet', '--onto', onto,
                 pins.OFFICIAL_TAG, branch)
  if not done.returncode:
    return
  files = git.run(tree, 'diff', '--name-only', '--diff-filter=U').stdout.split()
  commit = git.run(tree, 'log', '-1', '--format=%s', 'REBASE_HEAD').stdout
  git.run(tree, 'rebase', '--abort')
  left = (f'The branch {branch} stays as it is on {pins.OFFICIAL_TAG}: rebase '
          'it by hand.')
  if not files:
    raise BuildError(f'git could not rebase onto {onto}: {done.stderr.strip()}'
                     f'\n{left}')
  raise BuildError(f'"{commit.strip()}" conflicts with {onto} in '
                   f'{", ".join(files)}. {left}')
