"""Collects tests as upstream runs them: `python3 FILE`, with unittest."""

import ast
from dataclasses import dataclass
import os
from pathlib import Path
import subprocess
import sys

from infra.patchset import git
from infra.patchset.cpp_names import test_names
from infra.patchset.meaning import CPP

_SECONDS = 300
_MARK = 'collected: '
# The installed torch_xla is imported: sources alone have no extension module.
_COLLECT = f"""\
import os, sys, unittest
folder, name = sys.argv[1:]
sys.argv[1:] = []
sys.path[0] = folder
module = __import__(name)
def each(suite):
  for test in suite:
    if isinstance(test, unittest.TestSuite):
      yield from each(test)
    else:
      yield test.id().removeprefix(name + '.')
for test in each(unittest.defaultTestLoader.loadTestsFromModule(module)):
  print('{_MARK}' + test)
"""


@dataclass(frozen=True)
class Collected:
  """The tests of one file.

  Attributes:
    tests: all of them, as Class.method.
    added: those that the commits added.
    problems: why there are not more.
    read: why they could only be read in the text: a module that is not
      installed, or another torch_xla than the base's; or empty.
  """
  path: str
  tests: tuple[str, ...]
  added: tuple[str, ...]
  problems: tuple[str, ...]
  read: str = ''


def collect(tree: Path, before: str, paths: list[str]) -> list[Collected]:
  """The tests in those files, of some, that are test files.

  Args:
    tree: a work tree.
    before: tests that its commits added since then are told apart.
    paths: the files.
  """
  collected = []
  for path in paths:
    name = path.rpartition('/')[2]
    if not path.startswith('test/'):
      continue
    old = git.run(tree, 'show', f'{before}:{path}').stdout
    new = (tree / path).read_text(encoding='utf-8')
    if path.endswith(CPP):
      tests = test_names(new)
      added = _without(tests, test_names(old))
      if tests:
        collected.append(Collected(path, tuple(tests), added, ()))
    elif name.startswith('test_') and name.endswith('.py'):
      written = _written(new)
      added = _without(written, _written(old))
      if written:
        collected.append(_judge(tree, path, old, written, added))
  return collected


def _without(names: list[str], old: list[str]) -> tuple[str, ...]:
  return tuple(name for name in names if name not in old)


def _written(text: str) -> list[str]:
  """The functions of a file that are called as tests are."""
  try:
    tree = ast.parse(text)
  except SyntaxError:
    return []
  tests = []
  for node in tree.body:
    prefix = f'{node.name}.' if isinstance(node, ast.ClassDef) else ''
    tests += [
        f'{prefix}{item.name}' for item in (node.body if prefix else [node])
        if isinstance(item, ast.FunctionDef) and item.name.startswith('test')
    ]
  return tests


def _judge(tree: Path, path: str, old: str, written: list[str],
           added: tuple[str, ...]) -> Collected:
  """The tests of a file of Python's."""
  tests, error = _loaded(tree / path)
  if error:
    # Is it the file's fault, or that of what is installed here?
    new = (tree / path).read_bytes()
    (tree / path).write_text(old, encoding='utf-8')
    before = _loaded(tree / path)[1]
    (tree / path).write_bytes(new)
    if error != before:
      return Collected(path, (), added, (f'{path} cannot be loaded: {error}',))
    tests = [name for name in written if '.' in name]
  # A parametrised test has more than its own name.
  lost = [name for name in added if not any(t.startswith(name) for t in tests)]
  problems = []
  if not tests:
    problems.append(f'unittest finds no test in {path}, which upstream runs by '
                    'python3 FILE')
  elif lost:
    problems.append(f'unittest does not find {", ".join(lost)} in {path}')
  return Collected(path, tuple(tests), added, tuple(problems), error)


def _loaded(file: Path) -> tuple[list[str], str]:
  """The tests that unittest finds in a file, and why it cannot be loaded."""
  try:
    process = subprocess.run(
        [sys.executable, '-c', _COLLECT,
         str(file.parent), file.stem],
        cwd=file.parent,
        env=os.environ | {'PJRT_DEVICE': 'CPU'},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False)
  except subprocess.TimeoutExpired:
    return [], f'it took longer than {_SECONDS} s'
  if process.returncode:
    return [], (process.stderr.strip() or
                f'status {process.returncode}').splitlines()[-1]
  return [
      line.removeprefix(_MARK)
      for line in process.stdout.splitlines()
      if line.startswith(_MARK)
  ], ''
