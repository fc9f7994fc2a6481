"""Records of what Shardy is told of a program's tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Optional

from ..compile.record import TensorRecord
from .constraints import Tensor


def name_suffix(name: Optional[str]) -> str:
  """The name in brackets behind a parameter's number; empty if unknown."""
  return f' ({name})' if name else ''


def records(tensors: Iterable[Tensor],
            names: Mapping[int, str]) -> tuple[TensorRecord, ...]:
  return tuple(_record(tensor, names) for tensor in tensors)


def _record(tensor: Tensor, names: Mapping[int, str]) -> TensorRecord:
  annotation, number = tensor.annotation, tensor.parameter
  return TensorRecord(
      parameter=tensor.parameter,
      instruction=tensor.instruction,
      shape=tensor.shape,
      spec=None if annotation is None else annotation.spec_text,
      priority=None if annotation is None else annotation.priority,
      sdy=tensor.sdy,
      placement=str(tensor.placement),
      source=tensor.source,
      name='' if number is None else names.get(number, ''))
