"""What a script must not do, or cannot do, ahead of time; and what it tells.

Functions of torch and torch_xla are replaced in the process that runs the
script, before the script has a name for them.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
from typing import Any

from ...callers import Callers
from ..errors import AotError


class Hooks:
  """Replaces functions, for as long as the process lives.

  Attributes:
    findings: what was left out, each once, with the line that asked for it.
  """

  def __init__(self, callers: Callers):
    self.findings: list[str] = []
    self._callers = callers
    self._said: set[str] = set()

  def replace(self, owner: Any, name: str, make: Callable[[Callable],
                                                          Callable]) -> None:
    """Has `make(original)` stand in for `owner.name`, if there is one."""
    original = getattr(owner, name, None)
    if original is None:
      return
    setattr(owner, name, functools.wraps(original)(make(original)))

  def find(self, what: str, sentence: str) -> None:
    """Files a finding about `what`, the first time."""
    if what not in self._said:
      self._said.add(what)
      where = next(iter(self._callers.now()), '')
      self.findings.append(f'{sentence} ({where})' if where else sentence)

  def leave_out(
      self,
      owner: Any,
      name: str,
      shown: str,
      reason: str,
      when: Callable[..., bool] = lambda *args, **kwargs: True) -> None:
    """Has calls of `owner.name` do nothing, and a finding say so.

    But for calls of which `when(*args, **kwargs)` is false.
    """

    def make(original: Callable) -> Callable:

      def left_out(*args: Any, **kwargs: Any) -> Any:
        if not when(*args, **kwargs):
          return original(*args, **kwargs)
        self.find(shown, f'{shown} was left out: {reason}')
        return None

      return left_out

    self.replace(owner, name, make)

  def refuse(self, owner: Any, name: str, shown: str, reason: str,
             when: Callable[..., bool]) -> None:
    """Has calls of `owner.name` fail when `when(*args, **kwargs)` holds."""

    def make(original: Callable) -> Callable:

      def checked(*args: Any, **kwargs: Any) -> Any:
        if when(*args, **kwargs):
          raise AotError(f'{shown}: {reason}')
        return original(*args, **kwargs)

      return checked

    self.replace(owner, name, make)
