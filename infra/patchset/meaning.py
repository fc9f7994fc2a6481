"""Finds what commits broke although every one of them applies."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
import subprocess
import sys

from infra.patchset import cpp_names, git

CPP = ('.cc', '.cpp', '.h', '.hpp')

# Decorators by which one name stands for several definitions.
_SEVERAL = {'overload', 'setter', 'getter', 'deleter', 'register'}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def broken(tree: Path, before: str) -> list[str]:
  """What is wrong in the files that a work tree's commits changed.

  Args:
    tree: a work tree.
    before: the commit behind which its own commits stand.

  Returns:
    Texts: names that are now defined twice in one scope of a file, and were
    not before, and Python that does not compile.
  """
  paths = touched(tree, before)
  return twice(tree, before, paths) + uncompiled(tree, paths)


def touched(tree: Path, before: str) -> list[str]:
  """The files that a work tree's commits changed or added."""
  return git.need(tree, 'diff', '--name-only', '--diff-filter=d', before,
                  'HEAD').splitlines()


def twice(tree: Path, before: str, paths: list[str]) -> list[str]:
  """Names that are defined more than once, and more often than before."""
  problems = []
  for path in paths:
    old = git.run(tree, 'show', f'{before}:{path}').stdout
    new = (tree / path).read_text(encoding='utf-8')
    more = _names_twice(path, new)
    less = _names_twice(path, old)
    problems += [
        f'{path} defines {name} {count} times'
        for name, count in sorted(more.items())
        if count > less[name]
    ]
  return problems


def uncompiled(tree: Path, paths: list[str]) -> list[str]:
  """What Python's compileall says of files that do not compile."""
  paths = [path for path in paths if path.endswith('.py')]
  if not paths:
    return []
  process = subprocess.run([sys.executable, '-m', 'compileall', '-qf', *paths],
                           cwd=tree,
                           capture_output=True,
                           text=True,
                           check=False)
  return process.stdout.strip().split('\n') if process.returncode else []


def _names_twice(path: str, text: str) -> Counter[str]:
  """How often names stand that a file defines more than once."""
  if path.endswith('.py'):
    return python_names_twice(text)
  if path.endswith(CPP):
    return cpp_names.names_twice(text)
  return Counter()


def python_names_twice(text: str) -> Counter[str]:
  """The functions and classes of Python that a text defines twice.

  Branches of one statement are scopes of their own, and text that is no Python
  has none.
  """
  try:
    found = Counter(_definitions(ast.parse(text), ''))
  except SyntaxError:
    found = Counter()
  return Counter({name: count for name, count in found.items() if count > 1})


def _definitions(node: ast.AST, scope: str) -> Iterator[str]:
  """What is defined in a node and beneath it."""
  for field, value in ast.iter_fields(node):
    # `body` and `orelse` of an `if` are two blocks.
    branch = '' if field == 'body' else f'<{field}>'
    for child in value if isinstance(value, list) else ():
      inner = scope
      if isinstance(child, _DEFINITIONS):
        inner = f'{scope}{child.name}.'
        if child.name != '_' and not _is_one_of_several(child):
          yield f'{scope}{branch}{child.name}'
      elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
        # By its first line, which other commits do not move.
        head = ast.unparse(child).strip().split('\n')[0]
        inner = f'{scope}{branch}<{head}>'
      else:
        continue
      yield from _definitions(child, inner)


def _is_one_of_several(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
  """Whether a decorator lets the name be defined more than once."""
  for decorator in node.decorator_list:
    if isinstance(decorator, ast.Call):
      decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(
        decorator, 'id', '')
    if name in _SEVERAL:
      return True
  return False
