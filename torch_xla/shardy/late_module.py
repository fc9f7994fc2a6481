"""Modules that are imported as something of them is asked for."""

from __future__ import annotations

import importlib
from typing import Any


class LateModule:
  """Stands for a module, which a process that needs nothing of it may lack."""

  def __init__(self, name: str):
    self._name = name

  def __getattr__(self, name: str) -> Any:
    value = getattr(importlib.import_module(self._name), name)
    setattr(self, name, value)  # From now on it is found without this.
    return value
