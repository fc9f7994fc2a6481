"""The promise that a program partitioned by Shardy must keep to be used.

A backend may check the size of an argument and not its shape, and would compute
with the wrong numbers where a parameter is laid out otherwise than it is
stored.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
from typing import Optional

from ..compile.attempt import Outcome
from ..compile.record import TensorRecord
from ..sharding.hlo_sharding import HloSharding, ShardingType
from ..sharding.partition_spec import uneven_dims
from .constraints import name_suffix

_NO_PARAMETERS = 'the backend does not report the layouts of parameters'
_NO_RESULTS = 'the backend does not report the layouts of results'


@dataclasses.dataclass(frozen=True)
class LayoutPromise:
  """The layouts that torch_xla relies on.

  Attributes:
    parameters: by number; each is to be laid out as it is stored.
    results: the placement of each pinned result, by its number.
    who: partitions, in what is said of a difference.
    trusts: whether a backend that tells nothing of tensors is taken to keep
      what it was told, where these are split evenly.
    is_padded: whether what is stored unevenly was padded in the program.
  """
  parameters: tuple[TensorRecord, ...]
  results: Mapping[int, HloSharding]
  who: str = 'Shardy'
  trusts: bool = False
  is_padded: bool = False

  def broken_by(self, outcome: Outcome) -> Optional[str]:
    """Why the outcome cannot be used; None if it can."""
    if outcome.error is not None:
      return (f'the backend refused the program for {self.who} '
              f'({outcome.error})')
    compiled = outcome.compiled
    if compiled is None:
      return self._untold_parameters() if self.trusts else _NO_PARAMETERS
    if compiled.parameters is None and self.trusts:
      if (reason := self._untold_parameters()) is not None:
        return reason
    elif self.parameters:
      if (compiled.parameters is None or
          len(compiled.parameters) != len(self.parameters)):
        return _NO_PARAMETERS
      for tensor, sharding in zip(
          self.parameters, compiled.parameters, strict=True):
        if sharding != tensor.layout:
          return (f'{_called(tensor)}, is stored as {tensor.placement} '
                  f'and {self.who} takes it as {sharding}')
    if compiled.results is None and self.trusts:
      return None
    for place, result in enumerate(compiled.results or ()):
      if ShardingType.UNREDUCED in (result.type, *result.subgroup_types):
        return (f'{self.who} gives result {place} as {result}: parts that are '
                'still to be added up')
    for place, placement in self.results.items():
      if compiled.results is None or place >= len(compiled.results):
        return _NO_RESULTS
      if compiled.results[place] != placement:
        return (f'result {place} is to be laid out as {placement} and '
                f'{self.who} gives {compiled.results[place]}')
    return None

  def _untold_parameters(self) -> Optional[str]:
    """A partitioner may lay out an uneven parameter otherwise than told."""
    for tensor in () if self.is_padded else self.parameters:
      tiles = tensor.layout.tiles
      if tiles is not None and uneven_dims(tensor.shape.dims, tiles.dims):
        return (f'{_called(tensor)}, is stored as {tensor.placement}, '
                f'which does not divide evenly, and {_NO_PARAMETERS}')
    return None


def _called(tensor: TensorRecord) -> str:
  return (f'parameter {tensor.parameter}{name_suffix(tensor.name)}, '
          f'{tensor.shape}')
