"""Checks the lines that commits added by upstream's formatters."""

import os
from pathlib import Path
import subprocess
import sys

from infra.errors import BuildError
from infra.patchset import git

# Each reads a diff, and writes how it would format the lines that it adds.
_FORMATTERS = ('clang-format-diff.py', 'yapf-diff')
_FOLDER = Path(sys.executable).parent


def misformatted(tree: Path, before: str, paths: list[str]) -> list[str]:
  """The lines that a work tree's settings would format otherwise.

  Args:
    tree: a work tree, with upstream's .clang-format and .style.yapf.
    before: lines that its commits added since then are looked at.
    paths: the files.

  Raises:
    BuildError: there is no formatter.
  """
  diff = git.need(tree, 'diff', '-U0', '--no-color', '--no-ext-diff', before,
                  'HEAD', '--', *paths)
  problems = []
  for name in _FORMATTERS:
    done = subprocess.run([_formatter(name), '-p1'],
                          cwd=tree,
                          env=os.environ |
                          {'PATH': f'{_FOLDER}:{os.environ["PATH"]}'},
                          input=f'{diff}\n',
                          capture_output=True,
                          text=True,
                          check=False)
    if text := (done.stdout or done.stderr).strip():
      problems.append(f'{name}:\n{text}')
  return problems


def find_clang_format() -> str:
  """The path of clang-format; BuildError if there is none."""
  return _formatter('clang-format')


def _formatter(name: str) -> str:
  program = _FOLDER / name
  if not program.exists():
    raise BuildError(f'there is no {name}: run this with .venv/bin/python, '
                     'which infra/test.sh sets up')
  return str(program)
