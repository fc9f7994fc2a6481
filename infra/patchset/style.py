"""Formats lines as upstream does, and checks those that commits added."""

import os
from pathlib import Path
import re
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


def merge_includes(tree: Path, path: str, merged: bytes) -> bytes | None:
  """Resolves conflicts of #include lines, which upstream has sorted anew.

  Args:
    tree: a work tree, with upstream's .clang-format.
    path: of the file.
    merged: the file, with conflicts as `git.merge_files` marks them.

  Returns:
    The file; None if other lines are in conflict.
  """
  lines = [
      line for sides in git.CONFLICT.findall(merged) for side in sides
      for line in side.splitlines()
  ]
  if any(line and not line.startswith(b'#include ') for line in lines):
    return None
  text = git.CONFLICT.sub(_with_added, merged)
  last = max(number for number, line in enumerate(text.splitlines(), 1)
             if line.startswith(b'#include '))
  return subprocess.run([
      _formatter('clang-format'), '--style=file', f'--assume-filename={path}',
      f'--lines=1:{last}'
  ],
                        cwd=tree,
                        input=text,
                        stdout=subprocess.PIPE,
                        check=True).stdout


def _with_added(conflict: re.Match[bytes]) -> bytes:
  ours, base, theirs = (side.splitlines(True) for side in conflict.groups())
  removed = {line for line in base if line not in theirs}
  added = [line for line in theirs if line not in base]
  return b''.join([line for line in ours if line not in removed] + added)


def _formatter(name: str) -> str:
  program = _FOLDER / name
  if not program.exists():
    raise BuildError(f'there is no {name}: run this with .venv/bin/python, '
                     'which infra/test.sh sets up')
  return str(program)
