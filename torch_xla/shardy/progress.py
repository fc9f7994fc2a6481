"""Says on the terminal what takes long."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import sys
import threading
import time
from typing import TextIO

_PATIENCE_SECONDS = 2.0
_AGAIN_SECONDS = 30.0


class Progress:
  """Lines such as 'aot v5e:16x16: program 3: compiled in 12.3 s'."""

  def __init__(self, title: str, stream: TextIO = sys.stderr):
    self._title = title
    self._stream = stream

  def say(self, text: str) -> None:
    print(f'{self._title}: {text}', file=self._stream, flush=True)

  @contextlib.contextmanager
  def compiling(self, name: str, called_from: tuple[str,
                                                    ...]) -> Iterator[None]:
    """Says what is being compiled, as long as it takes, and that it ended."""
    if called_from:
      name += f', asked for at {called_from[0]}'
    end = threading.Event()
    start = time.perf_counter()

    def wait() -> None:
      patience = _PATIENCE_SECONDS
      while not end.wait(patience):
        self.say(f'{name}: compiling for {time.perf_counter() - start:.0f} s')
        patience = _AGAIN_SECONDS

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    ended = 'refused'
    try:
      yield
      ended = 'compiled'
    finally:
      end.set()
      waiting.join()
      self.say(f'{name}: {ended} in {time.perf_counter() - start:.1f} s')
