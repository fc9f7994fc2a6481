"""Finds where a commit meets what a tree that went its own way has changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import difflib
from pathlib import Path

from infra.errors import BuildError
from infra.patchset import git
from infra.patchset.lay import CONFIG

_DIFF3 = ('-c', 'merge.conflictStyle=diff3')
_ABBREVIATED = 10
_SHOWN_LINES = 12
# The stage of the index that has what the tree had.
_OURS = '2'


@dataclass(frozen=True)
class Meeting:
  """A place of a tree where a commit cannot be laid.

  Attributes:
    subject: of the commit.
    line: of the tree's file, 1 for the first; 0 if there is no such file.
    theirs: the lines that the tree has there, each with the abbreviated id of
      the commit that wrote it, or an empty text where upstream's history has it.
    changed_by: commits of the tree that changed or removed lines there, as id
      and subject.
    lacks: commits of upstream, behind lines that the commit expects, that are
      not in the tree, as id and subject.
    follows: subjects of commits laid before it, behind lines that it expects,
      that are not there since these commits meet something themselves.
  """
  subject: str
  path: str
  line: int
  theirs: tuple[tuple[str, str], ...]
  changed_by: tuple[str, ...]
  lacks: tuple[str, ...] = ()
  follows: tuple[str, ...] = ()

  def report(self) -> list[str]:
    """What is to be told of it, in lines."""
    if not self.line:
      lines = [f'{self.path}: "{self.subject}" finds no such file']
    else:
      where = f'{self.path}:{self.line}'
      lines = [
          f'{where}: "{self.subject}" meets' if self.theirs else
          f'{where}: "{self.subject}" finds nothing behind this line'
      ]
    shown = self.theirs[:_SHOWN_LINES]
    lines += [
        f'  {self.line + at:5} {commit:{_ABBREVIATED}} | {text}'.rstrip()
        for at, (commit, text) in enumerate(shown)
    ]
    if len(shown) < len(self.theirs):
      lines.append(f'  and {len(self.theirs) - len(shown)} lines more')
    lines += [f'  changed by {commit}' for commit in self.changed_by]
    lines += [
        f'  expects {commit}, which is not there' for commit in self.lacks
    ]
    lines += [f'  expects "{subject}" before it' for subject in self.follows]
    return lines


@dataclass(frozen=True)
class _Conflict:
  """A region of a file that git could not merge.

  Attributes:
    at: where it begins in the file with the tree's side taken, from 0.
    base_at: where it begins in the file with the commit's old side taken.
  """
  at: int
  theirs: tuple[str, ...]
  base_at: int
  base: tuple[str, ...]


@dataclass(frozen=True)
class _Merged:
  """A file that git could not merge.

  Attributes:
    theirs: its lines, with the tree's side of each conflict.
    base: the same with the side from which the commit comes.
  """
  theirs: tuple[str, ...]
  base: tuple[str, ...]
  conflicts: tuple[_Conflict, ...]


@dataclass(frozen=True)
class Carrier:
  """Carries commits to a tree and tells where they meet its changes.

  Attributes:
    tree: a work tree at `target`, or at it with commits laid on it.
    target: the commit that the tree was at first.
    origin: a commit of upstream's in the history of all that is carried.
    start: the commit of upstream's that the carried ones were laid behind.
  """
  tree: Path
  target: str
  origin: str
  start: str

  def carry(self, commit: str, *options: str) -> list[Meeting] | None:
    """Picks a commit; where it meets something, the tree's side stays.

    Args:
      commit: to be picked.
      *options: of git's cherry-pick.

    Returns:
      Where it meets something; None if the tree has all of it already.

    Raises:
      BuildError: git fails for another reason.
    """
    done = git.run(self.tree, *CONFIG, *_DIFF3, 'cherry-pick', *options, commit)
    if not done.returncode:
      return []
    stages_by_path = _unmerged(self.tree)
    if not stages_by_path:
      if git.run(self.tree, 'diff', '--quiet', 'HEAD').returncode:
        raise BuildError(f'git cherry-pick failed: {done.stderr.strip()}')
      git.need(self.tree, *CONFIG, 'cherry-pick', '--skip')
      return None
    meetings = []
    for path, stages in stages_by_path.items():
      if _OURS not in stages:
        meetings.append(self._gone(commit, path))
        git.need(self.tree, 'rm', '--quiet', '--force', '--', path)
        continue
      file = self.tree / path
      merged = _read_merged(_lines(file.read_text(encoding='utf-8')))
      meetings += self._in_file(commit, path, merged)
      file.write_text('\n'.join(merged.theirs), encoding='utf-8')
      git.need(self.tree, 'add', '--', path)
    git.need(self.tree, *CONFIG, 'commit', '--quiet', '--allow-empty',
             '--no-verify', '--reuse-message', commit)
    git.run(self.tree, *CONFIG, 'cherry-pick', '--quit')
    return meetings

  def has(self, commit: str) -> bool:
    """Whether a commit, or one that says it was picked of it, is there."""
    return _is_in(self.tree, commit, self.target) or bool(
        git.need(self.tree, 'log', '-1', '--format=%H', '--fixed-strings',
                 f'--grep=(cherry picked from commit {commit})',
                 f'{self.origin}..{self.target}'))

  def _gone(self, commit: str, path: str) -> Meeting:
    """The meeting with a file that is not there."""
    by = git.need(self.tree, 'log', '-1', '--diff-filter=D', '--format=%H',
                  self.target, '--', path)
    return Meeting(self._subject(commit), path, 0, (), self._named(by.split()))

  def _in_file(self, commit: str, path: str, merged: _Merged) -> list[Meeting]:
    """The meetings in one file."""
    now = self._text(self.target, path)
    places_now = _places(merged.theirs, now)
    places_before = _places(merged.base, self._text(f'{commit}^', path))
    wrote_now = self._wrote(self.target, path)
    wrote_before = self._wrote(f'{commit}^', path)
    laid = git.need(self.tree, 'rev-list', f'{self.start}..{commit}^').split()
    meetings = []
    for conflict in merged.conflicts:
      theirs = _span(places_now, conflict.at, conflict.theirs)
      changed = _distinct(wrote_now[at] for at in theirs) or self._removed(
          path, [l for l in conflict.base if l not in conflict.theirs])
      expected = _distinct(
          wrote_before[at]
          for at in _span(places_before, conflict.base_at, conflict.base))
      # A region without lines stands behind one.
      behind = max((a for a in places_now if a < conflict.at), default=0)
      first = theirs[0] if theirs else places_now.get(behind, 0)
      meetings.append(
          Meeting(
              self._subject(commit), path, first + 1,
              tuple((wrote_now[at][:_ABBREVIATED], now[at]) for at in theirs),
              self._named(changed),
              self._named(
                  c for c in expected if c not in laid and not self.has(c)),
              tuple(self._subject(c) for c in expected if c in laid)))
    return meetings

  def _text(self, commit: str, path: str) -> list[str]:
    return _lines(git.run(self.tree, 'show', f'{commit}:{path}').stdout)

  def _wrote(self, commit: str, path: str) -> list[str]:
    """By line, the commit that wrote it; empty for what `origin` has."""
    # Of an empty range git would take the files of the work tree.
    if _is_in(self.tree, commit, self.origin):
      return [''] * len(self._text(commit, path))
    blame = git.run(self.tree, 'blame', '-l', '-s', f'{self.origin}..{commit}',
                    '--', path).stdout
    return [
        '' if line.startswith('^') else line.partition(' ')[0]
        for line in _lines(blame)
    ]

  def _removed(self, path: str, lines: Sequence[str]) -> list[str]:
    """Commits of the tree that took away, or added, one of some lines."""
    return _distinct(
        git.need(self.tree, 'log', '-1', '--format=%H', f'-S{line}',
                 f'{self.origin}..{self.target}', '--', path)
        for line in lines
        if line.strip())

  def _subject(self, commit: str) -> str:
    return git.need(self.tree, 'log', '-1', '--format=%s', commit)

  def _named(self, commits: Iterable[str]) -> tuple[str, ...]:
    """Commits as one reads them."""
    return tuple(f'{commit[:_ABBREVIATED]} {self._subject(commit)}'
                 for commit in commits)


def _is_in(tree: Path, commit: str, history: str) -> bool:
  """Whether a commit is another one, or in its history."""
  return git.run(tree, 'merge-base', '--is-ancestor', commit,
                 history).returncode == 0


def _unmerged(tree: Path) -> dict[str, set[str]]:
  """The stages that the index has of each file that git could not merge."""
  stages: dict[str, set[str]] = {}
  for row in git.read(tree, 'ls-files', '-u', '-z').decode().split('\0'):
    if row:
      head, _, path = row.partition('\t')
      stages.setdefault(path, set()).add(head.split()[2])
  return stages


def _read_merged(lines: Sequence[str]) -> _Merged:
  """Reads a file with git's markers of conflicts, in the style diff3."""
  theirs: list[str] = []
  base: list[str] = []
  conflicts: list[_Conflict] = []
  at = base_at = 0
  side = ''
  for line in lines:
    if not side and line.startswith('<<<<<<< '):
      side, at, base_at = 'theirs', len(theirs), len(base)
    elif side == 'theirs' and line.startswith('||||||| '):
      side = 'base'
    elif side == 'base' and line == '=======':
      side = 'ours'
    elif side == 'ours' and line.startswith('>>>>>>> '):
      side = ''
      conflicts.append(
          _Conflict(at, tuple(theirs[at:]), base_at, tuple(base[base_at:])))
    else:
      if side in ('', 'theirs'):
        theirs.append(line)
      if side in ('', 'base'):
        base.append(line)
  return _Merged(tuple(theirs), tuple(base), tuple(conflicts))


def _places(merged: Sequence[str], original: Sequence[str]) -> dict[int, int]:
  """Where lines of a merged file stand in one of those it was merged of."""
  blocks = difflib.SequenceMatcher(None, merged, original).get_matching_blocks()
  return {
      block.a + at: block.b + at for block in blocks for at in range(block.size)
  }


def _span(places: dict[int, int], first: int,
          lines: Sequence[str]) -> list[int]:
  """The places of some lines that have one."""
  return [places[at] for at in range(first, first + len(lines)) if at in places]


def _distinct(commits: Iterable[str]) -> list[str]:
  """Each commit once, without what is empty."""
  return [commit for commit in dict.fromkeys(commits) if commit]


def _lines(text: str) -> list[str]:
  """The lines of a text as git counts them, and what is behind the last."""
  return text.split('\n')
