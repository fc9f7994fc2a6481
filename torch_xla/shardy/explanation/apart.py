"""Runs what may end the process in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
import os
import pickle
import signal
from typing import TypeVar

from ..stablehlo.dialects import ProgramTextError
from ..stablehlo.mlir import jaxlib

T = TypeVar('T')


def run(job: Callable[[], T]) -> T:
  """What `job` returns, in a fork.

  Of some programs jaxlib 0.10.2's Shardy cannot say where axes came from: it
  follows a null pointer.

  Raises:
    ProgramTextError: it ended, or `job` raised one.
  """
  version = jaxlib.__version__  # Imported here, once.
  hear, tell = os.pipe()
  child = os.fork()
  if not child:
    os.close(hear)
    try:
      try:
        made: tuple[object, str] = job(), ''
      except ProgramTextError as e:
        made = None, str(e)
      with open(tell, 'wb') as file:
        pickle.dump(made, file)
    finally:
      os._exit(0)
  os.close(tell)
  with open(hear, 'rb') as file:
    data = file.read()
  _, status = os.waitpid(child, 0)
  if not data:
    how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(
        status) else 'without a result'
    raise ProgramTextError(
        f'jaxlib {version}: Shardy ended ({how}) when it was asked where the '
        'axes of this program came from: it cannot be explained')
  result: T
  result, error = pickle.loads(data)
  if error:
    raise ProgramTextError(error)
  return result
