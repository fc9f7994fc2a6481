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
  from jaxlib.mlir._mlir_libs import _chlo as chlo
  from jaxlib.mlir._mlir_libs import _jax_mlir_ext
  from jaxlib.mlir._mlir_libs import _mlirHlo as mhlo
  from jaxlib.mlir._mlir_libs import _sdy as sdy
  from jaxlib.mlir._mlir_libs import _stablehlo as stablehlo
  from jaxlib.mlir import ir, passmanager
else:
  jaxlib = LateModule('jaxlib')
  _jax = LateModule('jaxlib._jax')
  ir = LateModule('jaxlib.mlir.ir')
  passmanager = LateModule('jaxlib.mlir.passmanager')
  # Not `jaxlib.mlir.dialects`: a class for each operation takes longer to import
  # than a program to convert.
  _jax_mlir_ext, chlo, mhlo, sdy, stablehlo = (
      LateModule(f'jaxlib.mlir._mlir_libs.{name}')
      for name in ('_jax_mlir_ext', '_chlo', '_mlirHlo', '_sdy', '_stablehlo'))
