"""The memory that a process and its devices hold, and how it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import ctypes
import dataclasses
import gc
import os
from typing import Optional

from .client import Client
from .table import MissingError, PjrtError

# The figures of memory: as each is said, and bytes that it may grow by whatever is
# done, which allocators keep, and with each step. A plugin that has an allocator
# of its own is seen by the process's pages alone.
_KINDS = {
    'heap': ('the heap', 48 << 10, 16),
    'resident': ('the process', 640 << 10, 16),
    'device': ("the devices' memory", 1 << 20, 0),
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
  """The growth of memory in two or more spans of as many steps each.

  Attributes:
    steps: of a span.
    spans: of each kind that is told, the bytes of each.
  """
  steps: int
  spans: dict[str, tuple[int, ...]]

  def leaks(self) -> str:
    """The kinds that grew in each span by more than noise, unlike caches."""
    leaks = []
    for name, span in self.spans.items():
      (kind, noise, each_step), least = _KINDS[name], min(span)
      if least > noise + each_step * self.steps:
        each = ' and by '.join(f'{grown:,}' for grown in span)
        leaks.append(f'{kind} grew by {each} bytes in {self.steps:,} '
                     f'steps each, {least / self.steps:,.0f} a step')
    return '; '.join(leaks)

  def __str__(self) -> str:
    return ', '.join(f'{_KINDS[name][0]} {min(span) / self.steps:+,.1f}'
                     for name, span in self.spans.items())


def growth(client: Optional[Client], steps: int,
           step: Callable[[int], None]) -> Growth:
  """Runs `step(number)` in spans of `steps`, and measures all but the first.

  These are two, or four if something seems to leak: what only fills up slowly on
  a busy machine comes to an end.

  Args:
    client: whose devices are asked too; None: none.
  """
  seen: list[dict[str, int]] = []
  while len(seen) < 3 or len(seen) < 5 and _growth(steps, seen).leaks():
    for number in range(len(seen) * steps, (len(seen) + 1) * steps):
      step(number)
    seen.append(_held(client))
  return _growth(steps, seen)


def _growth(steps: int, seen: Sequence[dict[str, int]]) -> Growth:
  names = [name for name in seen[0] if all(name in each for each in seen)]
  return Growth(
      steps, {
          name:
              tuple(after[name] - before[name]
                    for before, after in zip(seen, seen[1:])) for name in names
      })


def _held(client: Optional[Client]) -> dict[str, int]:
  """The bytes of each kind, by its name; without those that nobody tells."""
  gc.collect()
  held: dict[str, int] = {}
  process = ctypes.CDLL(None)
  if hasattr(process, 'mallinfo2'):  # glibc 2.33 has it.
    process.mallinfo2.restype = _Mallinfo
    process.malloc_trim(0)  # Free memory is no part of the process's.
    info = process.mallinfo2()
    held['heap'] = info.uordblks + info.hblkhd
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
