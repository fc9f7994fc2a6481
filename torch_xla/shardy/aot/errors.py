"""Exceptions of compiling ahead of time."""


class AotError(RuntimeError):
  """A request that cannot be met ahead of time, or without a library."""
