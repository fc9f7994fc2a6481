"""Exceptions of the compilation cache."""

from __future__ import annotations

from typing import Optional, TYPE_CHECKING

if TYPE_CHECKING:
  from .lock import Holder


class CacheError(RuntimeError):
  """The compilation cache cannot be used as asked."""


class CacheInUseError(CacheError):
  """Another process is the directory's writer.

  Attributes:
    holder: that process; None where it could not be read.
  """

  def __init__(self, message: str, holder: Optional[Holder]):
    super().__init__(message)
    self.holder = holder
