"""Errors that every tool of this folder reports without a traceback."""

from collections.abc import Iterator
import contextlib
from typing import Callable

# Is told about progress, line by line.
Say = Callable[[str], None]


class BuildError(Exception):
  """An expected failure: its text says what failed, why, and what to do."""


@contextlib.contextmanager
def within(name: str) -> Iterator[None]:
  """Puts a name before the text of a failure."""
  try:
    yield
  except (BuildError, OSError) as error:
    raise BuildError(f'{name}: {error}') from error
