"""The data that pending graphs start from: what a binding has for operands.

It is what an annotated tensor had at the last sync, or has been given since, if
anything asked for it: `usage`. A tensor that is pending was updated in place,
and what it started from is what it had: by a read, too, which says so
(`Annotated.read`). What a read starts from is asked of its graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses

import torch
import torch_xla

from .graph_data import GraphData, is_in_hash
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

  def is_pending(self) -> bool:
    """Whether what was updated has yet to be computed."""
    inners = [one.inner for one in self.overwritten]
    return any(are_pending([*(now for _, now in self.updated), *inners]))


@dataclasses.dataclass
class Since:
  """What ran since the last sync.

  Attributes:
    called: reads, or compiled graphs with annotated arguments.
    updated: those that update arguments, and may have taken what these had.
  """
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
      if since.updated and (is_other or t is None):
        is_there = has_data(entry.inner)
        if waits and not is_there:
          inputs.unknown.append(entry)
      if (is_there and entry.owns_data() and
          not _was_donated(entry.inner, since)):
        inputs.operands.append((entry, entry.inner))
    if is_other:
      inputs.updated.append((entry, now))
      if (not waits and is_used(now) and not is_shared(now) and
          not _was_donated(now, since)):
        inputs.operands.append((entry, now))
    inputs.operands += (
        (entry, data) for data in entry.earlier if is_used(data))
  inputs.operands.sort(key=lambda operand: operand[0].order)
  return inputs


def operands_below(entries: Iterable[Annotated],
                   pending: Sequence[torch.Tensor],
                   graph_data: GraphData) -> tuple[list[Operand], str]:
  """What these start from, in the order of a sync's; and where that stands.

  Nothing is asked anew: it has the nodes that the graph has.
  """
  places = graph_data.below(pending)
  found = []
  for entry in entries:
    t = tensor_of(entry.ref)
    now = entry.inner if t is None else entry.current_of(t)
    inner = graph_data.of(entry.inner)
    held = {graph_data.of(data): data for data in entry.earlier}
    if now is not entry.inner:
      held[graph_data.of(now)] = now
    if inner or entry.second is None:
      held[inner] = entry.inner
    else:
      held[graph_data.of(entry.second)] = entry.second
    for key in places.keys() & held.keys():
      data = held[key]
      if data is not entry.inner or entry.owns_data():
        found.append((places[key], (entry, data)))
  found.sort(key=lambda operand: operand[1][0].order)
  operands = dict(found)  # Of aliases the last counts.
  of = '' if is_in_hash() else ','.join(map(str, operands))
  return list(operands.values()), of


def told_apart(operands: Sequence[Operand]) -> list[Operand]:
  """The operands that a program's identity tells apart, in the same order.

  Data has no identity in `_XLAC`'s hash of a graph, but each node of data adds
  the number of its parameter, in the order in which `_XLAC` comes to them. So
  each operand gets a node that no other graph has, and what was said of a
  tensor is part of the program as said of that parameter.
  """
  if not is_in_hash():
    forget_use_at_once([t for one, t in operands if t is not one.second])
  get_id = torch_xla._XLAC._xla_get_tensor_id
  # Of aliases the last counts, as in the lowering: they have one node.
  return list({get_id(t): (one, t) for one, t in operands}.values())


def _was_donated(t: torch.Tensor, since: Since) -> bool:
  """Whether a compiled graph was asked to take the data, and may have."""
  return since.called and bool(torch_xla._XLAC._get_buffer_donation(t))


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
