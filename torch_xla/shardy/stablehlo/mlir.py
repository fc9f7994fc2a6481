"""The one door to jaxlib's bindings of MLIR: what is asked for is imported.

A process that has no program in StableHLO needs no jaxlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late_module import LateModule

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
  jaxlib = LateModule('jaxlib')
  _jax = LateModule('jaxlib._jax')
  _jax_mlir_ext = LateModule('jaxlib.mlir._mlir_libs._jax_mlir_ext')
  ir = LateModule('jaxlib.mlir.ir')
  passmanager = LateModule('jaxlib.mlir.passmanager')
  chlo, mhlo, sdy, stablehlo = (
      LateModule(f'jaxlib.mlir.dialects.{name}')
      for name in ('chlo', 'mhlo', 'sdy', 'stablehlo'))
