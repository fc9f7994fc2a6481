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
from typing import Optional

import torch
import torch_xla

from .annotated import Annotated, tensor_of
from .operands import are_pending, Operand


@dataclasses.dataclass(frozen=True)
class Ahead:
  """A binding of weights as they were after the last sync.

  Attributes:
    scalar: the call's result. It is pending: a sync computes it, if it lives.
    ids: by which the runtime knew the weights' data, in the operands' order.
  """
  scalar: torch.Tensor
  ids: dict[Annotated, int]

  def living(self) -> list[Operand]:
    return [
        (one, t) for one in self.ids if (t := tensor_of(one.ref)) is not None
    ]


class Armed:
  """Holds the binding that was made ahead, while it is of use.

  A weight may die at any time, in a collection of garbage, and take it along.

  Attributes:
    may_be_donated: whether a compiled graph ran since, which may have taken
      the data of its arguments.
  """

  def __init__(self):
    self.release()

  def release(self) -> None:
    """Forgets the binding. Its weights' data is not held by anything then."""
    self._ahead: Optional[Ahead] = None
    self._dead = 0
    self._is_needed = False
    self.may_be_donated = False

  def __contains__(self, one: Optional[Annotated]) -> bool:
    return self._ahead is not None and one in self._ahead.ids

  def scalars(self) -> list[torch.Tensor]:
    """What it keeps pending: one scalar, or nothing."""
    return [] if self._ahead is None else [self._ahead.scalar]

  def arm(self, weights: Sequence[Operand],
          bind: Callable[[Sequence[Operand]], torch.Tensor]) -> None:
    """Binds weights none of which is pending."""
    self.release()
    if not weights:
      return
    get_id = torch_xla._XLAC._xla_get_tensor_id
    self._ahead = Ahead(bind(weights), {one: get_id(t) for one, t in weights})
    for one, _ in weights:
      one.inner = None

  def drop_if_free(self) -> None:
    """Lets every weight hold its own data again, before one of them changes.

    Not while one is pending, as nothing but the binding knows what that started
    from; nor again before the next sync, as the question walks all weights.
    """
    if self._ahead is None or self._is_needed:
      return
    living = self._ahead.living()
    self._is_needed = any(are_pending([t for _, t in living]))
    if not self._is_needed:
      self._give_back(living)

  def current(self) -> tuple[Optional[Ahead], bool]:
    """The binding, if it names what the weights were or were updated from.

    If not, it is dropped. A weight that was executed by a read since, or was
    given other data, has another id; a compiled graph that updates a weight, or
    the user, may have donated the data that the binding names.

    Returns:
      The binding, and whether any of its weights is pending.
    """
    ahead = self._ahead
    if ahead is None:
      return None, False
    living = ahead.living()
    is_bound, *pending = are_pending([ahead.scalar, *(t for _, t in living)])
    if is_bound and not self._may_be_gone(ahead, living, pending):
      self._is_needed = any(pending)
      return ahead, self._is_needed
    self._give_back(
        [weight for weight, waits in zip(living, pending) if not waits])
    return None, False

  def died(self, one: Annotated) -> None:
    """Frees the data of a dead weight, where no graph may start from it."""
    if one in self:
      self._dead += 1
      if self._dead == len(self._ahead.ids):
        self.release()
      else:
        self.drop_if_free()

  def _may_be_gone(self, ahead: Ahead, living: Sequence[Operand],
                   pending: Sequence[bool]) -> bool:
    xlac = torch_xla._XLAC
    if self.may_be_donated and len(living) < len(ahead.ids):
      return True
    return any(
        xlac._xla_get_tensor_id(t) != ahead.ids[one] or
        xlac._get_buffer_donation(t)
        for (one, t), waits in zip(living, pending)
        if not waits)

  def _give_back(self, weights: Sequence[Operand]) -> None:
    for one, t in weights:
      one.hold(t)
    self.release()
