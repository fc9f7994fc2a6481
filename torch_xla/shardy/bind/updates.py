"""Keeps the annotation of a tensor that is updated in place.

Functionalization makes a new inner tensor of each update, and asks `_XLAC` to
place it as the old one was (`_propagate_xla_data`): a constraint that no user
asked for. Here it gets a tag, so that it counts as the tensor's annotation.
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
from .graph_inputs import are_pending
from .pending_marks import PendingMarks
from .placing import is_placed, op_sharding
from .registry import Annotated, AnnotatedTensors, inner_of

_KEY = 'BackendSelect'

# A tensor's annotation, and its entry once it has data.
_Entry = tuple[Annotation, Optional[weakref.ref[Annotated]]]


class Updates:
  """The annotations of updated tensors, by their ids in the runtime."""

  def __init__(self, tensors: AnnotatedTensors, pending_marks: PendingMarks,
               turn: threading.RLock):
    self._turn = turn
    self._tensors = tensors
    self._pending_marks = pending_marks
    self._library: Optional[torch.library.Library] = None
    self._entries: dict[int, _Entry] = {}
    self._changes: Optional[tuple[int, int]] = None

  def register_kernels(self) -> None:
    """Registers kernels that see updates with torch's dispatcher."""
    if self._library is None:
      self._library = torch.library.Library('aten', 'IMPL')
      for kernel in (self.copy, self._propagate_xla_data):
        self._library.impl(kernel.__name__, kernel, _KEY, with_keyset=True)

  def forget_ids(self) -> None:
    """Drops the ids of tensors, of which some changed."""
    self._changes, self._entries = None, {}

  def copy(self,
           keys: Any,
           t: torch.Tensor,
           source: torch.Tensor,
           non_blocking: bool = False) -> torch.Tensor:
    """`_XLAC` would overwrite `t`, which pending graphs may start from."""
    if self._find(t) is None or source.is_meta:
      return torch.ops.aten.copy.default.redispatch(
          _rest(keys), t, source, non_blocking)
    copied = source.to(t.dtype, copy=source.device.type == 'xla')
    copied = copied if copied.shape == t.shape else copied.expand(t.shape)
    return copied.to(t.device)

  def _propagate_xla_data(self, keys: Any, t: torch.Tensor,
                          data: torch.Tensor) -> None:
    entry = self._find(t)
    if entry is not None:
      self._entries[torch_xla._XLAC._xla_get_tensor_id(data)] = entry
      mark, ref = entry
      if not are_pending([data])[0] and not usage.is_used(data):
        if data.shape == t.shape and is_placed(t, mark):
          torch_xla._XLAC._xla_mark_sharding(data, op_sharding(mark))
          if ref is not None and (annotated := ref()) is not None:
            with self._turn:
              self._tensors.give(annotated, data)
          return
      else:
        usage.twin_of(data).copy_(tagged(data, call_target.update_target(mark)))
    torch.ops.aten._propagate_xla_data.default.redispatch(_rest(keys), t, data)

  def _find(self, t: torch.Tensor) -> Optional[_Entry]:
    if t.device.type != 'xla' or not (self._tensors or self._pending_marks) or (
        torch_xla._XLAC._get_use_eager_mode()):
      return None
    changes = self._tensors.changes, self._pending_marks.changes
    get_id = torch_xla._XLAC._xla_get_tensor_id
    if changes != self._changes:
      entries: dict[int, _Entry] = {}
      for living, annotation, marked_id in self._pending_marks.items():
        entries[marked_id] = entries[get_id(living)] = annotation, None
      for entry in self._tensors.all():
        living = entry.ref()
        for data in (entry.inner,) if living is None else (entry.inner, living):
          entries[get_id(data)] = entry.annotation, weakref.ref(entry)
      annotations = {id(annotation) for annotation, _ in entries.values()}
      # What was updated before has an id that is neither the first nor the last.
      before = self._entries.items()
      self._changes, self._entries = changes, {
          key: entry for key, entry in before if id(entry[0]) in annotations
      } | entries
    return self._entries.get(get_id(t))


def tagged(t: torch.Tensor, target: str) -> torch.Tensor:
  """The value of a tensor behind a tag, as the runtime knows it."""
  result, = torch_xla._XLAC._xla_custom_call([t], target, [list(t.shape)],
                                             [t.dtype], False, '', 1, {})
  return inner_of(result)


def _rest(keys: Any) -> Any:
  """The keys of the kernels behind this one."""
  return keys & torch._C._dispatch_keyset_full_after(
      getattr(torch._C.DispatchKey, _KEY))
