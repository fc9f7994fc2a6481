"""Tests of the series that need what only this project's wheel has.

They are counted from their source and not run: most could not be imported.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
import re

from infra.against.suite import BEHAVIOUR

# What a test looks at that only the wheel has, beside the folders of
# torch_xla.shardy, which are how the wheel does it.
_OPENLY = {
    'records': r'shardy\.(record|programs)\(|compile\.record|ProgramRecord',
    'lower_text': r'\blower_text\b',
    'audit': r'spmd(\.audit| import [^\n]*\baudit)\b',
    'policy': r'spmd(\.policy| import [^\n]*\bpolicy)\b',
    'metrics': r'spmd(\.metrics| import [^\n]*\bmetrics)\b',
}
_SHARDY = 'torch_xla/shardy'
_FOLDER = re.compile(r'torch_xla\.shardy\.(\w+)|torch_xla\.shardy import (\w+)')
_IMPORTED = re.compile(r'^\s*(?:from|import) (\w+)', re.MULTILINE)


@dataclass(frozen=True)
class WheelOnly:
  """What a series' tests of the wheel are.

  Attributes:
    tests: test functions; those with parameters count once.
    files: that hold them.
    parts: what they need: what users have of the wheel, then folders of
      torch_xla.shardy; the most frequent first.
  """
  tests: int
  files: int
  parts: tuple[str, ...]


def count(root: Path, names: list[str]) -> WheelOnly:
  """Counts those tests among some files of a series."""
  sources = {
      path.stem: path.read_text(encoding='utf-8')
      for path in (root / 'test').rglob('*.py')
  }
  folders = {path.name for path in (root / _SHARDY).iterdir() if path.is_dir()}
  tests, files, functions_by_part = 0, 0, {}
  for name in names:
    if not name.endswith('_test.py') or name.startswith(BEHAVIOUR):
      continue
    text = (root / name).read_text(encoding='utf-8')
    needed = _needed(text, sources)
    if not needed:
      continue
    functions = sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith('test')
        for node in ast.walk(ast.parse(text)))
    files += 1
    tests += functions
    for part in needed & {*_OPENLY, *folders}:
      functions_by_part[part] = functions_by_part.get(part, 0) + functions
  parts = sorted(
      functions_by_part,
      key=lambda part: (part not in _OPENLY, -functions_by_part[part], part))
  return WheelOnly(tests, files, tuple(parts))


def _needed(text: str, sources: dict[str, str]) -> set[str]:
  """What a test needs, by itself and by the helpers that it imports."""
  todo, helpers, needed = [text], set(), set()
  while todo:
    source = todo.pop()
    needed |= {n for n, sign in _OPENLY.items() if re.search(sign, source)}
    needed |= {a or b for a, b in _FOLDER.findall(source)}
    if 'XLA_USE_SHARDY' in source or 'XLA_SHARDING_V2' in source:
      needed.add('switch')
    for helper in _IMPORTED.findall(source):
      if helper in sources and helper not in helpers:
        helpers.add(helper)
        todo.append(sources[helper])
  return needed
