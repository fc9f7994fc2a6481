"""The error that every tool of this folder reports without a traceback."""


class BuildError(Exception):
  """An expected failure: its text says what failed, why, and what to do."""
