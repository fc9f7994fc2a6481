"""Annotations go where a tensor's placement goes.

Of what torch does with parameters, these give a new tensor object that `_XLAC`
lays out as it did the old one, and annotations are kept by object:

    copy.deepcopy(model)                      an average, a teacher
    model.load_state_dict(.., assign=True)    of tensors that are laid out so

What `torch.load` gives has no placement, with Shardy or without: a tensor that
it takes the place of loses its annotation, and a warning says which. Updates in
place, `.data = ` and `load_state_dict` as it is by default keep the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import functools
import itertools
from typing import Any

import torch
import torch_xla
from torch_xla.distributed.spmd import XLAShardedTensor

from ..annotate.annotation import Annotation
from ..warn_once import WarnOnce
from ..sharding.hlo_sharding import REPLICATED
from ..sharding.text import parse_sharding
from .registry import AnnotatedTensors

_MARK = '_follows_annotations'


def patch_torch_copies(tensors: AnnotatedTensors, warnings: WarnOnce) -> None:
  """Patches deepcopy and load_state_dict so that annotations follow."""
  if hasattr(torch.nn.Module.load_state_dict, _MARK):
    return
  XLAShardedTensor.load_local_shards_ = _loading(  # type: ignore[method-assign]
      XLAShardedTensor.load_local_shards_, tensors)
  for owner in (torch.Tensor, torch.nn.Parameter):
    owner.__deepcopy__ = _following(owner.__deepcopy__, tensors)
  load = _assigning(torch.nn.Module.load_state_dict, tensors, warnings)
  setattr(load, _MARK, True)
  torch.nn.Module.load_state_dict = load


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
               tensors: AnnotatedTensors) -> Callable[..., torch.Tensor]:

  @functools.wraps(deepcopy)
  def __deepcopy__(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    copied = deepcopy(self, memo)
    annotated = tensors.find_or_orphan(self)
    if annotated is not None and copied is not self:
      _annotate_if_placed(tensors, copied, annotated.annotation)
    return copied

  return __deepcopy__


def _assigning(load: Callable[..., Any], tensors: AnnotatedTensors,
               warnings: WarnOnce) -> Callable[..., Any]:

  @functools.wraps(load)
  def load_state_dict(self: torch.nn.Module,
                      state_dict: Mapping[str, Any],
                      strict: bool = True,
                      assign: bool = False) -> Any:
    before = _annotated_in(self, tensors) if assign else {}
    loaded = load(self, state_dict, strict, assign)
    after = _tensors_in(self) if before else {}
    lost = []
    for name, annotation in before.items():
      t = after.get(name)
      if t is not None and tensors.find_or_orphan(t) is None and not (
          _annotate_if_placed(tensors, t, annotation)):
        lost.append(name)
    if lost:
      warnings.warning(
          lost_text(lost, 'load_state_dict(assign=True) put other tensors '
                    'there', *MOVED))
    return loaded

  return load_state_dict


def _annotate_if_placed(tensors: AnnotatedTensors, t: torch.Tensor,
                        annotation: Annotation) -> bool:
  if t.device.type != 'xla' or not is_placed(t, annotation):
    return False
  tensors.annotate(t, annotation)
  return True


def _tensors_in(module: torch.nn.Module) -> dict[str, torch.Tensor]:
  return dict(
      itertools.chain(module.named_parameters(), module.named_buffers()))


def _annotated_in(module: torch.nn.Module,
                  tensors: AnnotatedTensors) -> dict[str, Annotation]:
  entries = ((name, tensors.find_or_orphan(t))
             for name, t in _tensors_in(module).items())
  return {name: a.annotation for name, a in entries if a is not None}
