"""Operations whose results on a device are compared with torch's on the CPU."""

from __future__ import annotations

from . import (activations, arithmetic, casts, contractions, convolutions,
               factories, gradients, indexing, integers, logic, losses,
               normalisation, pooling, reductions, scans, scatters, shapes,
               sorting, special_values, unary)
from .operation import Operation

_FAMILIES = (unary, arithmetic, special_values, logic, integers, casts,
             reductions, scans, sorting, contractions, convolutions, shapes,
             indexing, scatters, activations, normalisation, losses, pooling,
             gradients, factories)


def operations() -> tuple[Operation, ...]:
  """All operations, family by family; each name stands there once."""
  return tuple(op for family in _FAMILIES for op in family.OPERATIONS)
