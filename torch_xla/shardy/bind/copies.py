"""Annotations go where a tensor's placement goes.

Annotations are kept by tensor object. Of what torch does with tensors, these put
another in its place, which has the annotation if `_XLAC` lays it out alike:

    copy.deepcopy(model)                      an average, a teacher
    model.load_state_dict(.., assign=True)    any parameter or buffer that is set
    model.to(..), model.bfloat16()            where they make new objects

What `torch.load` gives has no placement, with Shardy or without: a tensor that
it takes the place of loses its annotation, and a warning says which. Updates in
place, `.data = `, `swap_tensors` and `load_state_dict` as it is by default keep
the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import functools
from typing import Any, Optional

import torch
from torch.nn.modules import module
import torch_xla
from torch_xla.distributed.spmd import XLAShardedTensor

from .. import tensor_refs
from ..annotate.annotation import Annotation
from ..sharding.hlo_sharding import REPLICATED
from ..sharding.text import parse_sharding
from .registry import AnnotatedTensors

_MARK = '_follows_annotations'

# Gives the second tensor, which takes the place of the first, its annotation.
Follow = Callable[[torch.Tensor, torch.Tensor], None]
# Notes that a tensor was given data.
Given = Callable[[torch.Tensor], None]


def patch_torch_copies(tensors: AnnotatedTensors, follow: Follow,
                       given: Given) -> None:
  """Patches torch where it copies tensors, replaces them, or sets their data.
  """
  if hasattr(torch.nn.Module._apply, _MARK):
    return
  XLAShardedTensor.load_local_shards_ = _loading(  # type: ignore[method-assign]
      XLAShardedTensor.load_local_shards_, tensors)
  for owner in (torch.Tensor, torch.nn.Parameter):
    owner.__deepcopy__ = _following(owner.__deepcopy__, follow)
  torch.nn.Module._apply = _applying(torch.nn.Module._apply, follow)
  setattr(torch.nn.Module._apply, _MARK, True)
  torch.utils.swap_tensors = _swapping(torch.utils.swap_tensors, follow, given)
  torch.Tensor.data = _setting(torch.Tensor.data, given)
  torch.Tensor.set_ = _taking(torch.Tensor.set_, given)

  def replace(owner: torch.nn.Module, name: str,
              t: Optional[torch.Tensor]) -> None:
    old = {**owner._parameters, **owner._buffers}.get(name)
    if old is not None and t is not None:
      follow(old, t)

  module.register_module_parameter_registration_hook(replace)
  module.register_module_buffer_registration_hook(replace)


def is_placed(t: torch.Tensor, annotation: Annotation) -> bool:
  """Tests whether a tensor is laid out as its annotation asks."""
  if len(annotation.partition_spec) != len(t.shape):
    return False
  text = torch_xla._XLAC._get_xla_sharding_spec(t)
  return (parse_sharding(text) if text else REPLICATED) == annotation.sharding


MOVED = ('not laid out as mark_sharding was told',
         'call clear_sharding and mark_sharding')


def lost_text(names: Sequence[str], why: str, where: str, remedy: str) -> str:
  """The warning on tensors whose annotation does not count."""
  listed = ', '.join(names[:8]) + (', ...' if len(names) > 8 else '')
  return f'{listed}: {why}, {where}, so no priority counts: {remedy}'


def _loading(load: Callable[..., Any],
             tensors: AnnotatedTensors) -> Callable[..., Any]:
  """A checkpoint's shards take the place of data: graphs start from them."""

  @functools.wraps(load)
  def load_local_shards_(sharded: XLAShardedTensor, *args: Any) -> Any:
    result = load(sharded, *args)
    get_id = torch_xla._XLAC._xla_get_tensor_id
    loaded = get_id(sharded.global_tensor)
    for annotated in tensors.all():
      if get_id(annotated.inner) == loaded:
        annotated.hold(annotated.inner, is_own=False)
    return result

  return load_local_shards_


def _following(deepcopy: Callable[..., torch.Tensor],
               follow: Follow) -> Callable[..., torch.Tensor]:

  @functools.wraps(deepcopy)
  def __deepcopy__(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    copied = deepcopy(self, memo)
    follow(self, copied)
    return copied

  return __deepcopy__


def _applying(apply: Callable[..., torch.nn.Module],
              follow: Follow) -> Callable[..., torch.nn.Module]:

  @functools.wraps(apply)
  def _apply(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    before = {**self._parameters, **self._buffers}
    applied = apply(self, *args, **kwargs)
    for name, t in {**self._parameters, **self._buffers}.items():
      if t is not None and (old := before.get(name)) is not None:
        follow(old, t)
    return applied

  return _apply


def _setting(data: Any, given: Given) -> property:
  """The attribute of `torch.Tensor`; of `TensorBase` it is as it was."""

  def set_data(self: torch.Tensor, value: torch.Tensor) -> None:
    data.__set__(self, value)
    given(self)

  return property(data.__get__, set_data)


def _taking(set_: Callable[..., Any], given: Given) -> Callable[..., Any]:

  @functools.wraps(set_)
  def taking(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    result = set_(self, *args, **kwargs)
    given(self)
    return result

  return taking


def _swapping(swap: Callable[..., None], follow: Follow,
              given: Given) -> Callable[..., None]:

  @functools.wraps(swap)
  def swap_tensors(t1: torch.Tensor, t2: torch.Tensor) -> None:
    tensor_refs.permitting_refs(swap)(t1, t2)
    for t in (t1, t2):
      given(t) if t.is_xla else follow(t, t)

  return swap_tensors
