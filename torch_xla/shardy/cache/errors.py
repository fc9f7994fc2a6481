"""The exception of the compilation cache that others are kinds of."""


class CacheError(RuntimeError):
  """The compilation cache cannot be used as asked."""
