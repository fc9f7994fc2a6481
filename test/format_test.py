"""Form, names and faults of our sources, by yapf, ruff, mypy, clang-format."""

import ast
from collections.abc import Iterator
import itertools
from pathlib import Path
import re
import subprocess
import sys

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ('behaviour', 'benchmarks', 'conformance', 'examples', 'infra',
           'test', 'torch_xla', 'torch_xla_shardy')


def files(*endings: str) -> list[str]:
  found = [ROOT / 'setup.py'] if '.py' in endings else []
  for folder in FOLDERS:
    found += [p for p in (ROOT / folder).rglob('*') if p.suffix in endings]
  assert found
  return sorted(map(str, found))


def changed() -> list[str]:
  """The files that the last commit, or what is not committed, changed."""

  def git(*arguments: str) -> list[str]:
    return subprocess.run(['git', *arguments, '-z'],
                          cwd=ROOT,
                          capture_output=True,
                          text=True,
                          check=True).stdout.split('\0')

  try:
    since = git('diff', '--name-only', 'HEAD^')
  except subprocess.CalledProcessError:
    pytest.skip('there is no commit before this one')
  new = git('ls-files', '--others', '--exclude-standard')
  return [str(ROOT / name) for name in (*since, *new)]


def check_python(paths: list[str]) -> None:
  done = subprocess.run(
      [sys.executable, '-m', 'yapf', '--diff', '--parallel', *paths],
      cwd=ROOT,
      capture_output=True,
      text=True,
      check=False)
  assert (done.stdout, done.returncode) == ('', 0), (
      f'run: python -m yapf -i FILE\n{done.stdout}{done.stderr}')


@pytest.mark.nightly
def test_python():
  check_python(files('.py'))


@pytest.mark.slow
def test_python_that_has_changed():
  if paths := sorted({*files('.py')} & {*changed()}):
    check_python(paths)


def check(*command: str) -> None:
  done = subprocess.run([sys.executable, '-m', *command],
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, f'{done.stdout}{done.stderr}'


def test_python_has_no_faults():
  check('ruff', 'check', '--output-format', 'concise', *files('.py'))


def test_docstrings():
  """What ruff does not see: a section in the place of the summary's line."""
  section = re.compile(r'"""(Args|Attributes|Raises|Returns|Yields):')
  found = [f for f in files('.py') if section.search(Path(f).read_text())]
  assert not [f for f in found if not Path(f).is_relative_to(ROOT / 'test')]


_VAGUE = frozenset('said told found taken made kept one ones what of'.split())
_PREPOSITIONS = frozenset('after at before behind below beside between by for '
                          'from in into on over to under with without'.split())
# Not held to it yet: the list only shrinks.
_UNNAMED = ('test',)


def vague_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
  """Vague names that live longer than five lines, and vague docstrings."""
  for scope in ast.walk(tree):
    if isinstance(scope, ast.Attribute) and isinstance(
        scope.ctx, ast.Store) and scope.attr.strip('_') in _VAGUE:
      yield scope.lineno, scope.attr
    if not isinstance(scope, (ast.Module, ast.ClassDef, ast.FunctionDef)):
      continue
    line, name = getattr(scope, 'lineno', 1), getattr(scope, 'name', '')
    summary = ast.get_docstring(scope) or ''
    if name[:1] != '_' and re.match('(What|Whether|The same|Does it) ',
                                    summary):
      yield line, summary.splitlines()[0]
    if isinstance(scope, ast.FunctionDef):
      if name.strip('_') in _VAGUE | _PREPOSITIONS:
        yield line, name
      nodes, most = ast.walk(scope), 5
    else:
      nodes, most = itertools.chain(
          *(getattr(node, 'targets', [getattr(node, 'target', None)])
            for node in scope.body)), -1
    lines: dict[str, list[int]] = {}
    for node in nodes:
      word = getattr(node, 'id', getattr(node, 'arg', None)) or ''
      if word.strip('_') in _VAGUE:
        lines.setdefault(word, []).append(node.lineno)
    for word, where in lines.items():
      if max(where) - min(where) > most:
        yield min(where), word


def test_names_say_what_they_hold():
  finished = (
      f for f in map(Path, files('.py'))
      if not str(f.relative_to(ROOT)).startswith(_UNNAMED))
  assert not [
      f'{f}:{line}: {name}' for f in finished
      for line, name in vague_names(ast.parse(f.read_text()))
  ]


def test_types():
  check('mypy')


def test_c():
  done = subprocess.run([
      str(Path(sys.executable).with_name('clang-format')), '--dry-run',
      '--Werror', *files('.c', '.h')
  ],
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, f'run: clang-format -i FILE\n{done.stderr}'
