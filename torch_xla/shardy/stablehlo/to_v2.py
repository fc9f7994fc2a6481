"""Lowers a program's shardings from V1 to V2: a module in MLIR, in place.

As `lower.to_v2` does for HLO: each `mhlo.sharding` that lists devices becomes
an iota, if one gives them. What has no such form, contradicts its type or is
damaged goes on as it came, and the counts say why.
"""

from __future__ import annotations

import collections
import functools
from typing import Any, NamedTuple, Optional

from . import dialects
from .convolutions import open_dims_of
from ..hlo import op_sharding
from ..lower.to_v2 import ShardingCounts
from ..sdy.extract import SHARDING_TARGET
from ..sharding.hlo_sharding import HloSharding, REPLICATED, ShardingType
from ..sharding.text import parse_sharding
from ..sharding.tile_assignment import ShardingError
from .extract import Taken
from .functions import (ARGUMENTS, array_of, attributes_of, custom_call,
                        main_of, owner_of, RESULTS, returned_by, set_attributes,
                        SHARDING_ATTRIBUTE, target_of, types_of)


class _Lowered(NamedTuple):
  text: str
  v2: int = 0
  reasons: tuple[str, ...] = ()


def lower(module: Any, taken: Taken) -> ShardingCounts:
  """Lowers `module`; says what became of its shardings.

  Args:
    taken: what `extract.take` found in it.
  """
  v2, reasons = 0, collections.Counter()

  def lowered(given: Any, kinds: list[Any]) -> str:
    nonlocal v2
    array = array_of(kinds[0]) if len(kinds) == 1 else None
    rank = None if array is None else len(array.dims)
    result = _lowered(given[SHARDING_ATTRIBUTE].value, rank)
    v2 += result.v2
    reasons.update(result.reasons)
    return result.text

  with dialects.scope(module):
    from jaxlib.mlir import ir
    for operation in (*taken.sharding_calls, *taken.sharded):
      if SHARDING_ATTRIBUTE in operation.attributes:
        text = lowered(operation.attributes,
                       [result.type for result in operation.results])
        operation.attributes[SHARDING_ATTRIBUTE] = ir.StringAttr.get(text)
    main = main_of(module)
    for which in (ARGUMENTS, RESULTS):
      given = attributes_of(main, which)
      for one, kind in zip(given, types_of(main, which)):
        if SHARDING_ATTRIBUTE in one:
          one[SHARDING_ATTRIBUTE] = ir.StringAttr.get(lowered(one, [kind]))
      if any(given):
        set_attributes(main, which, given)
  return ShardingCounts(v2, tuple(sorted(reasons.items())))


@functools.lru_cache(maxsize=1024)
def _lowered(text: str, rank: Optional[int]) -> _Lowered:
  try:
    sharding = parse_sharding(text)
    leaves = sharding.elements or (sharding,)
    if rank is not None:
      for leaf in leaves:
        op_sharding.check_rank(leaf, rank)
  except ShardingError as e:
    return _Lowered(text, reasons=(str(e),))
  reasons = tuple(leaf.v1_reason for leaf in leaves if leaf.v1_reason)
  v2 = sum(
      leaf.type is ShardingType.OTHER and not leaf.v1_reason for leaf in leaves)
  return _Lowered(str(sharding.canonical()) if v2 else text, v2, reasons)


def pin_results(module: Any) -> dict[int, HloSharding]:
  """Asks for a layout of each result that has none: replicated.

  For a backend that does not tell how it lays out what nobody told it. GSPMD
  passes over what is said of results alone, so a `Sharding` call says it.

  Returns:
    The placement of each result, by its number.
  """
  from jaxlib.mlir import ir
  placements = {}
  with dialects.scope(module):
    main = main_of(module)
    given = attributes_of(main, RESULTS)
    end = returned_by(main).operation
    for number, (one, value) in enumerate(zip(given, list(end.operands))):
      owner = owner_of(value)
      made = _said_by(owner)
      said = one.get(SHARDING_ATTRIBUTE) or made or ir.StringAttr.get(
          str(REPLICATED))
      if (made is None or made != said or target_of(owner) != SHARDING_TARGET or
          open_dims_of(owner)):
        end.operands[number] = custom_call(SHARDING_TARGET, value, end,
                                           {SHARDING_ATTRIBUTE: said})
      one[SHARDING_ATTRIBUTE] = said
      placements[number] = parse_sharding(said.value)
    set_attributes(main, RESULTS, given)
  return placements


def _said_by(operation: Optional[Any]) -> Optional[Any]:
  """The sharding that an operation's result is given, if it is."""
  if operation is None or SHARDING_ATTRIBUTE not in operation.attributes:
    return None
  return operation.attributes[SHARDING_ATTRIBUTE]
