"""Tensors that were marked before their value was there.

A mark on a pending value is a tag in its graph. A tensor that outlives the
program keeps what was said of it, as a weight does that was made on the device:

    w = torch.randn(16, 16, device='xla')
    xs.mark_sharding(w, mesh, ('x', None), priority=(0, None))
    torch_xla.sync()    # From here on w has data, and its annotation.
"""

from __future__ import annotations

import weakref

import torch

from ..annotate.annotation import Annotation
from .copies import is_placed
from .graph_inputs import are_pending
from .registry import AnnotatedTensors, inner_of, tensor_of


class PendingMarks:
  """What was said of tensors that are pending, in the order of the marks."""

  def __init__(self):
    self._marks: list[tuple[weakref.ref[torch.Tensor], Annotation]] = []

  def add(self, t: torch.Tensor, said: Annotation) -> None:
    self._marks.append((weakref.ref(t), said))

  def forget(self, t: torch.Tensor) -> None:
    self._marks = [mark for mark in self._marks if mark[0]() is not t]

  def settle(self, tensors: AnnotatedTensors, is_unused: bool) -> None:
    """Hands on those that have data by now and are placed as was said.

    Args:
      is_unused: nothing has asked for that data yet.
    """
    if not self._marks:
      return
    living = [(t, said)
              for ref, said in self._marks
              if (t := tensor_of(ref)) is not None]
    self._marks = []
    pending = are_pending([t for t, _ in living])
    for (t, said), is_pending in zip(living, pending):
      if is_pending:
        self.add(t, said)
      elif is_placed(inner_of(t), said):
        tensors.annotate(t, said, is_unused)
