"""The annotated tensors that live, and the data that graphs start from.

An operand of a binding has to be the data that the pending graph starts from.
An in-place update gives a tensor another inner tensor, so the inner one is held
from the time of the annotation, or of the last sync, until the next; except for
weights, where `weights_ahead` has a binding that does so for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
from typing import Optional
import weakref

import torch

from ..annotate.annotation import Annotation


@dataclasses.dataclass(eq=False, slots=True)
class Annotated:
  """An annotated tensor with data.

  Attributes:
    ref: to the tensor.
    even: whether the annotation splits it into equal parts.
    inner: what a graph that starts from its data names. None where holding it
      holds the tensor itself, without functionalization; and while it is bound
      ahead.
    fresh: annotated since the last sync: its graph may outlive the tensor.
    is_weight: whether `weights_ahead` may bind it.
  """
  ref: weakref.ref[torch.Tensor]
  annotation: Annotation
  is_weight: bool
  even: bool = True
  inner: Optional[torch.Tensor] = None
  fresh: bool = True

  def hold(self, t: torch.Tensor) -> None:
    """Takes the data that `t` has now."""
    if torch._is_functional_tensor(t):
      self.inner = inner_of(t)


class AnnotatedTensors:
  """All annotated tensors that live, and what the dead ones leave.

  A dead one that is fresh stays until `drop_dead`, as a pending graph may start
  from its data. Each step asks for all of them, so a lookup must be cheap.
  """

  def __init__(self, at_death: Callable[[Annotated], None]):
    self._at_death = at_death
    # By the id of the living tensor object: an in-place update keeps it, and
    # tied weights share it.
    self._by_id: dict[int, Annotated] = {}
    # What was said of each of them, apart: a compiled graph asks for all of its
    # arguments at each call, and each object on the way is a cache miss.
    self._said: dict[int, Annotation] = {}
    # In the order of annotation, whatever the collector of garbage does.
    self._all: dict[Annotated, None] = {}
    self._orphans: list[Annotated] = []  # Those of `_all` that have died.

  def __len__(self) -> int:
    return len(self._all)

  def all(self) -> list[Annotated]:
    return list(self._all)

  def find(self, t: torch.Tensor) -> Optional[Annotated]:
    """What is known of `t`, and not of a dead tensor that had its id.

    Python drops what goes wrong in `_died`, such as a keyboard interrupt.
    """
    one = self._by_id.get(id(t))
    if one is not None and one.ref() is not t:
      self._drop_id(id(t))
      self._orphans.append(one)
      return None
    return one

  def annotations(
      self, tensors: Sequence[torch.Tensor]) -> list[Optional[Annotation]]:
    """What was said of each, None where nothing was."""
    return list(map(self._said.get, map(id, tensors)))

  def annotate(self, t: torch.Tensor, said: Annotation) -> None:
    one = self.find(t)
    if one is None:
      one = Annotated(
          weakref.ref(t, self._died(id(t))), said,
          isinstance(t, torch.nn.Parameter))
      self._by_id[id(t)] = one
      self._all[one] = None
    self._said[id(t)] = one.annotation = said
    one.fresh = True
    one.even = said.divides(t.shape)
    one.hold(t)

  def forget(self, t: torch.Tensor) -> None:
    one = self.find(t)
    if one is not None:
      self._drop_id(id(t))
      del self._all[one]

  def drop_dead(self) -> None:
    """Lets go of the data of dead tensors."""
    while self._orphans:
      self._all.pop(self._orphans.pop(), None)

  def is_drop_worthwhile(self) -> bool:
    """Whether dead tensors hold enough to ask if a graph can need them.

    The question walks all living tensors; in a loop of small steps that calls a
    compiled graph and never syncs, every input would ask it.
    """
    return len(self._orphans) >= 8 or sum(
        0 if one.inner is None else one.inner.nbytes
        for one in self._orphans) >= 2**20

  def _drop_id(self, key: int) -> None:
    self._said.pop(key, None)  # An interrupted call may have come this far.
    del self._by_id[key]

  def _died(self, key: int) -> Callable[[weakref.ref], None]:

    def died(ref: weakref.ref) -> None:
      one = self._by_id.get(key)
      if one is not None and one.ref is ref:
        self._drop_id(key)
        if one.fresh:
          self._orphans.append(one)
        else:
          self._all.pop(one, None)
        self._at_death(one)

    return died


def tensor_of(ref: weakref.ref[torch.Tensor]) -> Optional[torch.Tensor]:
  """The tensor, None if it is dead; as torch.utils.weak takes it."""
  t = ref()
  if t is not None:
    t._fix_weakref()  # It may be C++ alone that keeps the Python object.
  return t


def inner_of(t: torch.Tensor) -> torch.Tensor:
  """The tensor of the runtime itself, where functionalization wraps it."""
  return torch._from_functional_tensor(t) if torch._is_functional_tensor(
      t) else t
