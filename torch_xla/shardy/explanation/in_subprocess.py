"""Runs what may end the process in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import multiprocessing
import signal
import threading
from typing import Optional, TypeVar

T = TypeVar('T')


def run(job: Callable[[], T]) -> Optional[T]:
  """The result of `job` in a fork; None if that ended before it did.

  Raises:
    Exception: what `job` raises.
  """
  forks = multiprocessing.get_context('fork')
  hear, tell = forks.Pipe(duplex=False)
  deliver = _delay_interrupts()

  def work() -> None:
    try:
      deliver()
      tell.send((job(), None))
    except Exception as e:  # pylint: disable=broad-except
      tell.send((None, e))

  child = forks.Process(target=work)
  try:
    child.start()
  finally:
    deliver()
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


def _delay_interrupts() -> Callable[[], None]:
  """Delays SIGINT until what is returned is called.

  Python drops a KeyboardInterrupt that comes while the hooks of a fork run.
  """
  if threading.current_thread() is not threading.main_thread():
    return lambda: None
  delayed: list[int] = []
  handler = signal.signal(signal.SIGINT, lambda *_: delayed.append(1))

  def deliver() -> None:
    signal.signal(signal.SIGINT, handler)
    if delayed:
      signal.raise_signal(signal.SIGINT)

  return deliver
