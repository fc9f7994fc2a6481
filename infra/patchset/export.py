"""Lays a series on the user's own checkout of upstream, as commits."""

from dataclasses import dataclass
from pathlib import Path
import shutil

from infra.errors import BuildError, Say
from infra.patchset import files, git
from infra.patchset.lay import (base_of, check_sources, commit, commit_patch,
                                CONFIG, has_commit, pick, work_tree)
from infra.patchset.manifest import Base, load_manifest, Manifest, Series, WHEEL
from infra.patchset.meaning import broken
from infra.patchset.patch import load_patches
from infra.patchset.port import Ground, port, resolve

BRANCH_PREFIX = 'fork/'
_BASE_MESSAGE = """\
test: add the new files that tests share

Tests whose process needs settings of its own run in a child that is forked
from a server, which has imported torch_xla with these settings.
"""


@dataclass(frozen=True)
class Exported:
  """A branch that was made.

  Attributes:
    start: the commit behind which the branch's own commits stand.
    form: of the patches.
    picked: commits of upstream's that come first on it.
  """
  branch: str
  start: str
  form: str
  picked: tuple[str, ...]

  def following(self, upstream: Path) -> str:
    """The command that comes next."""
    return (f'git -C {upstream} format-patch -o OUTPUT_FOLDER '
            f'{self.start}..{self.branch}')


def export(root: Path,
           upstream: Path,
           name: str,
           form: str,
           onto: str | None = None,
           branch: str | None = None,
           say: Say = print) -> Exported:
  """Makes a branch of a series, from the base of one of its forms.

  Args:
    root: the checkout of this project.
    upstream: the user's checkout of upstream. Its work tree is not touched.
    name: the series. What it depends on comes first.
    form: a base, or any commit of the checkout; or the wheel's form, with which
      come new files and tests.
    onto: a commit of the checkout to rebase the branch onto.
    branch: the branch's name, by default fork/<series>.
    say: is told about progress.

  Raises:
    BuildError: the checkout is not fit, the branch exists, a patch does not
      apply, the rebase conflicts, or its result is wrong although it does not.
      In the last two cases the branch stays on its base.
  """
  manifest = load_manifest(root)
  if form != WHEEL and form not in {base.name for base in manifest.bases}:
    if onto:
      raise BuildError(f'{form} is no base, and only a branch on a base is '
                       'rebased by --onto: name the commit by --base alone')
    return _export_elsewhere(root, upstream, manifest, name, form, branch, say)
  chosen = manifest.with_dependencies(name)
  patches = {s.name: load_patches(root, s, form) for s in chosen}
  base = base_of(manifest, form)
  branch = branch or f'{BRANCH_PREFIX}{name}'
  check_sources(upstream, base)
  _check_checkout(upstream, branch, onto)
  tools = files.test_base(root, manifest) if form == WHEEL else []
  with work_tree(upstream, base.commit) as tree:
    pick(tree, base)
    start = git.need(tree, 'rev-parse', 'HEAD')
    for series in chosen:
      for patch in patches[series.name]:
        commit_patch(tree, patch)
        say(f'{series.name}: {patch.subject}')
      if form == WHEEL:
        tools = _commit_new_files(root, tree, manifest, series, tools, say)
    if not _count_commits(tree, start):
      raise BuildError(f'series {name} has no patches and no files yet')
    git.need(tree, *CONFIG, 'switch', '--quiet', '--create', branch)
    _record(tree, branch, form, start, chosen)
    if onto:
      _rebase(tree, branch, base, start, onto)
    end = onto or (base.name if form == WHEEL else base.commit)
    say(f'branch {branch} on {onto or base.name}, commits: '
        f'{_count_commits(tree, end)}')
  return Exported(branch, end, form, base.cherry_pick)


def _export_elsewhere(root: Path, upstream: Path, manifest: Manifest, name: str,
                      ref: str, branch: str | None, say: Say) -> Exported:
  """Makes a branch of a series on a commit that is no base."""
  branch = branch or f'{BRANCH_PREFIX}{name}'
  target = resolve(upstream, manifest, ref)
  _check_checkout(upstream, branch, None)
  with work_tree(upstream, target) as tree:
    made = port(Ground(root, manifest, tree, target), manifest.find(name), say)
    say(made.summary())
    if made.meetings:
      for meeting in made.meetings:
        for line in meeting.report():
          say(line)
      raise BuildError(
          f'{name} on {ref}: {len(made.meetings)} hunks meet changes of the '
          f'tree, as told above. To solve them by hand, make the branch on '
          f'{made.form} by --base {made.form} --branch NAME, and then git rebase '
          f'--onto {ref} {manifest.find_base(made.form).commit[:12]} NAME')
    wrong = broken(tree, target)
    if wrong:
      found = '\n  '.join(wrong)
      raise BuildError(f'{name} on {ref} meets no change of the tree, and the '
                       f'result is wrong all the same:\n  {found}')
    git.need(tree, *CONFIG, 'switch', '--quiet', '--create', branch)
    say(f'branch {branch} on {ref}, commits: {_count_commits(tree, target)}')
  return Exported(branch, target, made.form, made.picked)


