"""Operations whose results on a device are compared with torch's on the CPU."""

from __future__ import annotations

from . import activations
from . import arithmetic
from . import casts
from . import contractions
from . import convolutions
from . import factories
from . import gradients
from . import indexing
from . import integers
from . import logic
from . import losses
from . import normalisation
from . import pooling
from . import reductions
from . import scans
from . import scatters
from . import shapes
from . import sorting
from . import special_values
from . import unary
from .operation import Operation

_FAMILIES = (unary, arithmetic, special_values, logic, integers, casts,
             reductions, scans, sorting, contractions, convolutions, shapes,
             indexing, scatters, activations, normalisation, losses, pooling,
             gradients, factories)


def operations() -> tuple[Operation, ...]:
  """All operations, family by family; each name stands there once."""
  return tuple(
      operation for family in _FAMILIES for operation in family.operations())
