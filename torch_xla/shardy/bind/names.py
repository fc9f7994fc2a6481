"""The names of a binding's operands, and the check of their layouts."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Optional

import torch

from .. import tensor_names
from ..annotate.annotation import Annotation
from ..tensor_refs import TensorRef
from .placing import is_placed
from .registry import Annotated

MOVED = ('not laid out as mark_sharding was told',
         'call clear_sharding and mark_sharding')
# A graph is compiled right after it is bound; more bindings than a sync makes
# are never asked for.
_KEPT = 64


def lost_text(names: Sequence[str], why: str, where: str, remedy: str) -> str:
  """The warning on tensors whose annotation does not count."""
  listed = ', '.join(names[:8]) + (', ...' if len(names) > 8 else '')
  return f'{listed}: {why}, {where}, so no priority counts: {remedy}'


class BoundNames:
  """Names of the operands of the latest bindings, by the bindings' targets.

  They do not stand in the target: a name would then be part of the graph's hash,
  and naming a tensor would compile its program once more.
  """

  def __init__(self) -> None:
    self._names: collections.OrderedDict[str, Callable[[], tuple[
        str, ...]]] = collections.OrderedDict()

  def remember(self, target: str, names: Callable[[], tuple[str, ...]]) -> None:
    """Keeps how to find the operands' names, for when a record asks.

    Of two bindings with one target the later one's count.
    """
    self._names[target] = names
    self._names.move_to_end(target)
    if len(self._names) > _KEPT:
      self._names.popitem(last=False)

  def get(self, target: str) -> tuple[str, ...]:
    """A binding's names in the operands' order; empty where it is not known."""
    names = self._names.get(target)
    return () if names is None else names()


def names_of_bound(operands: Sequence[tuple[TensorRef[torch.Tensor], Annotation,
                                            TensorRef[torch.Tensor]]],
                   note_lost: Callable[..., None]) -> tuple[str, ...]:
  """The users' names of a binding's operands, empty where unknown.

  Warns of those that are not laid out as they were marked, as the program is
  planned: their annotations do not count in it.

  Args:
    operands: each marked tensor, its annotation and its data.
  """
  tensors = [ref() for ref, _, _ in operands]
  living = [t for t in tensors if t is not None]
  living_names = iter(tensor_names.names_of(living))
  names = tuple('' if t is None else next(living_names) for t in tensors)
  lost = [
      name or text
      for name, (_, mark, ref) in zip(names, operands, strict=True)
      if (text := _text_if_elsewhere(ref(), mark))
  ]
  if lost:
    note_lost(lost, 'given other data since', *MOVED)
  return names


def names_of_living(annotated: Iterable[Annotated]) -> list[str]:
  """The users' names of tensors that live, or their shapes in words."""
  pairs = [(t, a.shape_text) for a in annotated if (t := a.ref()) is not None]
  return _names_or_shapes(pairs)


def names_of(tensors: Iterable[torch.Tensor]) -> list[str]:
  """The users' names of tensors, or their shapes in words."""
  return _names_or_shapes([(t, str(tuple(t.shape))) for t in tensors])


def _names_or_shapes(pairs: Sequence[tuple[torch.Tensor, str]]) -> list[str]:
  names = tensor_names.names_of([t for t, _ in pairs])
  return [
      name or f'a tensor of shape {shape}'
      for name, (_, shape) in zip(names, pairs, strict=True)
  ]


def _text_if_elsewhere(data: Optional[torch.Tensor], mark: Annotation) -> str:
  """The tensor's shape in words, empty if it lies as it was marked."""
  try:
    if data is not None and not is_placed(data, mark):
      return f'a tensor of shape {tuple(data.shape)}'
  except RuntimeError:
    pass  # A clone, which is computed now: it lies as its source.
  return ''
