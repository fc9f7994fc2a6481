"""Exceptions of compiling ahead of time."""


class AotError(RuntimeError):
  """What cannot be done ahead of time, or without a library."""
