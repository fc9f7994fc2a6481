"""How many CPU seconds each test module takes, its children's among them."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import json
import resource

import pytest

import processes


class CpuSeconds:
  """CPU seconds by module, while a session runs."""

  def __init__(self):
    self.of_modules: dict[str, float] = {}

  def add(self, module: str, seconds: float) -> None:
    self.of_modules[module] = self.of_modules.get(module, 0.) + seconds

  @contextlib.contextmanager
  def _counting(self, item: pytest.Item) -> Iterator[None]:
    """Counts what this process and what it waits for take in the block."""
    before = _taken() + processes.called_cpu_seconds()
    try:
      yield
    finally:
      after = _taken() + processes.called_cpu_seconds()
      self.add(module_of(item.nodeid), after - before)

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_setup(self, item: pytest.Item):
    with self._counting(item):
      return (yield)

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_call(self, item: pytest.Item):
    with self._counting(item):
      return (yield)

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_teardown(self, item: pytest.Item):
    with self._counting(item):
      return (yield)

  def write(self, path: str) -> None:
    """Writes them down, the largest first, when the servers are closed.

    What the process takes beside its tests, to collect them and to fork, has
    an entry of its own.
    """
    beside = _taken() - sum(self.of_modules.values())
    ordered = sorted(self.of_modules.items(), key=lambda item: -item[1])
    with open(path, 'w', encoding='utf-8') as file:
      json.dump(
          {
              name: round(taken, 2)
              for name, taken in [('beside the tests', beside), *ordered]
          },
          file,
          indent=1)


def module_of(node: str) -> str:
  return node.partition('::')[0]


def _taken() -> float:
  usages = [
      resource.getrusage(who)
      for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
  ]
  return sum(usage.ru_utime + usage.ru_stime for usage in usages)
