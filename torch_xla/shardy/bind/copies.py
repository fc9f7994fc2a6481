"""Annotations go where a tensor's placement goes.

Annotations are kept by tensor object. Of what torch does with tensors, these put
another in its place, which has the annotation if `_XLAC` lays it out alike:

    copy.deepcopy(model)                      an average, a teacher
    model.load_state_dict(.., assign=True)    any parameter or buffer that is set
    model.to(..), model.bfloat16()            where they make new objects
    nn.Parameter(w.clone())                   if it is of the shape of w

What `torch.load` gives has no placement, with Shardy or without: a tensor that
it takes the place of loses its annotation, and a warning says which. So does
one where a parameter is pickled with its module, or others are computed from it
of another shape, as `weight_norm` does and `torch.func.stack_module_state`.
Updates in place, `.data = `, `swap_tensors` and `load_state_dict` as it is by
default keep the object.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import functools
from typing import Any, Optional

import torch
from torch.nn.modules import module
import torch_xla
from torch_xla.distributed.spmd import XLAShardedTensor

from . import names, placing, registry, updates, usage
from .. import tensor_refs
from ..annotate import call_target
from ..annotate.annotation import Annotation
from .graph_data import graph_data, GraphDataError
from .graph_inputs import are_pending
from .pending_marks import PendingMarks
from .registry import AnnotatedTensors

_MARK = '_follows_annotations'


class Copies:
  """Annotates what takes the place of annotated tensors, or is their data."""

  def __init__(self, tensors: AnnotatedTensors, pending_marks: PendingMarks,
               note_lost: Callable[..., None]):
    self._tensors = tensors
    self._pending_marks = pending_marks
    self._note_lost = note_lost

  def patch_torch(self) -> None:
    """Patches torch where it copies or replaces tensors, or sets their data."""
    if hasattr(torch.nn.Module._apply, _MARK):
      return
    for owner in (torch.Tensor, torch.nn.Parameter):
      owner.__deepcopy__ = _then(owner.__deepcopy__,
                                 lambda copied, t, *_: self._follow(t, copied))
    new, reduce = torch.nn.Parameter.__new__, torch.nn.Parameter.__reduce_ex__
    torch.nn.Parameter.__new__ = _then(new, self._follow_sources)
    torch.nn.Parameter.__reduce_ex__ = _then(reduce, self._pickled)
    torch.Tensor.requires_grad_ = _then(torch.Tensor.requires_grad_,
                                        self._follow_trained)
    torch.func.stack_module_state = _then(torch.func.stack_module_state,
                                          self._stacked)
    torch.nn.Module._apply = self._applying(torch.nn.Module._apply)
    setattr(torch.nn.Module._apply, _MARK, True)
    module.register_module_parameter_registration_hook(self._replace)
    module.register_module_buffer_registration_hook(self._replace)
    torch.utils.swap_tensors = _then(
        tensor_refs.permitting_refs(torch.utils.swap_tensors),
        lambda _, *tensors: [*map(self._given, tensors)])
    note_data = lambda _, t, *__: self._given(t)
    data = torch.Tensor.data  # That of TensorBase, which stays as it is.
    torch.Tensor.data = property(data.__get__, _then(data.__set__, note_data))
    torch.Tensor.set_ = _then(torch.Tensor.set_, note_data)
    XLAShardedTensor.load_local_shards_ = _then(  # type: ignore[method-assign]
        XLAShardedTensor.load_local_shards_, self._load)

  def annotation_of(self, t: torch.Tensor) -> Optional[Annotation]:
    """The annotation of a tensor, with data or without."""
    entry = self._tensors.find_or_orphan(t)
    return entry.annotation if entry else self._pending_marks.get(t)

  def _applying(
      self, apply: Callable[...,
                            torch.nn.Module]) -> Callable[..., torch.nn.Module]:

    @functools.wraps(apply)
    def _apply(owner: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
      before = {**owner._parameters, **owner._buffers}
      applied = apply(owner, *args, **kwargs)
      for name, t in {**owner._parameters, **owner._buffers}.items():
        self._follow(before.get(name), t)
      return applied

    return _apply

  def _replace(self, owner: torch.nn.Module, name: str,
               t: Optional[torch.Tensor]) -> None:
    self._follow({**owner._parameters, **owner._buffers}.get(name), t)
    self._follow_copied(t)

  def _follow(self, old: Optional[torch.Tensor],
              new: Optional[torch.Tensor]) -> None:
    """Gives a tensor the annotation of another, if it has none that decides."""
    if old is None or new is None or old is new or not _has_value(new):
      return
    mark, own = self.annotation_of(old), self.annotation_of(new)
    if mark is not None and (own is None or
                             mark.is_decisive and not own.is_decisive):
      self._pending_marks.add(new, mark)
      if own is not None and new.is_xla and placing.is_placed(new, mark):
        self._constrain_if_pending(new, mark)

  def _follow_copied(self, new: Optional[torch.Tensor], *_: Any) -> None:
    """Gives what lasts the annotation of a tensor whose value it has."""
    self._follow(next(iter(self._sources_of(new, False)), None), new)

  def _follow_trained(self, new: torch.Tensor, *_: Any) -> None:
    if new.requires_grad:  # `zero_grad` unsets it of each gradient.
      self._follow_copied(new)

  def _follow_sources(self, new: torch.Tensor, *_: Any) -> None:
    """Gives a parameter the annotation of what it is computed from, or warns."""
    sources = self._sources_of(new, True)
    alike = next((t for t in sources if t.shape == new.shape), None)
    self._follow(alike, new)
    if sources and alike is None:
      self._note_lost(
          names.names_of(sources), f'a parameter of shape {tuple(new.shape)} '
          'was computed from it', 'which is not annotated',
          'call mark_sharding on that')

  def _sources_of(self, new: Optional[torch.Tensor],
                  is_computed: bool) -> list[torch.Tensor]:
    """Those with more than a placement whose value this has, or is made of."""
    if (new is None or not _has_value(new) or not new.is_xla or
        self.annotation_of(new) is not None):
      return []
    get_text = torch_xla._XLAC._unique_id_for_ir_and_data
    text = get_text(new)
    sources = [
        t for t, mark, _ in self._pending_marks.items()
        if mark.is_decisive and t.shape == new.shape and get_text(t) == text
    ]
    entries = self._tensors.all()
    if not usage.is_used(new):  # Fresh: only another view of it has its value.
      own_id = torch_xla._XLAC._xla_get_tensor_id(new)
      entries = [entry for entry, _ in self._tensors.current_among({own_id})]
    with contextlib.suppress(GraphDataError):
      data = {graph_data().address_of(new)} - {0} if entries else set()
      is_computed = is_computed and not data
      if entries and is_computed:
        data = set(graph_data().data_below([new]))
      sources += [
          t for entry in (entries if data else [])
          if entry.annotation.is_decisive and (t := entry.ref()) is not None and
          (is_computed or t.shape == new.shape) and any(
              graph_data().address_of(at) in data
              for at in (entry.inner, entry.current_of(t)))
      ]
    return sources

  def _stacked(self, stacked: tuple[dict[str, torch.Tensor], ...], *_:
               Any) -> None:
    for t in stacked[0].values():
      self._follow_sources(t)

  def _pickled(self, _: Any, t: torch.Tensor, *__: Any) -> None:
    mark = self.annotation_of(t)
    if mark is not None and mark.is_decisive:
      self._note_lost(
          names.names_of([t]), 'pickled as a parameter',
          'without its placement', 'call mark_sharding on what is loaded, or '
          'save state_dict()')

  def _given(self, t: torch.Tensor) -> None:
    """Has what uses the data that a tensor was given know its annotation."""
    entry = self._tensors.find_or_orphan(t)
    if entry is None:
      return
    if not t.is_xla:  # It may come back.
      self._tensors.forget(t)
      self._pending_marks.add(t, entry.annotation)
    elif t.shape == entry.inner.shape and (
        placing.is_placed(entry.inner, entry.annotation) and
        placing.may_be_placed(t, entry.annotation)):
      self._constrain_if_pending(t, entry.annotation)

  def _constrain_if_pending(self, t: torch.Tensor, mark: Annotation) -> None:
    if are_pending([t])[0]:
      self._tensors.changes += 1
      tagged = updates.tagged(t, call_target.update_target(mark))
      usage.twin_of(registry.inner_of(t)).copy_(tagged)
      placing.constrain(t, mark)

  def _load(self, _: Any, sharded: XLAShardedTensor, *__: Any) -> None:
    """A checkpoint's shards take the place of data: graphs start from them."""
    get_id = torch_xla._XLAC._xla_get_tensor_id
    loaded = get_id(sharded.global_tensor)
    for annotated in self._tensors.all():
      if get_id(annotated.inner) == loaded:
        annotated.hold(annotated.inner, is_own=False)


def _has_value(t: torch.Tensor) -> bool:
  """Tests for a tensor that is not traced, not transformed and not lazy."""
  return not (type(t).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
              or torch.compiler.is_compiling() or torch.nn.parameter.is_lazy(t)
              or torch._C._functorch.is_functorch_wrapped_tensor(t))


def _then(function: Callable[..., Any],
          note: Callable[..., Any]) -> Callable[..., Any]:
  """The function, after which its result and arguments are noted."""

  @functools.wraps(function)
  def noted(*args: Any, **kwargs: Any) -> Any:
    result = function(*args, **kwargs)
    note(result, *args)
    return result

  return noted
