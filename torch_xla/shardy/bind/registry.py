"""The annotated tensors that live, and the data that graphs start from.

An operand of a binding has to be the data that the pending graph starts from.
An in-place update gives a tensor another inner tensor, so the inner one is held
from the time of the annotation, or of the last sync, until the next.

Some updates change the inner tensor itself: those through an
`XLAShardedTensor`, of BatchNorm's buffers, of the fused optimizers, and all
without functionalization. Such a tensor has a second one of the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
import sys
from typing import Optional

import torch
import torch_xla

from . import usage
from ..annotate.annotation import Annotation
from ..tensor_refs import TensorRef


class _Referable:
  """The slot for weak references, which Python 3.10's dataclasses cannot add.
  """
  __slots__ = ('__weakref__',)


@dataclasses.dataclass(eq=False, slots=True)
class Annotated(_Referable):
  """An annotated tensor with data.

  Attributes:
    ref: to the tensor.
    inner: the runtime's tensor of its data, as it was at the last sync.
    order: by which operands of a binding are sorted; see `order_of`.
    rank: of those with the same data, that with the highest counts.
    alias: another one of the same data; None once the tensor was updated by
      way of functionalization, which leaves `inner` as it was.
    is_own: whether the data is known not to be shared; see `probe_owns_data`.
    earlier: what it had before a read gave it the data that it has now.
  """
  ref: TensorRef[torch.Tensor]
  annotation: Annotation
  inner: torch.Tensor
  order: str
  rank: int
  alias: Optional[torch.Tensor] = None
  is_own: bool = False
  earlier: list[torch.Tensor] = dataclasses.field(default_factory=list)

  def hold(self, inner: torch.Tensor, is_own: bool) -> None:
    """Makes `inner` what graphs start from."""
    self.inner, self.alias, self.is_own = inner, None, is_own
    self.earlier.clear()

  def read(self, inner: torch.Tensor) -> None:
    """Takes the data that a read has given it besides what it had."""
    is_overwritten = inner is self.inner
    before = self.alias if is_overwritten else self.inner
    earlier = [*self.earlier, before] if before is not None else self.earlier
    self.hold(inner, is_own=True)
    self.earlier = [
        t for t in earlier if usage.is_used(t) and usage.has_data(t)
    ]
    if is_overwritten:
      hold_aliases([self])

  @property
  def shape_text(self) -> str:
    """The shape; the runtime does not tell it while it compiles."""
    return self.order.partition(' torch.')[0]

  def probe_owns_data(self) -> bool:
    """Probes whether the data is its own; a clone's is after the next sync."""
    self.is_own = self.is_own or not usage.probe_shared(self.inner)
    return self.is_own

  def current_of(self, t: torch.Tensor) -> torch.Tensor:
    """The runtime's tensor of `t` now; `inner` itself if it still is."""
    if torch._is_functional_tensor(t):
      return torch._from_functional_tensor(t)
    get_id = torch_xla._XLAC._xla_get_tensor_id
    return self.inner if get_id(t) == get_id(self.inner) else inner_of(t)


def hold_aliases(entries: Sequence[Annotated]) -> None:
  """Gives each an alias, so that updates of `inner` do not lose the data.

  Nothing is pending that starts from it, or all that does is known already.

  Args:
    ones: with data of their own.
  """
  aliases = usage.aliases_of([(entry.inner, entry.alias) for entry in entries])
  for entry, alias in zip(entries, aliases, strict=True):
    entry.alias = alias


