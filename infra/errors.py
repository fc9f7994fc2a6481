"""Errors that every tool of this folder reports without a traceback."""

from typing import Callable

# Is told about progress, line by line.
Say = Callable[[str], None]


class BuildError(Exception):
  """An expected failure: its text says what failed, why, and what to do."""
