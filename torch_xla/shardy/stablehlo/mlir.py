"""The one door to jaxlib's bindings of MLIR: what is asked for is imported.

A process that has no program in StableHLO needs no jaxlib.
"""

from __future__ import annotations

import importlib
from typing import Any, TYPE_CHECKING


class _Module:
  """A module that is imported as something of it is asked for."""

  def __init__(self, name: str):
    self._name = name

  def __getattr__(self, name: str) -> Any:
    found = getattr(importlib.import_module(self._name), name)
    setattr(self, name, found)  # From now on it is found without this.
    return found


__all__ = [
    '_jax', '_jax_mlir_ext', 'chlo', 'ir', 'jaxlib', 'mhlo', 'passmanager',
    'sdy', 'stablehlo'
]

if TYPE_CHECKING:
  import jaxlib
  from jaxlib import _jax
  from jaxlib.mlir._mlir_libs import _jax_mlir_ext
  from jaxlib.mlir import ir, passmanager
  from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
else:
  jaxlib = _Module('jaxlib')
  _jax = _Module('jaxlib._jax')
  _jax_mlir_ext = _Module('jaxlib.mlir._mlir_libs._jax_mlir_ext')
  ir = _Module('jaxlib.mlir.ir')
  passmanager = _Module('jaxlib.mlir.passmanager')
  chlo, mhlo, sdy, stablehlo = (
      _Module(f'jaxlib.mlir.dialects.{name}')
      for name in ('chlo', 'mhlo', 'sdy', 'stablehlo'))
