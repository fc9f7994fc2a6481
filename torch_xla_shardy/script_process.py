"""Runs a script in this process as Python itself would."""

from __future__ import annotations

import os
import runpy
import sys
import threading
from typing import Any, NoReturn

_FAILED = 3


def run(script: str, arguments: list[str]) -> dict[str, Any]:
  """Runs a script as `__main__`; returns its globals.

  `os._exit` on its main thread raises SystemExit: otherwise nothing after the
  script could inspect its results. On another thread it ends the process, as
  failed.
  """
  # Python itself gives a script its whole path in `__file__`; runpy gives it in
  # sys.argv, too.
  path = os.path.abspath(script)
  sys.argv[:] = [path, *arguments]
  sys.path[0] = os.path.dirname(path)
  leave, process = os._exit, os.getpid()

  def end(status: int) -> NoReturn:
    if os.getpid() != process:
      leave(status)
    if threading.current_thread() is not threading.main_thread():
      print(
          f'error: {script} ended with os._exit on a thread: nothing is told',
          file=sys.stderr,
          flush=True)
      leave(status or _FAILED)
    sys.exit(status)

  os._exit = end
  try:
    return runpy.run_path(path, run_name='__main__')
  finally:
    os._exit = leave
