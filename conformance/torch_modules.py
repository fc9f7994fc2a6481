"""torch and torch_xla, for cases that need them: imported as they are used.

So all cases can be listed, and those of a plugin's table run, without them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from .case import Needs
from .shared.late_module import LateModule

__all__ = ['metrics', 'missing', 'torch', 'torch_xla', 'xr', 'xs']

if TYPE_CHECKING:
  import torch
  import torch_xla
  import torch_xla.debug.metrics as metrics
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
else:
  torch = LateModule('torch')
  torch_xla = LateModule('torch_xla')
  metrics = LateModule('torch_xla.debug.metrics')
  xs = LateModule('torch_xla.distributed.spmd')
  xr = LateModule('torch_xla.runtime')

# What tells this project's torch_xla from others.
_MODES = 'shardy/switch.py'


def missing(needs: Needs) -> str:
  """The needs of a case that this Python lacks, and how to get them; or ''.

  Nothing is imported.
  """
  if needs is Needs.PLUGIN:
    return ''
  torch_xla_ = importlib.util.find_spec('torch_xla')
  if torch_xla_ is None or importlib.util.find_spec('torch') is None:
    return ('it needs torch_xla: pip install torch_xla, and the torch that it '
            'was built for')
  folders = torch_xla_.submodule_search_locations or ()
  if needs is Needs.MODES and not any(
      Path(folder, _MODES).is_file() for folder in folders):
    return ('it needs a torch_xla with modes Shardy and V2: pip install the '
            'wheel torch_xla-*+shardy.*.whl of the release that this suite is '
            'of')
  return ''
