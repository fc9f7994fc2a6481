"""Runs a script as its user would, and keeps the programs that it compiled."""

from __future__ import annotations

from collections.abc import Mapping
import os
import runpy
import sys
from typing import NamedTuple

import torch
import torch_xla
from torch_xla import runtime

from .. import mode
from ..compile.record import ProgramRecord
from ..stablehlo import dialects


class Ran(NamedTuple):
  """What a script compiled, and whether it failed.

  Attributes:
    held: the names of what its global modules hold.
  """
  programs: list[ProgramRecord]
  has_failed: bool
  held: frozenset[str]


def run(script: str, arguments: list[str]) -> Ran:
  """Runs a script in this process, with Shardy on; prints how it failed.

  Raises:
    DoorError: jaxlib is missing.
  """
  dialects.check_installed('Shardy is asked by way of StableHLO')
  if torch_xla.shardy.current_mode() is not mode.Mode.SHARDY:
    runtime.use_shardy()
  has_failed = False
  values: Mapping[str, object] = {}
  with torch_xla.shardy.record() as programs:
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
      values = runpy.run_path(script, run_name='__main__')
    except SystemExit as e:
      has_failed = e.code not in (None, 0)
      if isinstance(e.code, str):
        print(e.code, file=sys.stderr)
    except Exception:  # pylint: disable=broad-except
      sys.excepthook(*sys.exc_info())
      has_failed = True
  held = (name for module in values.values()
          if isinstance(module, torch.nn.Module)
          for name, _ in (*module.named_parameters(), *module.named_buffers()))
  return Ran(programs, has_failed, frozenset(held))
