"""Errors that are no finding about the plugin."""


class ConformanceError(Exception):
  """The suite cannot run: wrong usage, a file, or torch_xla itself."""
