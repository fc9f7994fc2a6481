"""Names of tensors in layers that are alike."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
import re
from typing import TypeVar

# A layer's.
_NUMBER = re.compile(r'(?:(?<=\.)|^)\d+(?=\.)')

_Said = TypeVar('_Said', bound=Hashable)


def group_of(name: str) -> str:
  """What names of layers that are alike have in common: 'h.*.weight'."""
  return _NUMBER.sub('*', name)


def folded(said: Mapping[str, _Said]) -> dict[str, _Said]:
  """What is said of each name, by group where all of a group say the same."""
  groups: dict[str, set[_Said]] = {}
  for name, what in said.items():
    groups.setdefault(group_of(name), set()).add(what)
  return {
      group_of(name) if len(groups[group_of(name)]) == 1 else name: what
      for name, what in said.items()
  }
