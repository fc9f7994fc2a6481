"""The users' names of bound tensors, on their way from binding to record.

They do not stand in the binding's target: a name would then be part of the
graph's hash, and naming a tensor would compile its program once more.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

# A graph is compiled right after it is bound; more bindings than a sync makes
# are never asked for.
_KEPT = 64


class BoundNames:
  """Names of the operands of the latest bindings, by the bindings' targets."""

  def __init__(self) -> None:
    self._names: collections.OrderedDict[str, Callable[[], tuple[
        str, ...]]] = collections.OrderedDict()

  def remember(self, target: str, names: Callable[[], tuple[str, ...]]) -> None:
    """Keeps how to find the operands' names, for when a record asks.

    Of two bindings with one target the later one's count.
    """
    self._names[target] = names
    self._names.move_to_end(target)
    if len(self._names) > _KEPT:
      self._names.popitem(last=False)

  def get(self, target: str) -> tuple[str, ...]:
    """A binding's names in the operands' order; empty where it is not known."""
    names = self._names.get(target)
    return () if names is None else names()
