"""Tensors that were marked before their value was there.

A mark on a pending value is a tag in its graph. A tensor that outlives the
program keeps its annotation, as a weight does that was made on the device:

    w = torch.randn(16, 16, device='xla')
    xs.mark_sharding(w, mesh, ('x', None), priority=(0, None))
    torch_xla.sync()    # From here on w has data, and its annotation.
"""

from __future__ import annotations

import torch
from torch.utils.weak import WeakIdKeyDictionary
import torch_xla

from ..annotate.annotation import Annotation
from .copies import is_placed
from .graph_inputs import are_pending
from .registry import AnnotatedTensors, inner_of


class PendingMarks:
  """The annotations of pending tensors that live, in the order of marking."""

  def __init__(self) -> None:
    self._annotations = WeakIdKeyDictionary()
    self.changes = 0  # How often anything was added or forgotten.

  def __len__(self) -> int:
    return len(self._annotations)

  def add(self, t: torch.Tensor, annotation: Annotation) -> None:
    self.forget(t)  # A new annotation comes last.
    self.changes += 1
    self._annotations[t] = annotation, torch_xla._XLAC._xla_get_tensor_id(t)

  def items(self) -> list[tuple[torch.Tensor, Annotation, int]]:
    """With each tensor its annotation, and the id that it was marked with."""
    return [(t, *entry) for t, entry in self._annotations.items()]

  def forget(self, t: torch.Tensor) -> None:
    self.changes += 1
    self._annotations.pop(t, None)

  def promote(self, tensors: AnnotatedTensors, is_unused: bool) -> None:
    """Promotes those that have data by now and are placed as annotated.

    Args:
      is_unused: nothing has asked for that data yet.
    """
    marks = self.items()
    if not marks:
      return
    for (t, annotation, _), is_pending in zip(
        marks, are_pending([t for t, *_ in marks]), strict=True):
      if is_pending:
        continue
      self.forget(t)
      if is_placed(inner_of(t), annotation):
        tensors.annotate(t, annotation, is_unused)
