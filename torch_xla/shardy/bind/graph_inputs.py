"""The data that pending graphs start from: what a binding has for operands.

It is what an annotated tensor had at the last sync, or has been given since, if
anything asked for it: `usage`. A tensor that is pending was updated in place,
and what it started from is what it had, unless a read has executed part of the
graph since: the tensor's alias id then names what it started from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import re
from typing import Optional

import torch
import torch_xla

from .registry import Annotated, tensor_of
from .usage import (forget_use_at_once, has_data, is_shared, is_used, was_used)

# An annotated tensor and its data.
Operand = tuple[Annotated, torch.Tensor]


@dataclasses.dataclass
class Found:
  """What pending graphs start from, and what is to happen with a sync.

  Attributes:
    operands: in the order of `registry.order_of`, then of annotation. A clone
      is none, until a sync gives it data of its own.
    any_pending: whether any annotated tensor has yet to be computed.
    unknown: those that are pending and start from data that is not known.
    used_tensors: those that still have the data they had, which was used.
    updated: those that have another inner tensor by now, and which.
    overwritten: those whose inner tensor itself was updated.
  """
  operands: list[Operand] = dataclasses.field(default_factory=list)
  any_pending: bool = False
  unknown: list[Annotated] = dataclasses.field(default_factory=list)
  used_tensors: list[Annotated] = dataclasses.field(default_factory=list)
  updated: list[Operand] = dataclasses.field(default_factory=list)
  overwritten: list[Annotated] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Since:
  """What ran since the last sync.

  Attributes:
    read: any graph.
    called: compiled graphs with annotated arguments.
    updated: those that update arguments, and may have taken what these had.
  """
  read: bool = False
  called: bool = False
  updated: bool = False


def find_operands(entries: Iterable[Annotated], since: Since) -> Found:
  """What pending graphs start from."""
  entries = list(entries)
  living = [tensor_of(entry.ref) for entry in entries]
  current = [
      entry.inner if t is None else entry.current_of(t)
      for entry, t in zip(entries, living, strict=True)
  ]
  is_held_pending = are_pending([entry.inner for entry in entries])
  is_pending = are_pending(current)
  inputs = Found(any_pending=any(is_pending))
  if any(is_held_pending):
    # The sync would wait for the one before, too.
    torch_xla._XLAC._xla_wait_device_ops([])
  is_doubtful = since.read or since.updated
  for entry, t, now, held_waits, waits in zip(
      entries, living, current, is_held_pending, is_pending, strict=True):
    is_other = now is not entry.inner
    if held_waits:
      inputs.overwritten.append(entry)
      if entry.second is None:
        inputs.unknown.append(entry)
      if entry.second is not None and was_used(entry.inner, entry.second):
        inputs.operands.append((entry, entry.second))
    elif is_used(entry.inner):
      if not is_other:
        inputs.used_tensors.append(entry)
      is_there = True
      if is_doubtful and (is_other or t is None):
        is_certain = (
            waits and not since.updated and _starts_from(now, entry.inner))
        is_there = is_certain or has_data(entry.inner)
        if waits and not (is_certain or since.updated and is_there):
          inputs.unknown.append(entry)
      if (is_there and entry.owns_data() and
          not _was_donated(entry.inner, since)):
        inputs.operands.append(
            (entry, entry.inner if entry.second is None else entry.second))
    if is_other:
      inputs.updated.append((entry, now))
      if (not waits and is_used(now) and not is_shared(now) and
          not _was_donated(now, since)):
        inputs.operands.append((entry, now))
  inputs.operands.sort(key=lambda operand: operand[0].order)
  return inputs


def told_apart(operands: Sequence[Operand]) -> list[Operand]:
  """The operands that a program's identity tells apart, in the same order.

  Data has no identity in `_XLAC`'s hash of a graph, but each node of data adds
  the number of its parameter, in the order in which `_XLAC` comes to them. So
  each operand gets a node that no other graph has, and what was said of a
  tensor is part of the program as said of that parameter.
  """
  forget_use_at_once([t for one, t in operands if t is not one.second])
  get_id = torch_xla._XLAC._xla_get_tensor_id
  # Of aliases the last counts, as in the lowering: they have one node.
  return list({get_id(t): (one, t) for one, t in operands}.values())


def _starts_from(updated: torch.Tensor, data: torch.Tensor) -> bool:
  return bool(alias_id(updated) == torch_xla._XLAC._xla_get_tensor_id(data))


def _was_donated(t: torch.Tensor, since: Since) -> bool:
  """Whether a compiled graph was asked to take the data, and may have."""
  return (since.called or since.read) and bool(
      torch_xla._XLAC._get_buffer_donation(t))


def are_pending(tensors: Sequence[torch.Tensor]) -> list[bool]:
  """Whether each has a value that is still to be computed."""
  return list(torch_xla._XLAC._check_tensor_need_materialization(list(tensors)))


def anything_pending() -> bool:
  """Whether any XLA tensor is pending. Walks all that live."""
  try:
    return any(torch_xla._XLAC._check_device_tensor_need_materialization(''))
  except RuntimeError:
    # It refuses tensors in states that a sync takes.
    return True


def partial_syncs() -> tuple[Optional[int], Optional[int]]:
  """Counts that grow with each graph run outside of `torch_xla.sync()`."""
  value = torch_xla._XLAC._xla_counter_value
  return value('CachedCompile'), value('UncachedCompile')


def alias_id(t: torch.Tensor) -> int:
  """The id of the data that an updated tensor started from. Slow."""
  text = torch_xla._XLAC._get_xla_tensor_debug_info(t)
  found = re.search(r'^AliasID: (\d+)$', text, re.MULTILINE)
  return int(found[1]) if found else -1
