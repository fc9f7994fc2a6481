"""How a tensor's data lies on devices, as far as the runtime says."""

from __future__ import annotations

import functools
from typing import Optional

import torch
import torch_xla
from torch_xla.shardy.sharding.text import parse_sharding

from .. import xla_sharding
from .report import Seen

PENDING = 'it is still pending: call torch_xla.sync() before the audit'
NOT_ON_XLA = 'it is not on the device xla'
NOT_PLACED = 'it has no placement: nobody marked it, or that was undone'


def stored(t: torch.Tensor) -> Seen:
  """The sharding of a tensor's data, or why it is not known."""
  t = xla_sharding.unwrap_sharded_tensor(t)
  if t.device.type != 'xla':
    return Seen(unknown=NOT_ON_XLA)
  if torch_xla._XLAC._check_tensor_need_materialization([t])[0]:
    return Seen(unknown=PENDING)
  text = torch_xla._XLAC._get_xla_sharding_spec(t)
  return Seen(canonical(text)) if text else Seen(unknown=NOT_PLACED)


@functools.lru_cache(maxsize=4096)
def canonical(text: str) -> str:
  """A sharding's text in V2 where that exists: equal ones are equal text."""
  return str(parse_sharding(text).canonical())


@functools.lru_cache(maxsize=4096)
def local_shape(sharding: Optional[str], shape: tuple[int,
                                                      ...]) -> tuple[int, ...]:
  """The shape of one device's part of a tensor; all where it is not known."""
  return shape if sharding is None else parse_sharding(sharding).tile_shape(
      shape)


def element_type(t: torch.Tensor) -> str:
  return str(t.dtype).removeprefix('torch.')
