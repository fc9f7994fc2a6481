"""What a program that Shardy partitioned must keep to be used.

A backend may check the size of an argument and not its shape, and would compute
with the wrong numbers where a parameter is laid out otherwise than it is
stored.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

from ..compile.attempt import Outcome
from ..sharding.hlo_sharding import HloSharding
from .to_sdy import SdyProgram, Tensor

_NO_PARAMETERS = 'the backend does not tell how it laid out the parameters'
_NO_RESULTS = 'the backend does not tell how it lays out the results'


@dataclasses.dataclass(frozen=True)
class LayoutPromise:
  """The layouts that torch_xla relies on.

  Attributes:
    parameters: by number; each is to be laid out by its placement.
    results: the placement of each pinned result, by its number.
  """
  parameters: tuple[Tensor, ...]
  results: dict[int, HloSharding]

  @classmethod
  def of(cls, program: SdyProgram) -> LayoutPromise:
    return cls(
        tuple(t for t in program.tensors if t.parameter is not None),
        program.results)

  def broken_by(self, outcome: Outcome) -> Optional[str]:
    """Why the outcome cannot be used; None if it can."""
    if outcome.error is not None:
      return f'the backend refused the program for Shardy ({outcome.error})'
    made = outcome.compiled
    if made is None:
      return _NO_PARAMETERS
    if self.parameters:
      if (made.parameters is None or
          len(made.parameters) != len(self.parameters)):
        return _NO_PARAMETERS
      for tensor, sharding in zip(self.parameters, made.parameters):
        if sharding != tensor.placement:
          return (f'parameter {tensor.parameter}, {tensor.shape}, is stored as '
                  f'{tensor.placement} and Shardy takes it as {sharding}')
    for place, placement in self.results.items():
      if made.results is None or place >= len(made.results):
        return _NO_RESULTS
      if made.results[place] != placement:
        return (f'result {place} is to be laid out as {placement} and Shardy '
                f'gives {made.results[place]}')
    return None
