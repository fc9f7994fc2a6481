"""Programs that leave as StableHLO, for plugins that read nothing else.

`XLA_STABLEHLO_COMPILE=1` has `_XLAC` convert programs before they reach the
door; a plugin whose `program_format()` is 'mlir' has this package do it. Either
needs jaxlib, the extra `torch_xla[stablehlo]`.
"""

from __future__ import annotations

from .. import switch


def register() -> None:
  """Registers the lowering of programs in StableHLO, for every mode."""
  switch.add_stablehlo(_load)


def _load() -> switch.StableHlo:
  from .exports import export_stablehlo
  from .for_plugin import planner
  return switch.StableHlo(planner, export_stablehlo)
