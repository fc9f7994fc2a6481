"""Hooks on what a script must not or cannot do ahead of time.

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
    self._reported: set[str] = set()

  def find(self, what: str, sentence: str) -> None:
    """Files a finding about `what`, the first time."""
    if what not in self._reported:
      self._reported.add(what)
      where = next(iter(self._callers.now()), '')
      self.findings.append(f'{sentence} ({where})' if where else sentence)

  def follow(self, owner: Any, name: str, act: Callable[..., None]) -> None:
    """Has each call of `owner.name` followed by `act` of its arguments."""

    def make(original: Callable) -> Callable:

      def followed(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        act(*args, **kwargs)

      return followed

    _replace(owner, name, make)

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
    _instead(owner, name, when,
             lambda: self.find(shown, f'{shown} was left out: {reason}'))

  def refuse(self, owner: Any, name: str, shown: str, reason: str,
             when: Callable[..., bool]) -> None:
    """Has calls of `owner.name` fail when `when(*args, **kwargs)` holds."""

    def fail() -> None:
      raise AotError(f'{shown}: {reason}')

    _instead(owner, name, when, fail)


def _instead(owner: Any, name: str, when: Callable[..., bool],
             act: Callable[[], None]) -> None:
  """Has `act()` stand in for calls of which `when(*args, **kwargs)` holds."""

  def make(original: Callable) -> Callable:

    def checked(*args: Any, **kwargs: Any) -> Any:
      return act() if when(*args, **kwargs) else original(*args, **kwargs)

    return checked

  _replace(owner, name, make)


def _replace(owner: Any, name: str, make: Callable[[Callable],
                                                   Callable]) -> None:
  """Has `make(original)` stand in for `owner.name`, if there is one."""
  original = getattr(owner, name, None)
  if original is not None:
    setattr(owner, name, functools.wraps(original)(make(original)))
