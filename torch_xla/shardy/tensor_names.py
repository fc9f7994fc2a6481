"""The names that users know tensors by, for records and audits."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.utils.weak import WeakTensorKeyDictionary

# Of this process: a name is of use wherever its tensor goes.
_names: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def name_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
  """Remembers each tensor's name, as long as it lives; the last one counts."""
  for name, tensor in tensors.items():
    _names[tensor] = name


def name_of(tensor: torch.Tensor) -> str:
  """The tensor's name; empty if it was given none."""
  return _names.get(tensor, '')
