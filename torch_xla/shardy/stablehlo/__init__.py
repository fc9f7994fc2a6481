"""Plans of programs, also of those that leave as StableHLO.

`XLA_STABLEHLO_COMPILE=1` has `_XLAC` convert programs before they reach the
door; a plugin whose `program_format()` is 'mlir' has this package do it. Either
needs jaxlib, the extra `torch_xla[stablehlo]`.
"""
