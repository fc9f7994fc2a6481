"""Arrays of float32, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import struct

from .buffer import Buffer
from .host_array import HostArray


def floats(values: Iterable[float]) -> HostArray:
  """An array of rank 1."""
  listed = tuple(values)
  return HostArray('F32', (len(listed),),
                   struct.pack(f'<{len(listed)}f', *listed))


def read_floats(buffer: Buffer, count: int) -> tuple[float, ...]:
  return struct.unpack(f'<{count}f', buffer.read('F32', (count,)).data)


def destroy(buffers: Sequence[Buffer]) -> None:
  for buffer in buffers:
    buffer.destroy()
