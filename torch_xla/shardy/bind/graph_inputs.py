"""The data that pending graphs start from: what a binding has for operands.

It is what an annotated tensor had at the last sync, or has been given since, if
anything asked for it: `usage`. A tensor that is pending was updated in place,
and what it started from is what it had: by a read, too, which says so
(`Annotated.read`). What a read starts from is asked of its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import dataclasses

import torch
import torch_xla

from .graph_data import GraphData, is_in_hash
from .registry import Annotated
from .usage import (forget_use_now, has_data, probe_shared, is_used, was_used)

# An annotated tensor and its data.
Operand = tuple[Annotated, torch.Tensor]
Shadowed = Callable[[Annotated], None]


@dataclasses.dataclass
class GraphInputs:
  """The data that pending graphs start from, and the changes at a sync.

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
    """Tests whether an updated tensor has yet to be computed."""
    inners = [entry.inner for entry in self.overwritten]
    return any(are_pending([*(now for _, now in self.updated), *inners]))


@dataclasses.dataclass
class ActivitySinceSync:
  """The reads and compiled graphs that ran since the last sync.

  Attributes:
    called: reads, or compiled graphs with annotated arguments.
    updated: those that update arguments, and may have taken what these had.
  """
  called: bool = False
  updated: bool = False


def collect_operands(entries: Iterable[Annotated],
                     since: ActivitySinceSync) -> GraphInputs:
  """Collects the data that pending graphs start from; may wait for devices."""
  entries = list(entries)
  living = [entry.ref() for entry in entries]
  current = [
      entry.inner if t is None else entry.current_of(t)
      for entry, t in zip(entries, living, strict=True)
  ]
  is_held_pending = are_pending([entry.inner for entry in entries])
  is_pending = are_pending(current)
  inputs = GraphInputs(any_pending=any(is_pending))
  if any(is_held_pending):
    # The sync would wait for the one before, too.
    torch_xla._XLAC._xla_wait_device_ops([])
  for entry, t, now, held_waits, waits in zip(
      entries, living, current, is_held_pending, is_pending, strict=True):
    is_other = now is not entry.inner
    if held_waits:
      inputs.overwritten.append(entry)
      if entry.alias is None:
        inputs.unknown.append(entry)
      if entry.alias is not None and was_used(entry.inner, entry.alias):
        inputs.operands.append((entry, entry.alias))
    elif is_used(entry.inner):
      if not is_other:
        inputs.used_tensors.append(entry)
      is_there = True
      if since.updated and (is_other or t is None):
        is_there = has_data(entry.inner)
        if waits and not is_there:
          inputs.unknown.append(entry)
      if (is_there and entry.probe_owns_data() and
          not _was_donated(entry.inner, since)):
        inputs.operands.append((entry, entry.inner))
    if is_other:
      inputs.updated.append((entry, now))
      if (not waits and is_used(now) and not probe_shared(now) and
          not _was_donated(now, since)):
        inputs.operands.append((entry, now))
    inputs.operands += (
        (entry, data) for data in entry.earlier if is_used(data))
  inputs.operands.sort(key=lambda operand: operand[0].order)
  return inputs


def counting(keyed: Iterable[tuple[int, Operand]],
             shadowed: Shadowed) -> dict[int, Operand]:
  """The operand that counts of those with a key, in the order of the first.

  It is a tensor's that was given this data, else that which was marked last.

  Args:
    shadowed: called with each whose annotation says more, and does not count.
  """
  operands: dict[int, Operand] = {}
  for key, operand in keyed:
    (loser, _), operands[key] = sorted((operands.get(key, operand), operand),
                                       key=_precedence)
    if loser.annotation.is_decisive and (loser.annotation
                                         != operands[key][0].annotation):
      shadowed(loser)
  return operands


def _precedence(operand: Operand) -> tuple[bool, int]:
  entry, data = operand
  return data is not entry.inner and data is not entry.alias, entry.rank


def operands_below(entries: Iterable[Annotated],
                   pending: Sequence[torch.Tensor], graph_data: GraphData,
                   shadowed: Shadowed) -> tuple[list[Operand], str]:
  """The data that these start from, in a sync's order, and its places.

  It makes no new nodes: the data has those of the graph.
  """
  places = graph_data.data_below(pending)
  placed = []
  for entry in entries:
    t = entry.ref()
    now = entry.inner if t is None else entry.current_of(t)
    inner = graph_data.address_of(entry.inner)
    held = {graph_data.address_of(data): data for data in entry.earlier}
    if now is not entry.inner:
      held[graph_data.address_of(now)] = now
    if inner or entry.alias is None:
      held[inner] = entry.inner
    else:
      held[graph_data.address_of(entry.alias)] = entry.alias
    for key in places.keys() & held.keys():
      data = held[key]
      if data is not entry.inner or entry.probe_owns_data():
        placed.append((places[key], (entry, data)))
  placed.sort(key=lambda operand: operand[1][0].order)
  operands = counting(placed, shadowed)
  label = '' if is_in_hash() else ','.join(map(str, operands))
  return list(operands.values()), label


def with_distinct_nodes(operands: Sequence[Operand],
                        shadowed: Shadowed) -> list[Operand]:
  """The operands with a node each that no other graph has, in the same order.

  Data has no identity in `_XLAC`'s hash of a graph, but each node of data adds
  the number of its parameter, in the order in which `_XLAC` comes to them. So
  with distinct nodes an annotation is part of the program's identity, as that
  of its parameter.
  """
  if not is_in_hash():
    forget_use_now([t for entry, t in operands if t is not entry.alias])
  get_id = torch_xla._XLAC._xla_get_tensor_id
  # Of aliases one counts: they have one node.
  keyed = ((get_id(t), (entry, t)) for entry, t in operands)
  return list(counting(keyed, shadowed).values())


def _was_donated(t: torch.Tensor, since: ActivitySinceSync) -> bool:
  """Tests whether a compiled graph may have taken the data."""
  return since.called and bool(torch_xla._XLAC._get_buffer_donation(t))


def are_pending(tensors: Sequence[torch.Tensor]) -> list[bool]:
  """Tests of each whether its value is still to be computed."""
  return list(torch_xla._XLAC._check_tensor_need_materialization(list(tensors)))


def anything_pending() -> bool:
  """Tests whether any XLA tensor is pending. Walks all that live."""
  try:
    return any(torch_xla._XLAC._check_device_tensor_need_materialization(''))
  except RuntimeError:
    # It refuses tensors in states that a sync takes.
    return True
