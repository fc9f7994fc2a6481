"""Gives each warning once."""

from __future__ import annotations

import logging
import re


class WarnOnce:
  """Gives each warning once, for all that differ in numbers alone."""

  def __init__(self, logger: logging.Logger):
    self._logger = logger
    self._messages: set[str] = set()

  def warning(self, message: str) -> None:
    kind = re.sub(r'\{.*?\}|\[.*?\]|\d+', '', message)
    if kind not in self._messages:
      self._messages.add(kind)
      self._logger.warning('%s', message)
