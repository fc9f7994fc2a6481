"""How many CPU seconds each test module takes, its children's among them."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import json
import resource

import processes


class CpuSeconds:
  """CPU seconds by module, while a session runs."""

  def __init__(self):
    self.of_modules: dict[str, float] = {}

  def add(self, module: str, seconds: float) -> None:
    self.of_modules[module] = self.of_modules.get(module, 0.) + seconds

  @contextlib.contextmanager
  def counting(self, module: str) -> Iterator[None]:
    """Counts what this process and what it waits for take in the block."""
    before = _taken()
    try:
      yield
    finally:
      self.add(module, _taken() - before)

  def write(self, path: str) -> None:
    """Writes them down, the largest first."""
    ordered = sorted(self.of_modules.items(), key=lambda item: -item[1])
    with open(path, 'w', encoding='utf-8') as file:
      json.dump({name: round(taken, 2) for name, taken in ordered}, file,
                indent=1)


def _taken() -> float:
  usages = [
      resource.getrusage(who)
      for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
  ]
  return processes.called_cpu_seconds() + sum(
      usage.ru_utime + usage.ru_stime for usage in usages)
