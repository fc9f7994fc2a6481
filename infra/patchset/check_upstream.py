"""Lays every series on each of its bases, or on any other tree."""

from collections.abc import Sequence
import compileall
import json
from pathlib import Path
import subprocess
import sys
import tempfile

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.manifest import ALL, load_manifest, Series
from infra.patchset.pull_request import read_cover
from infra.patchset.style import misformatted
from infra.patchset.worktree import check_checkout, Worktree


def check_upstream(root: Path,
                   upstream: Path,
                   only: str = '',
                   say: Say = print,
                   elsewhere: str = '') -> list[str]:
  """Checks the series for people with the source.

  Args:
    root: the checkout of this project.
    upstream: a checkout or bare clone of upstream; only read.
    only: just this series.
    say: is called with progress.
    elsewhere: a base, or any commit of `upstream`, to lay them on instead of
      all bases.

  Returns:
    The problems, as texts.

  Raises:
    BuildError: a commit of a base is not there.
  """
  manifest = load_manifest(root)
  chosen = [manifest.find(only)] if only else [
      *manifest.series, manifest.find(ALL)
  ]
  chosen = [series for series in chosen if series.base]
  if not chosen:
    raise BuildError(f'no patches for people with the source: {only}')
  check_checkout(upstream)
  target = elsewhere
  if elsewhere and not any(b.name == elsewhere for b in manifest.bases):
    target = git.need(upstream, 'rev-parse', '--verify',
                      f'{elsewhere}^{{commit}}')
  problems = []
  with tempfile.TemporaryDirectory(prefix='series-') as folder:
    git.need(upstream, 'clone', '--quiet', '--shared', '--no-checkout',
             '--config=user.name=series.py', '--config=user.email=series.py',
             '--config=commit.gpgSign=false', '.', folder)
    worktree = Worktree(root, manifest, Path(folder))
    for series in chosen:
      chain = manifest.with_dependencies(series.name)
      own = chain if series.name == ALL else (series,)
      count = sum(len(s.upstream) for s in own)
      for base in [elsewhere] if elsewhere else manifest.bases_of(series):
        say(f'==> {series.name} on {base}: {count} patches')
        for problem in _problems(worktree, chain, len(own), target or base):
          problems.append(f'{series.name} on {base}: {problem}')
          say(f'  {problem}')
      try:
        if series.name != ALL:
          read_cover(root, series.name)
      except BuildError as error:
        problems.append(f'{series.name}: {error}')
  return problems


def _problems(worktree: Worktree, chain: Sequence[Series], own: int,
              target: str) -> list[str]:
  """Lays a chain of series, and looks at the last `own` of them."""
  try:
    laid = worktree.lay(chain, target).patches
  except BuildError as error:
    return [str(error)]
  conflicts = [
      f'"{entry.patch.subject}" meets changes of the tree:\n{entry.conflict}'
      for entry in laid
      if entry.conflict
  ]
  names = [series.name for series in chain[-own:]]
  first = next(entry.commit for entry in laid if entry.series in names)
  return conflicts or _faults(worktree.tree, f'{first}^', own == 1)


def _faults(tree: Path, before: str, is_one: bool) -> list[str]:
  """The faults of the files that commits changed, of one series or all."""
  paths = git.need(tree, 'diff', '--name-only', before, 'HEAD').split()
  faults = [
      f'{path} does not compile' for path in paths if path.endswith('.py') and
      not compileall.compile_file(tree / path, quiet=2, force=True)
  ]
  for path in paths:
    # Git merges a function twice where the tree has it elsewhere.
    twice = _redefined(git.run(tree, 'show', f'{before}:{path}').stdout, path)
    now = _redefined((tree / path).read_text(encoding='utf-8'), path)
    faults += [f'{path}: {name}' for name in now if name not in twice]
  if is_one:
    faults += misformatted(tree, before, paths)
  if not any(path.startswith('test/') for path in paths):
    faults.append('its patches change no test')
  return faults


def _redefined(text: str, path: str) -> list[str]:
  """Ruff's findings on names that a text of Python defines twice."""
  if not path.endswith('.py'):
    return []
  done = subprocess.run([
      sys.executable, '-m', 'ruff', 'check', '--isolated', '--select=F811',
      '--output-format=json', '-'
  ],
                        input=text,
                        capture_output=True,
                        encoding='utf-8',
                        check=False)
  # Without the number of the line, which another change moves.
  return [
      fault['message'].split(' from line ')[0]
      for fault in json.loads(done.stdout or '[]')
  ]
