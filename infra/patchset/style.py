"""Checks the lines that commits added by upstream's formatters."""

from pathlib import Path
import re
import shutil
import subprocess
import sys

from infra.errors import BuildError
from infra.patchset import git

_CPP = ('.cpp', '.cc', '.h')
_HUNK = re.compile(r'(?m)^@@ \S+ \+(\d+)(?:,(\d+))? @@')


def misformatted(tree: Path, before: str, paths: list[str]) -> list[str]:
  """The lines that a work tree's settings would format otherwise.

  Args:
    tree: a work tree, with upstream's .clang-format and .style.yapf.
    before: lines that its commits added since then are looked at.
    paths: the files.

  Raises:
    BuildError: there is no formatter.
  """
  problems = []
  for path in paths:
    lines = _added(tree, before, path)
    if not lines:
      continue
    if path.endswith(_CPP):
      problems += _clang_format(tree, path, lines)
    elif path.endswith('.py'):
      problems += _yapf(tree, path, lines)
  return problems


def find_clang_format() -> str:
  """The path of clang-format; BuildError if there is none."""
  beside = Path(sys.executable).with_name('clang-format')
  program = str(beside) if beside.exists() else shutil.which('clang-format')
  if not program:
    raise BuildError(
        'there is no clang-format: run this with .venv/bin/python, '
        'which infra/test.sh sets up')
  return program


def _added(tree: Path, before: str, path: str) -> list[tuple[int, int]]:
  """The first and last lines of what was added to a file."""
  diff = git.need(tree, 'diff', '-U0', '--no-color', '--no-ext-diff', before,
                  'HEAD', '--', path)
  hunks = (
      (int(first), int(count or 1)) for first, count in _HUNK.findall(diff))
  return [(first, first + count - 1) for first, count in hunks if count]


def _clang_format(tree: Path, path: str, lines: list[tuple[int,
                                                           int]]) -> list[str]:
  program = find_clang_format()
  chosen = [f'--lines={first}:{last}' for first, last in lines]
  done = _run(tree, program, '--style=file', '--dry-run', '--Werror', *chosen,
              path)
  return [
      f'clang-format: {line}' for line in done.stderr.splitlines()
      if ': error: ' in line or line.startswith('error')
  ]


def _yapf(tree: Path, path: str, lines: list[tuple[int, int]]) -> list[str]:
  chosen = [
      word for first, last in lines for word in ('--lines', f'{first}-{last}')
  ]
  done = _run(tree, sys.executable, '-m', 'yapf', '--diff', *chosen, path)
  if not done.returncode:
    return []
  return [f'yapf on {path}:\n{(done.stdout or done.stderr).strip()}']


def _run(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
  return subprocess.run(
      arguments, cwd=tree, capture_output=True, text=True, check=False)
