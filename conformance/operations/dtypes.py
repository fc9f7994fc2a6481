"""Names of dtypes, and which of them a device may not have."""

from __future__ import annotations

import torch

# What some devices have no arithmetic in.
OPTIONAL = (torch.float64, torch.float16, torch.int16, torch.int8, torch.uint8)


def name(dtype: torch.dtype) -> str:
  """The short name of a dtype: 'float32' for torch.float32."""
  return str(dtype).removeprefix('torch.')