class AnnotatedTensors:
  """All annotated tensors that live, and what the dead ones leave.

  A dead one whose data was used stays until `drop_dead`, as a pending graph may
  start from it. Each step asks for all of them, so a lookup must be cheap.
  """

  def __init__(self) -> None:
    # By the id of the living tensor object: an in-place update keeps it, and
    # tied weights share it.
    self._by_id: dict[int, Annotated] = {}
    # What was said of each of them, apart: a compiled graph asks for all of its
    # arguments at each call, and each object on the way is a cache miss.
    self._marks: dict[int, Annotation] = {}
    # In the order of annotation, whatever the collector of garbage does.
    self._all: dict[Annotated, None] = {}
    self._orphans: list[Annotated] = []  # Those of `_all` that have died.
    self.changes = 0  # How often anything was annotated or forgotten.
    self._last_rank = 0

  def __len__(self) -> int:
    return len(self._all)

  def all(self) -> list[Annotated]:
    return list(self._all)

  def find_or_orphan(self, t: torch.Tensor) -> Optional[Annotated]:
    """Finds the entry of `t`; one of a dead tensor of its id is orphaned.

    Python drops what goes wrong in `_died`, such as a keyboard interrupt.
    """
    annotated = self._by_id.get(id(t))
    if annotated is not None and annotated.ref() is not t:
      self._drop_id(id(t))
      self._orphans.append(annotated)
      return None
    return annotated

  def annotations(
      self, tensors: Sequence[torch.Tensor]) -> list[Optional[Annotation]]:
    """The annotation of each, None where it has none."""
    return list(map(self._marks.get, map(id, tensors)))

  def annotate(self,
               t: torch.Tensor,
               annotation: Annotation,
               is_unused: bool = False) -> None:
    """Stores the annotation of `t`.

    Args:
      is_unused: no operation has asked for the data that it has now, which it
        does not share.
    """
    self.changes += 1
    before = self.find_or_orphan(t)
    annotated = before
    if annotated is None:
      annotated = Annotated(
          TensorRef(t, self._died(id(t))), annotation, inner_of(t), '', 0)
    elif (current := annotated.current_of(t)) is not annotated.inner:
      annotated.hold(current, is_own=False)
    # The upload asked for it. In another thread a sync may begin now: it is to
    # find neither that nor a tensor that is half known.
    if is_unused and (before is None or usage.is_used(annotated.inner)):
      annotated.hold(annotated.inner, is_own=True)
      hold_aliases([annotated])
    if not annotated.rank or annotated.annotation != annotation:
      annotated.rank = self.next_rank()
    annotated.annotation, annotated.order = annotation, order_of(annotation, t)
    if before is None:
      self._by_id[id(t)] = annotated
      self._all[annotated] = None
    self._marks[id(t)] = annotation

  def give(self, annotated: Annotated, data: torch.Tensor) -> None:
    """Notes that a tensor has got other data, which nothing has asked for."""
    if usage.is_used(annotated.inner):  # A pending graph may start from it.
      before = dataclasses.replace(annotated, ref=TensorRef(torch.empty(0)))
      self._all[before] = None
      self._orphans.append(before)
    annotated.hold(data, is_own=True)
    hold_aliases([annotated])

  def next_rank(self) -> int:
    self._last_rank += 1
    return self._last_rank

  def forget(self, t: torch.Tensor) -> None:
    self.changes += 1
    annotated = self.find_or_orphan(t)
    if annotated is not None:
      self._drop_id(id(t))
      del self._all[annotated]

  def current_among(self,
                    ids: set[int]) -> list[tuple[Annotated, torch.Tensor]]:
    """Those of which a tensor with such an id is what they are now."""
    get_id = torch_xla._XLAC._xla_get_tensor_id
    living = ((a, t) for a in self.all() if (t := a.ref()) is not None)
    return [(a, a.current_of(t)) for a, t in living if get_id(t) in ids]

  def forget_earlier(self) -> None:
    """Lets go of what was read and updated since."""
    for annotated in self.all():  # One may die meanwhile.
      annotated.earlier.clear()

  def drop(self, annotated: Annotated) -> None:
    """Lets go of a dead one."""
    self._all.pop(annotated, None)

  def drop_dead(self) -> None:
    """Lets go of the data of dead tensors."""
    while self._orphans:
      self.drop(self._orphans.pop())

  def _drop_id(self, key: int) -> None:
    self._marks.pop(key, None)  # An interrupted call may have come this far.
    del self._by_id[key]

  def _died(self, key: int) -> Callable[[TensorRef[torch.Tensor]], None]:
    is_finalizing = sys.is_finalizing  # Python 3.13 has no globals by then.

    def died(ref: TensorRef[torch.Tensor]) -> None:
      if is_finalizing():
        return
      annotated = self._by_id.get(key)
      if annotated is not None and annotated.ref is ref:
        self._drop_id(key)
        if usage.is_used(annotated.inner):
          self._orphans.append(annotated)
        else:
          self.drop(annotated)

    return died


def order_of(annotation: Annotation, t: torch.Tensor) -> str:
  """Sorts tensors alike in each process that runs a program.

  Where a thread loads inputs, they may be annotated before weights or after.
  Those of which the same is said stay in the order of annotation.
  """
  return f'{tuple(t.shape)} {t.dtype} {annotation.text}'


def inner_of(t: torch.Tensor) -> torch.Tensor:
  """The tensor of the runtime itself, where functionalization wraps it.

  Without functionalization a twin: holding `t` itself would keep it alive.
  """
  return torch._from_functional_tensor(t) if torch._is_functional_tensor(
      t) else usage.twin_of(t)
