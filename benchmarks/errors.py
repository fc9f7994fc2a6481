"""The error that is reported without a traceback."""


class BenchmarkError(Exception):
  """A measurement that cannot be made: its text says why and what to do."""
