"""The data that a pending graph starts from: what a binding has for operands.

It is what a tensor has, or, if that is pending, what it had before an update in
place, as `registry` holds it. Where a read has executed part of the graph
since, that counts only if the tensor's alias id names it, by which the runtime,
too, knows what an update started from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import re
from typing import Optional

import torch
import torch_xla

from .registry import Annotated, inner_of, tensor_of

# An annotated tensor and its data; that of a weight may be the tensor itself.
Operand = tuple[Annotated, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Found:
  """The operands that are known, and what else was seen.

  Attributes:
    any_pending: whether any of the tensors has yet to be computed.
    any_unknown: whether any is left out, as what it started from is not known.
  """
  operands: list[Operand]
  any_pending: bool
  any_unknown: bool


def find_operands(ones: Iterable[Annotated], was_read: bool) -> Found:
  """What is known of the data that a pending graph would start from.

  Args:
    was_read: whether any graph was executed since the data was held.
  """
  xlac = torch_xla._XLAC
  candidates, current = [], []
  for one in ones:
    if (t := tensor_of(one.ref)) is not None:
      candidates.append(one)
      current.append(inner_of(t))
    elif one.fresh and one.inner is not None:
      candidates.append(one)
      current.append(one.inner)
  pending = are_pending(current)
  found, any_unknown = [], False
  for one, operand, is_pending in zip(candidates, current, pending):
    if is_pending:
      # Updated in place, so it started from what is held, unless what it
      # started from was itself computed since, by a read, or is the very tensor
      # that was updated.
      if one.inner is None or operand is one.inner or (
          was_read and alias_id(operand) != xlac._xla_get_tensor_id(one.inner)):
        any_unknown = True
        continue
      operand = one.inner
    elif xlac._get_buffer_donation(operand):
      continue  # A compiled graph may have taken its data.
    found.append((one, operand))
  return Found(found, any(pending), any_unknown)


def even_first(found: Sequence[Operand],
               or_uneven: bool = True) -> list[Operand]:
  """Those that are even; all if none is, unless the uneven ones are ruled out.

  Shardy refuses programs that have an uneven parameter, even an unused one;
  those that use it are found by their placements.
  """
  even = [operand for operand in found if operand[0].even]
  return even if even or not or_uneven else list(found)


def are_pending(tensors: Sequence[torch.Tensor]) -> list[bool]:
  """Whether each has a value that is still to be computed."""
  return torch_xla._XLAC._check_tensor_need_materialization(list(tensors))


def anything_pending(but: Sequence[torch.Tensor]) -> bool:
  """Whether any XLA tensor is pending except for those. Walks all that live."""
  try:
    return sum(
        torch_xla._XLAC._check_device_tensor_need_materialization('')) > sum(
            are_pending(but))
  except RuntimeError:
    # It refuses tensors in states that a sync takes.
    return True


def partial_syncs() -> tuple[Optional[int], Optional[int]]:
  """Grows with each graph that is executed outside of `torch_xla.sync()`."""
  value = torch_xla._XLAC._xla_counter_value
  return value('CachedCompile'), value('UncachedCompile')


def alias_id(t: torch.Tensor) -> int:
  """The id of the data that an updated tensor started from. Slow."""
  text = torch_xla._XLAC._get_xla_tensor_debug_info(t)
  found = re.search(r'^AliasID: (\d+)$', text, re.MULTILINE)
  return int(found[1]) if found else -1
