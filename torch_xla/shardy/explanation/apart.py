"""Runs what may end the process in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
import os
import pickle
from typing import Optional, TypeVar

T = TypeVar('T')


def run(job: Callable[[], T]) -> Optional[T]:
  """What `job` returns, in a fork; None if that ended before it did.

  Raises:
    Exception: what `job` raises.
  """
  hear, tell = os.pipe()
  child = os.fork()
  if not child:
    os.close(hear)
    try:
      value, error = None, None
      try:
        value = job()
      except Exception as e:  # pylint: disable=broad-except
        error = e
      with open(tell, 'wb') as file:
        pickle.dump((value, error), file)
    finally:
      os._exit(0)
  os.close(tell)
  with open(hear, 'rb') as file:
    data = file.read()
  os.waitpid(child, 0)
  if not data:
    return None
  result: T
  result, error = pickle.loads(data)
  if error is not None:
    raise error
  return result
