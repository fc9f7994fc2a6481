"""Parts that child processes share: timing by section, and reporting."""

import collections
import contextlib
import json
import statistics
import sys
import time
from typing import Any, Dict, Iterator, List


class Sections:
  """Adds up the time spent in named sections, each without those inside it."""

  def __init__(self):
    self.seconds: Dict[str, float] = collections.defaultdict(float)
    self._inside: List[float] = []

  @contextlib.contextmanager
  def section(self, name: str) -> Iterator[None]:
    start = time.perf_counter()
    self._inside.append(0.0)
    try:
      yield
    finally:
      elapsed = time.perf_counter() - start
      self.seconds[name] += elapsed - self._inside.pop()
      if self._inside:
        self._inside[-1] += elapsed

  def watch(self, owner: Any, function: str, name: str) -> None:
    """Counts every call of `owner.function` to the section `name`."""
    original = getattr(owner, function)

    def timed(*args, **kwargs):
      with self.section(name):
        return original(*args, **kwargs)

    setattr(owner, function, timed)

  def milliseconds(self, steps: int) -> Dict[str, float]:
    """Per section, for one of `steps` steps."""
    return {name: 1e3 * s / steps for name, s in self.seconds.items()}


def median_ms(seconds: List[float]) -> float:
  return 1e3 * statistics.median(seconds)


def arguments() -> Dict[str, Any]:
  """The settings that the parent process asks for."""
  return json.loads(sys.argv[1])


def report(**values: Any) -> None:
  """Hands `values` to the parent process, which reads the last line."""
  print(json.dumps(values), flush=True)
