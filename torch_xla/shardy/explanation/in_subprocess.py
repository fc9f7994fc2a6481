"""Runs what may end the process in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import multiprocessing
from typing import Optional, TypeVar

T = TypeVar('T')


def run(job: Callable[[], T]) -> Optional[T]:
  """The result of `job` in a fork; None if that ended before it did.

  Raises:
    Exception: what `job` raises.
  """
  forks = multiprocessing.get_context('fork')
  hear, tell = forks.Pipe(duplex=False)

  def work() -> None:
    try:
      tell.send((job(), None))
    except Exception as e:  # pylint: disable=broad-except
      tell.send((None, e))

  child = forks.Process(target=work)
  child.start()
  tell.close()
  result, error = None, None
  with hear, contextlib.suppress(EOFError):
    result, error = hear.recv()
  child.join()
  if error is not None:
    try:
      raise error
    finally:
      del error  # A cycle: this frame, error, traceback.
  return result
