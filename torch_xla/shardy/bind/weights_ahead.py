"""The binding of weights, made ahead of the graph that it will be part of.

Right after a sync one call names the data of all weights, from which graphs
start until the next. Before the next, when an optimizer has updated them in
place, that data is only known if it was held for each: slower by 2 % of a step
(benchmarks/README.md).

Weights are tensors of type `torch.nn.Parameter`. Of any other, such as an
input, nothing says that it will live until the next sync, and a binding keeps
its operands alive and in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
import enum
from typing import Optional

import torch
import torch_xla

from .graph_inputs import alias_id, are_pending, Operand, partial_syncs
from .registry import Annotated, tensor_of


@dataclasses.dataclass(frozen=True)
class Ahead:
  """A binding of weights as they were after the last sync.

  Attributes:
    scalar: the call's result. It is pending: a sync computes it, if it lives.
    ids: by which the runtime knew the weights' data, in the operands' order.
  """
  scalar: torch.Tensor
  ids: dict[Annotated, int]

  def names(self, one: Optional[Annotated], t: torch.Tensor) -> bool:
    """Whether it names the data of a tensor that is not pending."""
    return self.ids.get(one) == torch_xla._XLAC._xla_get_tensor_id(t)

  def living(self) -> list[Operand]:
    return [
        (one, t) for one in self.ids if (t := tensor_of(one.ref)) is not None
    ]


class Drop(enum.Enum):
  """Why a binding that was made ahead may be of no use any more.

  SYNCED: a sync has it, or has done without.
  STALE: a weight is annotated that it is to name as well, or a graph is traced,
    after which all that is pending is cleared.
  GONE: a weight that it names is dead, or not annotated any more.
  DOUBTFUL: a graph of torch.compile may update a weight in place.
  """
  SYNCED = enum.auto()
  STALE = enum.auto()
  GONE = enum.auto()
  DOUBTFUL = enum.auto()


class WeightsAhead:
  """Holds the binding that was made ahead, while it is of use.

  `arm` makes it, `current` hands it to a sync, `drop` says what happened to its
  weights in between. A weight may die at any time, in a collection of garbage,
  and take it along.

  Attributes:
    ahead: the binding; None where there is none.
  """

  def __init__(self, bind: Callable[[Sequence[Operand]], torch.Tensor]):
    self._bind = bind
    self._release()

  def arm(self, weights: Sequence[Operand]) -> None:
    """Binds weights none of which is pending."""
    self._release()
    if not weights:
      return
    get_id = torch_xla._XLAC._xla_get_tensor_id
    self.ahead = Ahead(
        self._bind(weights), {
            one: get_id(t) for one, t in weights
        })
    for one, _ in weights:
      one.inner = None

  def current(self, was_read: bool) -> tuple[Optional[Ahead], bool]:
    """The binding, if it names the data that pending graphs start from.

    If not, it is dropped, and each weight that is not pending holds its data.

    Args:
      was_read: whether any graph was executed since it was made.

    Returns:
      The binding, and whether any of its weights is pending.
    """
    ahead = self.ahead
    if ahead is None:
      return None, False
    living = ahead.living()
    is_bound, *pending = are_pending([ahead.scalar, *(t for _, t in living)])
    if is_bound and self._is_exact(ahead, living, pending, was_read):
      return ahead, any(pending)
    self._give_back(
        [weight for weight, waits in zip(living, pending) if not waits])
    return None, False

  def drop(self, why: Drop, one: Optional[Annotated] = None) -> None:
    """Forgets the binding, or sees to it that it is not used where it is wrong.

    Args:
      one: the weight that is gone.
    """
    if why is Drop.SYNCED:
      self._release()
    elif why is Drop.GONE:
      self._let_go(one)
    else:
      self._drop_unless_pending()
      # The runtime then knows the new data by the old id, and may have taken
      # the old. If a weight is pending, the binding is kept and not used.
      self._is_doubtful |= why is Drop.DOUBTFUL

  def _release(self) -> None:
    """Forgets the binding. Its weights' data is not held by anything then."""
    self.ahead: Optional[Ahead] = None
    self._gone = 0
    self._needed_after: Optional[tuple] = None
    self._is_doubtful = False

  def _drop_unless_pending(self) -> None:
    """Lets every weight hold its own data again, if none is pending.

    What a pending one started from is known to the binding alone. The question
    walks all weights, so it is asked again only after something ran.
    """
    if self.ahead is None or self._needed_after == partial_syncs():
      return
    living = self.ahead.living()
    if any(are_pending([t for _, t in living])):
      self._needed_after = partial_syncs()
    else:
      self._give_back(living)

  def _let_go(self, one: Optional[Annotated]) -> None:
    """Frees the data of a weight.

    Where another weight is pending, that waits for the sync, which then runs a
    program that has the data as a parameter.
    """
    if self.ahead is not None and one in self.ahead.ids:
      self._gone += 1
      if self._gone == len(self.ahead.ids):
        self._release()
      else:
        self._drop_unless_pending()

  def _is_exact(self, ahead: Ahead, living: Sequence[Operand],
                pending: Sequence[bool], was_read: bool) -> bool:
    """Whether no weight has, or was updated from, other data than it had.

    What runs between syncs may compute a weight and take the data that it had,
    so that a program with the binding would fail. The alias id of a pending one
    tells, where the update was not through a view; a dead one may be such a
    weight.
    """
    xlac = torch_xla._XLAC
    if self._is_doubtful or was_read and len(living) < len(ahead.ids):
      return False
    for (one, t), waits in zip(living, pending):
      if not waits:
        if (xlac._xla_get_tensor_id(t) != ahead.ids[one] or
            xlac._get_buffer_donation(t)):
          return False
      elif was_read and alias_id(t) != ahead.ids[one]:
        return False
    return True

  def _give_back(self, weights: Sequence[Operand]) -> None:
    for one, t in weights:
      one.hold(t)
    self._release()