def newest_base(series: Series) -> str:
  """The newest base that a series has patches for; BuildError if none."""
  if not series.upstream:
    raise BuildError(
        f'series {series.name} has no patches for people with the source. '
        'What the wheel gets of it comes with `export --wheel`')
  return [*series.upstream][-1]


def files_subject(series: str) -> str:
  """The subject of the commit that holds a series' new files."""
  return f'{series}: add the new files and tests'


def record_of(branch: str, series: str) -> str:
  """The ref that keeps a branch as it was when a series was last the same.

  It was so when `export` made the branch, on its base, and after each `import`
  of the series.
  """
  return f'refs/exported/{branch}/series/{series}'


def base_record_of(branch: str, form: str = '') -> str:
  """The ref that keeps where a branch of a form begins, or all such refs."""
  return f'refs/exported/{branch}/base/{form}'


def _record(tree: Path, branch: str, form: str, start: str,
            chosen: tuple[Series, ...]) -> None:
  """Keeps what was exported; by this `import` knows what was changed."""
  old = git.need(tree, 'for-each-ref', '--format=%(refname)',
                 f'refs/exported/{branch}/')
  for ref in old.split():
    git.need(tree, 'update-ref', '-d', ref)
  git.need(tree, 'update-ref', base_record_of(branch, form), start)
  for series in chosen:
    git.need(tree, 'update-ref', record_of(branch, series.name), 'HEAD')


def _check_checkout(upstream: Path, branch: str, onto: str | None) -> None:
  """Raises BuildError if the user's checkout is not fit for an export."""
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


def _count_commits(tree: Path, base: str) -> int:
  """How many commits the work tree's head is ahead of `base`."""
  return int(git.need(tree, 'rev-list', '--count', f'{base}..HEAD'))


def _commit_new_files(root: Path, tree: Path, manifest: Manifest,
                      series: Series, tools: list[str], say: Say) -> list[str]:
  """Commits the new files and tests of a series.

  Returns:
    Which of the test tools have not come yet: they come before the first tests.
  """
  tests = files.tests_of(root, manifest, series.name)
  if tests and tools:
    _commit_files(root, tree, tools, _BASE_MESSAGE)
    say(f'test: {len(tools)} new files')
    tools = []
  new = files.overlay_of(root, manifest, series.name) + tests
  if new:
    _commit_files(
        root, tree, new, f'{files_subject(series.name)}\n\n'
        f'{series.description}\n\nBug: {series.bug}\n')
    say(f'{series.name}: {len(new)} new files')
  return tools


def _commit_files(root: Path, tree: Path, names: list[str],
                  message: str) -> None:
  """Commits files of ours in the work tree."""
  for name in names:
    target = tree / name
    if target.exists():
      raise BuildError(f'{name} would overwrite a file of upstream')
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / name, target)
  # Forced: upstream's .gitignore must not hold a file back.
  git.need(tree, *CONFIG, 'add', '--force', '--', *names)
  commit(tree, message)


def _rebase(tree: Path, branch: str, base: Base, start: str, onto: str) -> None:
  """Rebases the work tree's branch; undoes it if that is not right."""
  advice = (f'The branch {branch} stays as it is on {base.name}: rebase it by '
            'hand.')
  tip = git.need(tree, 'rev-parse', 'HEAD')
  # What a base has picked comes along, unless it is there already.
  there = all(
      git.run(tree, 'merge-base', '--is-ancestor', picked, onto).returncode == 0
      for picked in base.cherry_pick)
  process = git.run(tree, *CONFIG, 'rebase', '--quiet', '--onto', onto,
                    start if there else base.commit, branch)
  if process.returncode:
    names = git.run(tree, 'diff', '--name-only', '--diff-filter=U').stdout
    subject = git.run(tree, 'log', '-1', '--format=%s', 'REBASE_HEAD').stdout
    git.run(tree, 'rebase', '--abort')
    if not names:
      raise BuildError(f'git could not rebase onto {onto}: '
                       f'{process.stderr.strip()}\n{advice}')
    raise BuildError(f'"{subject.strip()}" conflicts with {onto} in '
                     f'{", ".join(names.split())}. {advice}')
  wrong = broken(tree, onto)
  if wrong:
    git.need(tree, *CONFIG, 'reset', '--quiet', '--hard', tip)
    found = '\n  '.join(wrong)
    raise BuildError(f'the rebase onto {onto} has no conflict, and its result '
                     f'is wrong all the same:\n  {found}\n{advice}')
