"""The memory that a process and its devices hold, and how it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import ctypes
import dataclasses
import gc
import os
from typing import Optional

from .client import Client
from .table import MissingError, PjrtError


@dataclasses.dataclass(frozen=True)
class Kind:
  """A figure of memory.

  Attributes:
    name: as it is said.
    noise: bytes that it may grow by whatever is done: what allocators keep.
    each: bytes that it may grow by with each step.
  """
  name: str
  noise: int
  each: int


# A plugin that has an allocator of its own is seen by the process's pages alone.
_KINDS = {
    'heap': Kind('the heap', 48 << 10, 16),
    'resident': Kind('the process', 640 << 10, 16),
    'device': Kind('the devices\' memory', 1 << 20, 0),
}


class _Mallinfo(ctypes.Structure):
  """glibc's struct mallinfo2."""
  _fields_ = [
      (name, ctypes.c_size_t)
      for name in ('arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks',
                   'fsmblks', 'uordblks', 'fordblks', 'keepcost')
  ]


@dataclasses.dataclass(frozen=True)
class Growth:
  """How memory grew in two spans of as many steps each.

  Attributes:
    steps: of a span.
    spans: of each kind that is told, the bytes of both.
  """
  steps: int
  spans: dict[str, tuple[int, int]]

  def leaks(self) -> Iterator[str]:
    """What grew in both spans by more than noise: caches fill up but once."""
    for name, span in self.spans.items():
      kind, least = _KINDS[name], min(span)
      if least > kind.noise + kind.each * self.steps:
        yield (f'{kind.name} grew by {span[0]:,} and by {span[1]:,} bytes in '
               f'{self.steps:,} steps each, {least / self.steps:,.0f} a step')

  def __str__(self) -> str:
    return ', '.join(f'{_KINDS[name].name} {min(span) / self.steps:+,.1f}'
                     for name, span in self.spans.items())


def growth(client: Optional[Client], steps: int,
           step: Callable[[int], None]) -> Growth:
  """Runs `step(number)` in three spans of `steps`, and measures the last two.

  Args:
    client: whose devices are asked too; None: none.
  """
  told = []
  for span in range(3):
    for number in range(span * steps, (span + 1) * steps):
      step(number)
    told.append(_held(client))
  first, second, third = told
  return Growth(
      steps, {
          name: (second[name] - first[name], third[name] - second[name])
          for name in first
          if name in second and name in third
      })


def _held(client: Optional[Client]) -> dict[str, int]:
  """The bytes of each kind, by its name; without those that nobody tells."""
  gc.collect()
  held: dict[str, int] = {}
  process = ctypes.CDLL(None)
  if hasattr(process, 'mallinfo2'):  # glibc 2.33 has it.
    process.mallinfo2.restype = _Mallinfo
    told = process.mallinfo2()
    held['heap'] = told.uordblks + told.hblkhd
  held['resident'] = _resident()
  on_devices = client and _on_devices(client)
  if on_devices is not None:
    held['device'] = on_devices
  return held


def _resident() -> int:
  with open('/proc/self/statm', encoding='ascii') as file:
    return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def _on_devices(client: Client) -> Optional[int]:
  try:
    return sum(map(client.bytes_in_use, range(len(client.devices))))
  except (MissingError, PjrtError):
    return None
