"""The start of a process: its environment, and its interpreter's flags."""

from __future__ import annotations

import os
import subprocess
from typing import Optional


def started_with() -> Optional[dict[str, str]]:
  """The variables that this process began with; None where unknown.

  A forked process tells those of its parent.
  """
  try:
    with open('/proc/self/environ', 'rb') as f:
      entries = os.fsdecode(f.read()).split('\0')
  except OSError:
    return None
  return dict(e.split('=', 1) for e in entries if '=' in e)


def interpreter_flags() -> list[str]:
  """The flags of this Python: -O, -W..., -X..."""
  # As multiprocessing does.
  return subprocess._args_from_interpreter_flags()  # type: ignore
