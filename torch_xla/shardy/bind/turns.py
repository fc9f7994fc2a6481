"""Threads take turns: one syncs, another annotates what it has loaded.

A sync looks at all tensors that live, without Python's lock, and fails where it
finds one on its way from a node to data (`usage`).
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import sys
import threading
from typing import Optional

import torch_xla

_SECONDS = .1


class Turns:
  """A lock that a sync takes, and loses where it fails."""

  def __init__(self):
    self._lock = threading.Lock()
    self._syncing: Optional[int] = None  # The thread.

  def begin_sync(self) -> None:
    if self._syncing != threading.get_ident():  # A sync of its own failed.
      self._wait()
      self._syncing = threading.get_ident()

  def end_sync(self) -> None:
    if self._syncing == threading.get_ident():
      self._syncing = None
      self._lock.release()

  @contextlib.contextmanager
  def between_syncs(self) -> Iterator[None]:
    """No other thread syncs in this block."""
    if self._syncing == threading.get_ident():
      yield
      return
    self._wait()
    try:
      yield
    finally:
      self._lock.release()

  def _wait(self) -> None:
    while not self._lock.acquire(timeout=_SECONDS):
      thread = self._syncing
      if thread is not None and not _syncs(thread):
        # Its sync failed, and nobody said so.
        self._syncing = None
        self._lock.release()


def _syncs(thread: int) -> bool:
  """Whether a thread is in `torch_xla.sync` now."""
  frame = sys._current_frames().get(thread)  # pylint: disable=protected-access
  while frame is not None:
    if frame.f_code is torch_xla.sync.__code__:
      return True
    frame = frame.f_back
  return False
