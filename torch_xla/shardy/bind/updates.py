"""Has an annotation stay with a tensor that is updated in place.

Functionalization makes a new inner tensor of each update, and asks `_XLAC` to
place it as the old one was (`_propagate_xla_data`): a constraint that no user
asked for. Here it gets a tag, so that it counts as what was said of the tensor.
What is copied from the host is placed right away, as `mark_sharding` places it:
a step that follows `load_state_dict` is the program of a run that loads nothing.

Kernels of the dispatcher's key BackendSelect see these operations, whatever
calls them, and hand them on to the kernels of `_XLAC`.
"""

from __future__ import annotations

import threading
from typing import Any, Optional
import weakref

import torch
import torch_xla

from . import usage
from ..annotate import call_target
from ..annotate.annotation import Annotation
from .copies import is_placed
from .graph_inputs import are_pending
from .pending_marks import PendingMarks
from .placing import op_sharding
from .registry import Annotated, AnnotatedTensors, inner_of, tensor_of

_KEY = 'BackendSelect'

# What is said of a tensor, and what is known of it once it has data.
_Found = tuple[Annotation, Optional[weakref.ref[Annotated]]]


class Updates:
  """What is said of tensors that are updated, by their ids in the runtime."""

  def __init__(self, tensors: AnnotatedTensors, pending_marks: PendingMarks,
               turn: threading.RLock):
    self._turn = turn
    self._tensors = tensors
    self._pending_marks = pending_marks
    self._library: Optional[torch.library.Library] = None
    self._said: dict[int, _Found] = {}
    self._changes: Optional[tuple[int, int]] = None

  def follow(self) -> None:
    """Has torch's dispatcher tell of updates."""
    if self._library is None:
      self._library = torch.library.Library('aten', 'IMPL')
      for kernel in (self.copy, self._propagate_xla_data):
        self._library.impl(kernel.__name__, kernel, _KEY, with_keyset=True)

  def forget_ids(self) -> None:
    """Has the next update ask for the ids of tensors: some are others now."""
    self._changes = None

  def copy(self,
           keys: Any,
           t: torch.Tensor,
           source: torch.Tensor,
           non_blocking: bool = False) -> torch.Tensor:
    """`_XLAC` would overwrite `t`, which pending graphs may start from."""
    if self._find(t) is None or source.is_meta:
      return torch.ops.aten.copy.default.redispatch(
          _rest(keys), t, source, non_blocking)
    made = source.to(t.dtype, copy=source.device.type == 'xla')
    made = made if made.shape == t.shape else made.expand(t.shape)
    return made.to(t.device)

  def _propagate_xla_data(self, keys: Any, t: torch.Tensor,
                          made: torch.Tensor) -> None:
    found = self._find(t)
    if found is not None:
      self._said[torch_xla._XLAC._xla_get_tensor_id(made)] = found
      said, one = found
      if not are_pending([made])[0] and not usage.is_used(made):
        if made.shape == t.shape and is_placed(t, said):
          torch_xla._XLAC._xla_mark_sharding(made, op_sharding(said))
          if one is not None and (annotated := one()) is not None:
            with self._turn:
              self._tensors.give(annotated, made)
          return
      else:
        usage.twin_of(made).copy_(tagged(made, call_target.update_target(said)))
    torch.ops.aten._propagate_xla_data.default.redispatch(_rest(keys), t, made)

  def _find(self, t: torch.Tensor) -> Optional[_Found]:
    if t.device.type != 'xla' or not (self._tensors or self._pending_marks) or (
        torch_xla._XLAC._get_use_eager_mode()):
      return None
    changes = self._tensors.changes, self._pending_marks.changes
    get_id = torch_xla._XLAC._xla_get_tensor_id
    if changes != self._changes:
      self._changes, self._said = changes, {}
      for living, said in self._pending_marks.items():
        self._said[get_id(living)] = said, None
      for one in self._tensors.all():
        living = tensor_of(one.ref)
        for data in (one.inner,) if living is None else (one.inner, living):
          self._said[get_id(data)] = one.annotation, weakref.ref(one)
    return self._said.get(get_id(t))


def tagged(t: torch.Tensor, target: str) -> torch.Tensor:
  """The value of a tensor behind a tag, as the runtime knows it."""
  made, = torch_xla._XLAC._xla_custom_call([t], target, [list(t.shape)],
                                           [t.dtype], False, '', 1, {})
  return inner_of(made)


def _rest(keys: Any) -> Any:
  """The keys of the kernels behind this one."""
  return keys & torch._C._dispatch_keyset_full_after(
      getattr(torch._C.DispatchKey, _KEY))
