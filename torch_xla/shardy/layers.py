"""Names of tensors in layers that are alike."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable, Mapping, Sequence
import re
from typing import TypeVar

# A layer's.
_NUMBER = re.compile(r'(?:(?<=\.)|^)\d+(?=\.)')
_NUMBERED = re.compile(r'^(result|constraint) \d+$')
_NAMES_SHOWN = 6
# As HLO numbers what would otherwise have the same name.
_SUFFIXED = re.compile(r'(?<![\w.])([A-Za-z_][\w-]*)\.\d+(?!\.?\w)')

_Statement = TypeVar('_Statement', bound=Hashable)


def group_of(name: str) -> str:
  """The common pattern of names of layers that are alike: 'h.*.weight'."""
  what, is_of, owner = name.rpartition(' of ')
  if is_of:
    return f'{group_of(what)} of {_NUMBER.sub("*", f"{owner}.")[:-1]}'
  return _NUMBERED.sub(r'\1 *', _NUMBER.sub('*', name))


def folded(statements: Mapping[str, _Statement]) -> dict[str, _Statement]:
  """The statement on each name, by group where all of a group agree."""
  groups: dict[str, set[_Statement]] = {}
  for name, statement in statements.items():
    groups.setdefault(group_of(name), set()).add(statement)
  return {
      group_of(name) if len(groups[group_of(name)]) == 1 else name: statement
      for name, statement in statements.items()
  }


def names_text(names: Sequence[str]) -> str:
  """Names for a line, layers that are alike as one."""
  groups: dict[str, list[str]] = {}
  for name in names:
    groups.setdefault(group_of(name), []).append(name)
  texts = [
      some[0] if len(some) == 1 else group for group, some in groups.items()
  ]
  rest = len(texts) - _NAMES_SHOWN
  return ', '.join(
      texts[:_NAMES_SHOWN]) + (f' and {rest} more' if rest > 0 else '')


def many_text(names: Sequence[str], more: str = '') -> str:
  """The names in short, how many they are, and what `more` says of them."""
  count = f' ({len(names):,} in all{more})' if len(names) > 1 else ''
  return names_text(names) + count


def steady(text: str) -> str:
  """A text without the numbers of instructions: 'SyncTensorsGraph'."""
  return _SUFFIXED.sub(r'\1', text)


def numbered(names: Iterable[str]) -> list[str]:
  """Numbers steady names so that they differ: 'SyncTensorsGraph #1', #2."""
  seen: collections.Counter[str] = collections.Counter()
  result = []
  for name in map(steady, names):
    seen[name] += 1
    result.append(f'{name} #{seen[name]}')
  return result
