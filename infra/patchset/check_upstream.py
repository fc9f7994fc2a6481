"""Lays every series on each of its bases, and looks at what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.collect import collect
from infra.patchset.lay import check_sources, commit_patch, go_to, pick
from infra.patchset.manifest import Base, load_manifest, Manifest, Series
from infra.patchset.meaning import touched, twice, uncompiled
from infra.patchset.meeting import Meeting
from infra.patchset.patch import load_patches
from infra.patchset.port import Ground, port, resolve
from infra.patchset.pull_request import read_cover
from infra.patchset.style import misformatted

_COLUMNS = ('series', 'base', 'applies', 'names', 'compiles', 'format', 'tests')


@dataclass(frozen=True)
class Row:
  """What became of a series on a base.

  Attributes:
    cells: one for each column behind series and base.
    problems: as texts.
  """
  series: str
  base: str
  cells: tuple[str, ...]
  problems: tuple[str, ...]


def check_upstream(root: Path,
                   upstream: Path,
                   only: str | None = None,
                   say: Say = print,
                   elsewhere: str | None = None) -> list[str]:
  """Checks the series for people with the source.

  Args:
    root: the checkout of this project. A clone in its build/upstream is used.
    upstream: a checkout or bare clone of upstream; only read.
    only: just this series.
    say: is told about progress, and a table at the end.
    elsewhere: a base, or any commit of `upstream`, to lay them on instead of on
      all bases.

  Returns:
    The problems, as texts.

  Raises:
    BuildError: a commit of a base is not there, or a patch cannot be read.
  """
  manifest = load_manifest(root)
  chosen = [manifest.find(only)] if only else manifest.series
  known = elsewhere in {base.name for base in manifest.bases}
  bases = [
      b for b in manifest.bases if any(b.name in s.upstream for s in chosen) and
      (not known or b.name == elsewhere)
  ]
  if not bases:
    names = ', '.join(series.name for series in chosen)
    raise BuildError(f'no patches for people with the source: {names}')
  if elsewhere and not known:
    rows = _ported(root, upstream, manifest, chosen, elsewhere, say)
  else:
    rows = _laid(root, upstream, manifest, chosen, bases, say)
  rows.sort(key=lambda row: [s.name for s in chosen].index(row.series))
  for line in _table(rows):
    say(line)
  problems = [
      f'{row.series} on {row.base}: {problem}' for row in rows
      for problem in row.problems
  ]
  for name in dict.fromkeys(row.series for row in rows):
    try:
      read_cover(root, name)
    except BuildError as error:
      problems.append(f'{name}: {error}')
  return problems


def _laid(root: Path, upstream: Path, manifest: Manifest,
          chosen: Sequence[Series], bases: Sequence[Base],
          say: Say) -> list[Row]:
  """Lays series on bases."""
  for base in bases:
    check_sources(upstream, base)
  tree = _clone(root, upstream)
  rows = []
  for base in bases:
    start = _base(tree, base)
    for series in chosen:
      if base.name in series.upstream:
        say(f'==> {series.name} on {base.name}')
        rows.append(_row(root, tree, manifest, series, base, start, say))
  return rows


def _ported(root: Path, upstream: Path, manifest: Manifest,
            chosen: Sequence[Series], ref: str, say: Say) -> list[Row]:
  """Lays series on a commit that is no base."""
  target = resolve(upstream, manifest, ref)
  ground = Ground(root, manifest, _clone(root, upstream), target)
  rows = []
  told: set[Meeting] = set()
  for series in chosen:
    if not series.upstream:
      continue
    say(f'==> {series.name} on {ref}, {target[:10]}')
    made = port(ground, series, say)
    say(f'  {made.summary()}')
    if not made.meetings:
      picked = f', {len(made.picked)} picked' if made.picked else ''
      applies = f'{made.count} patches{picked}'
      rows.append(_judged(ground.tree, series, ref, made.before, applies, say))
      continue
    # What a series depends on meets the same each time.
    for meeting in made.meetings:
      if meeting not in told:
        told.add(meeting)
        for line in meeting.report():
          say(f'    {line}')
    count = len(made.meetings)
    rows.append(
        Row(series.name, ref, (f'NO, {count} hunks', *'----'),
            (f'does not apply: {count} hunks meet changes of the tree, as told '
             'above',)))
  return rows


def _clone(root: Path, upstream: Path) -> Path:
  """A clone that shares the objects of another one, and nothing else."""
  tree = root / 'build' / 'upstream'
  if not (tree / '.git').is_dir():
    tree.mkdir(parents=True, exist_ok=True)
    git.need(tree, 'init', '--quiet')
    git.need(tree, 'config', 'user.name', 'series.py')
    git.need(tree, 'config', 'user.email', 'series.py@localhost')
    git.need(tree, 'config', 'commit.gpgSign', 'false')
  objects = git.need(upstream, 'rev-parse', '--git-path', 'objects')
  alternates = tree / '.git' / 'objects' / 'info' / 'alternates'
  alternates.write_text(f'{(upstream / objects).resolve()}\n', encoding='utf-8')
  return tree


def _base(tree: Path, base: Base) -> str:
  """The commit of a base with what is picked on top of it."""
  go_to(tree, base.commit)
  pick(tree, base)
  return git.need(tree, 'rev-parse', 'HEAD')


def _row(root: Path, tree: Path, manifest: Manifest, series: Series, base: Base,
         start: str, say: Say) -> Row:
  """Lays a series behind what it depends on, and looks at it."""
  go_to(tree, start)
  before = start
  try:
    for part in manifest.with_dependencies(series.name):
      before = git.need(tree, 'rev-parse', 'HEAD')
      for patch in load_patches(root, part, base.name):
        commit_patch(tree, patch)
  except BuildError as error:
    say(f'  does not apply: {error}')
    return Row(series.name, base.name, ('NO', *'----'), (str(error),))
  count = len(series.patches(base.name))
  return _judged(tree, series, base.name, before, f'{count} patches', say)


def _judged(tree: Path, series: Series, base: str, before: str, applies: str,
            say: Say) -> Row:
  """Looks at a series that was laid on a work tree behind a commit."""
  paths = touched(tree, before)
  problems_by_kind = {
      'names': twice(tree, before, paths),
      'compiles': uncompiled(tree, paths),
      'format': misformatted(tree, before, paths)
  }
  for kind, problems in problems_by_kind.items():
    say(f'  {kind}: {len(problems)} problems in {len(paths)} files')
  files = collect(tree, before, paths)
  for file in files:
    say(f'  tests: {len(file.tests)} in {file.path}, '
        f'added: {len(file.added)}')
    for test in file.added:
      say(f'    {test}')
    if file.read:
      say(f'    they were read, not loaded: {file.read}')
  untested = [p for file in files for p in file.problems]
  added = sum(len(file.added) for file in files)
  if not added:
    untested.append('its patches add no test to a test file')
  cells = (applies, *('NO' if p else 'yes' for p in problems_by_kind.values()),
           'NO' if untested else f'{added} new of '
           f'{sum(len(file.tests) for file in files)}')
  problems = [p for kind in problems_by_kind.values() for p in kind] + untested
  return Row(series.name, base, cells, tuple(problems))


def _table(rows: Sequence[Row]) -> list[str]:
  """One line per series and base, in columns."""
  lines = [_COLUMNS, *((r.series, r.base, *r.cells) for r in rows)]
  widths = [max(map(len, column)) for column in zip(*lines)]
  return [
      '  '.join(cell.ljust(width)
                for cell, width in zip(line, widths)).rstrip()
      for line in lines
  ]
