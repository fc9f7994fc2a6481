"""Operations whose results on a device are compared with torch's on the CPU."""

from __future__ import annotations

import dataclasses

from . import (contractions, elementwise, gradients, integers, layers, moves,
               reductions, special_values)
from .operation import Operation

_FAMILIES = {
    'unary': elementwise.UNARY,
    'arithmetic': elementwise.ARITHMETIC,
    'special_values': special_values.SPECIAL_VALUES,
    'logic': elementwise.LOGIC,
    'integers': integers.INTEGERS,
    'casts': integers.CASTS,
    'reductions': reductions.REDUCTIONS,
    'scans': reductions.SCANS,
    'sorting': reductions.SORTING,
    'contractions': contractions.CONTRACTIONS,
    'convolutions': contractions.CONVOLUTIONS,
    'shapes': moves.SHAPES,
    'indexing': moves.INDEXING,
    'scatters': moves.SCATTERS,
    'activations': layers.ACTIVATIONS,
    'normalisation': layers.NORMALISATION,
    'losses': layers.LOSSES,
    'pooling': layers.POOLING,
    'gradients': gradients.GRADIENTS,
    'factories': gradients.FACTORIES,
}


def operations() -> tuple[Operation, ...]:
  """All operations, family by family; each name stands there once."""
  return tuple(
      dataclasses.replace(operation, family=family)
      for family, members in _FAMILIES.items()
      for operation in members)
