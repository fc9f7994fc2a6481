"""Tensors that are annotated, and have no data yet that is placed so.

A mark on a pending value is a tag in its graph. A tensor that outlives the
program keeps its annotation, as a weight does that was made on the device:

    w = torch.randn(16, 16, device='xla')
    xs.mark_sharding(w, mesh, ('x', None), priority=(0, None))
    torch_xla.sync()    # From here on w has data, and its annotation.

So does a tensor that takes the place of an annotated one (`copies`), if it is
placed alike. Of one that is not, the first program that uses it says so.
"""

from __future__ import annotations

from typing import Optional

import torch
import torch_xla

from . import usage
from ..annotate.annotation import Annotation
from ..tensor_refs import tensor_dict
from .graph_inputs import are_pending
from .placing import is_placed
from .registry import AnnotatedTensors, inner_of


class PendingMarks:
  """The annotations of such tensors that live, in the order of marking."""

  def __init__(self) -> None:
    self._annotations = tensor_dict()
    self.changes = 0  # How often anything was added or forgotten.

  def __len__(self) -> int:
    return len(self._annotations)

  def add(self, t: torch.Tensor, annotation: Annotation) -> None:
    self.forget(t)  # A new annotation comes last.
    self.changes += 1
    self._annotations[t] = annotation, t.is_xla and (
        torch_xla._XLAC._xla_get_tensor_id(t))

  def get(self, t: torch.Tensor) -> Optional[Annotation]:
    annotation: Optional[Annotation]
    annotation, _ = self._annotations.get(t, (None, 0))
    return annotation

  def items(self) -> list[tuple[torch.Tensor, Annotation, int]]:
    """With each tensor its annotation, and the id that it was marked with."""
    return [(t, *entry) for t, entry in self._annotations.items() if t.is_xla]

  def forget(self, t: torch.Tensor) -> None:
    self.changes += 1
    self._annotations.pop(t, None)

  def promote(self, tensors: AnnotatedTensors,
              is_unused: bool) -> list[torch.Tensor]:
    """Promotes those that have data by now and are placed as annotated.

    Args:
      is_unused: nothing has asked for that data yet.

    Returns:
      Those that are placed otherwise, and used: their annotations are dropped.
    """
    marks = self.items()
    if not marks:
      return []
    lost = []
    for (t, annotation, _), is_pending in zip(
        marks, are_pending([t for t, *_ in marks]), strict=True):
      if is_pending:
        continue
      if is_placed(inner_of(t), annotation):
        self.forget(t)
        tensors.annotate(t, annotation, is_unused)
      elif usage.is_used(inner_of(t)):
        self.forget(t)
        lost += [t] if annotation.is_decisive else []
    return lost
